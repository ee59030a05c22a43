"""`update_of`: one look at a run that goes on. The same numbers as `forecast` and `diagnose`, within a second.

Each law's fast posterior starts from the draws of the look before, so that three batches of points are enough where
a first fit climbs from the prior over ten. NUTS is not called in: a law whose points cannot be trusted is left out, as
growing laws are after a collapse, and tried again when the log has grown by a quarter. What goes wrong inside a look is
a note of it, because whoever watches a run wants the rest all the same.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayes_grpo.accounts.advice import advised, given
from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.common.programs import forget_programs
from bayes_grpo.common.text import plain
from bayes_grpo.decision.price import priced
from bayes_grpo.decision.recall import Doubt, doubt_of
from bayes_grpo.decision.result import Decision
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.status import TopLine
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.basis import basis_of_run
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_regimes, without
from bayes_grpo.forecasting.forecast import forecast_of_regimes
from bayes_grpo.forecasting.horizon import horizon_of
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.future import rows_ahead
from bayes_grpo.rows.padding import doubled
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.siblings.departure import Departure, departure_among
from bayes_grpo.siblings.together import read_together
from bayes_grpo.watching.alarms import alarms_of
from bayes_grpo.watching.beside import AGAIN, siblings_of
from bayes_grpo.watching.result import Alarm, Memory, Outlook, Update, Watching

POINTS = ImportanceSettings(effective=1000.0, rounds=12, draws=500)
"""Points of a look: enough for paths and weights, fewer than a forecast that is made once."""


def update_of(run: RunLike, watching: Watching | None = None, memory: Memory | None = None) -> tuple[Update, Memory]:
    """One look at a run.

    Args:
        run: The run as it is logged so far, or what `bayes_grpo.read_log` makes one of.
        watching: What is asked; the defaults if None.
        memory: What the look before left; None for the first.

    Returns:
        The look, and the memory for the next one.
    """
    begin = time.perf_counter()
    run = as_run(run)
    watching, known = watching or Watching(), memory or Memory()
    step, reward = rewards_of(run)
    first = (float(step[0]), float(reward[0])) if len(step) else ()
    sounded = dict(known.sounded) if known.first in ((), first) else {}  # what was found in another run is new again
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)  # the notes say the same
        diagnosis: Diagnosis | None = None
        alarms: tuple[Alarm, ...] = ()
        ahead: _Ahead | None = None
        departure: Departure | None = None
        with noted(notes, "diagnosis"):
            diagnosis = diagnose(run)
        if diagnosis is not None:
            with noted(notes, "alarms"):
                alarms = alarms_of(run, diagnosis, watching, sounded)
        if watching.like:
            before, known = known.siblings, known._replace(siblings=None)
            with noted(notes, "siblings"):
                table = rows_of(run, watching.signal)
                named = siblings_of(run, table, watching.like, before)
                known = known._replace(siblings=named)
                departure = departure_among(run, table, named.runs)
        if watching.forecasts:
            with noted(notes, "forecast"):
                ahead = _ahead(run, watching, known, doubt_of(diagnosis))
    top = None if diagnosis is None else diagnosis.top
    if top is not None and ahead is not None:
        top = advised(top, ahead.outlook, ahead.decision)
        ahead = ahead._replace(outlook=_under(top, ahead.outlook))
    told = sounded | {a.finding: a.step for a in alarms}
    update = Update(
        name=run.name,
        step=float(step[-1]) if len(step) else math.nan,
        rows=len(reward),
        reward=float(reward[-1]) if len(reward) else math.nan,
        probability={} if diagnosis is None else dict(diagnosis.probability),
        top=top,
        diagnosis="" if diagnosis is None else plain(diagnosis.sentence, 1000),
        outlook=None if ahead is None else ahead.outlook,
        alarms=alarms,
        told=told,
        notes=tuple(dict.fromkeys((*notes, *(() if ahead is None else ahead.notes)))),
        seconds=time.perf_counter() - begin,
        siblings=None if departure is None else departure.to_dict(),
    )
    after = known._replace(sounded=told, first=first)
    if ahead is not None:
        after = after._replace(points=ahead.points, rough=ahead.rough, length=ahead.length)
    return update, after


def rewards_of(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of the rewards that a look counts: train rewards, or held-out ones where there are none."""
    step, reward = (run.step, run.reward) if run.has_reward else (run.eval_step, run.eval_reward)
    kept = np.isfinite(reward)
    return step[kept], reward[kept]


class _Ahead(NamedTuple):
    """A forecast, its notes, and what the next one needs of the laws behind it."""

    outlook: Outlook
    decision: Decision | None
    notes: tuple[str, ...]
    points: Mapping[str, np.ndarray]
    rough: Mapping[str, int]
    length: int


def _ahead(run: Run, watching: Watching, memory: Memory, doubt: Doubt | None) -> _Ahead:
    """The steps to come, from laws that start where the look before left them."""
    basis = basis_of_run(run, watching.signal)
    last = float(basis.table.step[-1])
    until, origin = horizon_of(basis.settings, last, watching.until)
    if last == round(last):
        until = math.ceil(until)  # whole steps stay whole
    if until <= last:
        raise BayesGrpoError(f"the run has come to step {last:g}, and the forecast was to end at {until:g}")
    ahead, rows = rows_ahead(basis.table, until, basis.ahead), len(basis.table.y)
    length = doubled(rows)
    if memory.length not in (0, length):
        forget_programs()  # the log has outgrown them: 150 MB that nobody needs any more
    rough = {name: n for name, n in memory.rough.items() if n <= rows < AGAIN * n}
    fitted = fit_regimes(
        basis.rows,
        [name for name in FORECAST_REGIMES if name not in rough],
        reward=basis.reward,
        seed=watching.seed,
        settings=POINTS,
        strict=False,
        start=memory.points,
    )
    found_rough = {name: rows for name, x in fitted.draws.items() if not x.diagnostics.passed}
    if len(found_rough) < len(fitted.draws):
        fitted, rough = without(fitted, found_rough), rough | found_rough
    unanswered: list[str] = []
    together = None
    if watching.like and memory.siblings is not None:  # read for this look; what kept them from it is noted there
        with noted(unanswered, "siblings"):
            together = read_together(basis.table, memory.siblings.runs, memory.siblings.courses)
    found = forecast_of_regimes(basis, fitted, ahead, draws=watching.draws, seed=watching.seed, siblings=together)
    summary = summarize_forecast(found)
    decision = None
    if watching.question is not None:
        with noted(unanswered, "advice"):
            decision = priced(watching.question, run).answer(found, doubt)
    stopping = None if decision is None else decision.stopping
    budget = None if decision is None else decision.budget
    stop = None if budget is None else budget.step
    if stopping is not None:  # a rule on the rows to come asks for one more of them at least
        stop = stopping.next_step
    outlook = Outlook(
        until=float(until),
        until_from=origin,
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
    left_out = (f"{', '.join(rough)} left out: too few points fit these rows",) if rough else ()
    said = () if decision is None else decision.warnings
    notes = (*summary.assumed, *summary.notes, *left_out, *said, *unanswered)
    points = {k: x.points for k, x in fitted.draws.items()}
    return _Ahead(outlook, decision, notes, points, rough, length)


def _under(top: TopLine, outlook: Outlook) -> Outlook:
    """What is to come as it is told under a top line."""
    return replace(outlook, sentence=given(top, outlook.sentence), advice=given(top, outlook.advice))


@contextmanager
def noted(notes: list[str], what: str) -> Iterator[None]:
    """One part of a look: where it fails, however it fails, it leaves a note and the other parts go on."""
    try:
        yield
    except BayesGrpoError as error:
        notes.append(f"no {what}: {plain(error, 500)}")
    except Exception as error:  # a watch of days is not to end because of one row; the note says what to report
        notes.append(f"no {what}: {type(error).__name__}: {plain(error, 500)}")
