"""`update_of`: one look at a growing run, with the numbers of `forecast` and `diagnose`, within a second.

What goes wrong inside a look is a note of it, because the rest is wanted all the same.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from bayes_grpo.analysis.advice import given
from bayes_grpo.analysis.analyze import GrowingRun, analyze
from bayes_grpo.analysis.growing import AGAIN
from bayes_grpo.analysis.result import Forecasted, ForecastState, Part
from bayes_grpo.analysis.settings import AnalysisSettings
from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.common.text import plain
from bayes_grpo.decision.question import Question
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.siblings.gather import Like, SiblingRuns, gather_siblings
from bayes_grpo.siblings.together import Courses, read_together
from bayes_grpo.watching.alarms import alarms_of
from bayes_grpo.watching.result import Alarm, Memory, Outlook, Update, Watching


class Siblings(NamedTuple):
    """Reference runs, kept from look to look.

    Attributes:
        like: Where they are.
        rows: Rows of the run when they were read.
        runs: The reference runs.
        courses: Their courses.
    """

    like: Like
    rows: int
    runs: SiblingRuns
    courses: Courses


def update_of(run: RunLike, watching: Watching | None = None, memory: Memory | None = None) -> tuple[Update, Memory]:
    """One look at a run.

    Args:
        run: The run as it is logged so far, or what `bayes_grpo.read_log` makes one of.
        watching: What to compute; the defaults if None.
        memory: What the look before left; None for the first.

    Returns:
        The look, and the memory for the next one.
    """
    begin = time.perf_counter()
    run = as_run(run)
    watching, known = watching or Watching(), memory or Memory()
    step, reward = run.rewards
    first = (float(step[0]), float(reward[0])) if len(step) else ()
    alarmed = dict(known.alarmed) if known.first in ((), first) else {}  # what was found in another run is new again
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)  # the notes say the same
        read: Part[Siblings] = Part(reason="")
        if watching.like and watching.forecasts:
            read = Part.of(partial(_siblings, run, watching, known.siblings))
        siblings = read.value
        parts = ("diagnosis", "forecast") if watching.forecasts else ("diagnosis",)
        found = analyze(run, parts, settings=_settings(watching), look=_look(known, siblings))
        diagnosis, ahead, top = found.diagnosis.value, found.forecast.value, found.top
        alarms: Part[tuple[Alarm, ...]] = Part((), "")
        if diagnosis is not None:
            alarms = Part.of(partial(alarms_of, run, diagnosis, watching, alarmed))
        made = (("siblings", read), *((name, getattr(found, name)) for name in parts))
        notes = [f"no {name}: {part.reason}" for name, part in (*made, ("alarms", alarms)) if part.reason]
    outlook = None if ahead is None else _outlook(ahead)
    if top is not None and outlook is not None:
        outlook = replace(outlook, sentence=given(top, outlook.sentence), advice=given(top, outlook.advice))
    raised = alarms.value or ()
    every = alarmed | {a.finding: a.step for a in raised}
    update = Update(
        name=run.name,
        step=float(step[-1]) if len(step) else math.nan,
        rows=len(reward),
        reward=float(reward[-1]) if len(reward) else math.nan,
        probability={} if diagnosis is None else dict(diagnosis.probability),
        top=top,
        diagnosis="" if diagnosis is None else plain(diagnosis.sentence, 1000),
        outlook=outlook,
        alarms=raised,
        alarmed=every,
        notes=tuple(dict.fromkeys((*notes, *(() if ahead is None else _notes(ahead))))),
        seconds=time.perf_counter() - begin,
    )
    after = known._replace(alarmed=every, first=first, siblings=siblings)
    if ahead is not None and ahead.state is not None:
        after = after._replace(**ahead.state._asdict())
    return update, after


def _siblings(run: Run, watching: Watching, known: Siblings | None) -> Siblings:
    """The reference runs of a run, the known ones unless it has grown.

    Raises:
        LogReadError: A named path does not exist or cannot be read.
    """
    table, like = rows_of(run, watching.signal), watching.like
    rows = len(table.y)
    if known is None or known.like != like or not known.rows <= rows < AGAIN * known.rows:
        return Siblings(like, rows, gather_siblings(run, table, like), {})
    return known


def _settings(watching: Watching) -> AnalysisSettings:
    return AnalysisSettings(
        until=watching.until,
        question=watching.question or Question(),
        signal=watching.signal,
        seed=watching.seed,
        paths=watching.draws,
    )


def _look(memory: Memory, siblings: Siblings | None) -> GrowingRun:
    """Where the forecast of this look starts."""
    state = ForecastState(memory.points, memory.rough, memory.length)
    if siblings is None:
        return GrowingRun(state)
    return GrowingRun(state, lambda rows: read_together(rows, siblings.runs, siblings.courses))


def _outlook(ahead: Forecasted) -> Outlook:
    """What a look shows of a forecast."""
    summary, decision = ahead.summary, ahead.decision
    stopping = None if decision is None else decision.stopping
    budget = None if decision is None else decision.budget
    stop = None if budget is None else budget.step
    if stopping is not None:
        stop = stopping.recommended
    return Outlook(
        until=summary.until,
        until_from=ahead.forecast.until_from,
        now=summary.now,
        at_horizon=summary.at_horizon,
        gain=summary.remaining_gain,
        threshold=summary.threshold,
        p_gain=summary.p_gain,
        p_peaked=summary.p_peaked,
        p_collapse=summary.p_collapse,
        p_takeoff=summary.p_takeoff,
        weights=summary.weights,
        sentence=summary.sentence,
        stop=stop,
        advice="" if decision is None else decision.sentence,
        take=None if stopping is None or stopping.choice is None else stopping.choice.step,
    )


def _notes(ahead: Forecasted) -> tuple[str, ...]:
    """What a forecast assumes, and what it could not answer."""
    warned = () if ahead.decision is None else ahead.decision.warnings
    undecided = (f"no advice: {plain(ahead.undecided, 500)}",) if ahead.undecided else ()
    return (*ahead.summary.assumed, *ahead.summary.notes, *warned, *undecided)
