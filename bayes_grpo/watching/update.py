"""`update_of`: one look at a growing run, with the numbers of `forecast` and `diagnose`.

What goes wrong inside a look is a note of it, because the rest is wanted all the same.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import fields
from functools import partial
from typing import Any

from bayes_grpo.analysis.analyze import AnalysisSettings, analyze
from bayes_grpo.analysis.result import Forecasted, Part, given
from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.common.programs import forget_programs
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.forecasting.expected import Expected
from bayes_grpo.logs.reading import RunLike, as_run
from bayes_grpo.logs.run import Run
from bayes_grpo.references.gather import named_runs
from bayes_grpo.rows.padding import bucket
from bayes_grpo.watching.alarms import alarms_of
from bayes_grpo.watching.result import Alarm, Memory, Outlook, Update, Watching


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
    length = bucket(len(reward), 1)
    if known.length not in (0, length):
        forget_programs()  # the log has outgrown them; this frees 150 MB
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)  # the notes say the same
        references: Part[tuple[Run, ...]] = Part(known.references, "")
        if watching.reference_runs and known.references is None:
            references = Part.of(lambda: tuple(named_runs(watching.reference_runs)[0]))
        settings = AnalysisSettings(
            horizon=watching.horizon,
            costs=watching.costs,
            signal=watching.signal,
            seed=watching.seed,
            reference_runs=references.value if watching.reference_runs else None,
            nuts=False,
        )
        parts = ("diagnosis", "forecast") if watching.forecasts else ("diagnosis",)
        found = analyze(run, parts, settings=settings)
        diagnosis, ahead = found.diagnosis.value, found.forecast.value
        alarms: Part[tuple[Alarm, ...]] = Part((), "")
        if diagnosis is not None:
            alarms = Part.of(partial(alarms_of, run, diagnosis, watching, alarmed))
        made = (("reference runs", references), *((name, getattr(found, name)) for name in parts), ("alarms", alarms))
        notes = [f"no {name}: {part.reason}" for name, part in made if part.reason]
    raised = alarms.value or ()
    every = alarmed | {a.finding: a.step for a in raised}
    update = Update(
        name=run.name,
        step=float(step[-1]) if len(step) else math.nan,
        rows=len(reward),
        reward=float(reward[-1]) if len(reward) else math.nan,
        probability={} if diagnosis is None else dict(diagnosis.probability),
        status=found.status,
        diagnosis="" if diagnosis is None else plain(diagnosis.sentence, 2000),
        outlook=None if ahead is None else _outlook(ahead, found.status),
        alarms=raised,
        alarmed=every,
        notes=tuple(dict.fromkeys((*notes, *(() if ahead is None else _notes(ahead))))),
        seconds=time.perf_counter() - begin,
    )
    return update, Memory(every, first, length, references.value)


def _outlook(ahead: Forecasted, status: Status | None) -> Outlook:
    """What a look shows of a forecast."""
    summary, decision = ahead.summary, ahead.decision
    shared: dict[str, Any] = {f.name: getattr(summary, f.name) for f in fields(Expected)}
    shared["sentence"] = given(status, summary.sentence)
    return Outlook(
        **shared,
        stop=None if decision is None else decision.recommended,
        advice="" if decision is None else given(status, decision.sentence),
        take=None if decision is None or decision.choice is None else decision.choice.step,
    )


def _notes(ahead: Forecasted) -> tuple[str, ...]:
    """What a forecast assumes, and what it could not answer."""
    warned = () if ahead.decision is None else ahead.decision.warnings
    undecided = (f"no advice: {plain(ahead.undecided, 500)}",) if ahead.undecided else ()
    return (*ahead.summary.assumed, *ahead.summary.notes, *warned, *undecided)
