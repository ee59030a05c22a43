"""The story of a run: how its reward changed, what happened at once, and what is over.

A resume at which a fall begins is its first suspect. It loads weights and may lose the rest: the optimizer's moments,
the place in the learning-rate schedule, the order of the data, the reference policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.intervals import interval, percent, span_text
from bayes_grpo.common.text import StepName
from bayes_grpo.diagnosis.mode import Episode, Timeline, failure_names
from bayes_grpo.diagnosis.modes.lost_values import MODE as LOST_VALUES
from bayes_grpo.diagnosis.records import Finding, FindingKind
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.logs.run import Run
from bayes_grpo.signals.events import dips_of, jumps_of
from bayes_grpo.signals.logged import Logged

_SIDE_ROWS = 6
"""Rows on each side of a resume whose medians are compared."""
_LEAST_ROWS = 3
_RESUMED = 1.5
"""Ratio of these medians from which a change is named."""
_SLACK_PART = 16
_LONGEST_SLACK = 12
"""Rows by which the onset of a failure may come before the resume behind it, at most."""


def progress_text(view: RunView) -> str:
    """Change of the reward, the evidence behind every verdict."""
    path = view.reward
    name = "evaluation reward" if view.paths.uses_eval else "train reward"
    change = path.change()
    p = float((change > path.noise).mean())
    level = f"{path.display_value(path.now):.3g}"
    return (
        f"the {name} changed by {span_text(interval(change), '.3g')} to {level}; "
        f"{percent(p)} chance that the rise exceeds one row's noise"
    )


def rows_not_finite(view: RunView, timeline: Timeline) -> tuple[Finding, ...]:
    """All rows in which a signal has a NaN or infinite value, as one finding; none without any."""
    found = [e for e in timeline.episodes if e.mode == LOST_VALUES.name]
    if not found:
        return ()
    text = LOST_VALUES.text(view, found[0].onset.low, found[-1].end.high)
    return (replace(_over(found), severity=text),)


def instability_over(timeline: Timeline) -> tuple[Finding, ...]:
    """The instabilities that are over, as one finding; none without any."""
    found = [e for e in timeline.probable(over=True) if e.mode == "dynamical_instability"]
    return (_over(found),) if found else ()


def _over(episodes: Sequence[Episode]) -> Finding:
    """Past episodes of one mode: a single one with its severity, several as a count."""
    first, last = episodes[0], episodes[-1]
    return Finding(
        kind=first.mode,
        step=first.onset,
        numbers={"end": last.end.median, "episodes": len(episodes)},
        probability=max(e.probability for e in episodes),
        severity=first.severity_text if len(episodes) == 1 else "",
    )


_COMPARED = ("learning_rate", "grad_norm", "kl", "entropy", "completion_length")
"""Signals that a faulty resume changes at once."""


class Resume(NamedTuple):
    """A resume at which failures under way begin.

    Attributes:
        step: Its step.
        modes: Failures whose onset covers it.
        changes: Signals that changed there.
    """

    step: float
    modes: tuple[str, ...]
    changes: tuple[Finding, ...]


def resume_before(timeline: Timeline, view: RunView) -> Resume | None:
    """The last resume of a run at which a failure under way begins; None where none does."""
    step = view.reward.logged.step
    slack = min(view.rows // _SLACK_PART, _LONGEST_SLACK) * float(np.median(np.diff(step)))
    for resume in sorted(view.run.resumes, reverse=True):
        found = (e for e in timeline.probable(over=False) if e.onset.low - slack <= resume <= e.onset.high + slack)
        modes = tuple(e.mode for e in found if e.mode in failure_names())
        if modes and resume > step[0]:
            return Resume(resume, modes, changes_at(view.run, resume))
    return None


def changes_at(run: Run, step: float) -> tuple[Finding, ...]:
    """Signals whose median over six rows changed at a step by a factor that counts."""
    out = []
    for key in _COMPARED:
        y = Logged.of(run.step, run.values(key))
        sides = y.value[y.step < step][-_SIDE_ROWS:], y.value[y.step >= step][:_SIDE_ROWS]
        if min(map(len, sides)) < _LEAST_ROWS:
            continue
        before, after = (float(np.median(np.abs(x))) for x in sides)
        if max(before, after) > _RESUMED * min(before, after):
            out.append(Finding.of("signal_changed", key, before=before, after=after))
    return tuple(out)


def sudden_events(view: RunView) -> tuple[Finding, ...]:
    """Dips that are over, jumps and resumes, in the order of their steps."""
    run = view.run
    y = view.reward.logged
    named: set[float] = set()
    steps = run.step if len(run.step) else y.step  # a log of evaluations alone has no rows
    found: list[Finding] = []

    def add(kind: FindingKind, step: float, **numbers: float) -> None:
        """Adds an event with the resume at it or at most two rows before."""
        first = steps[max(int(np.searchsorted(steps, step)) - 2, 0)]
        behind = sorted(s for s in run.resumes if first <= s <= step)[-1:]
        named.update(behind)
        parts = tuple(resume_at(run.step_name(s)) for s in behind)
        at = run.step_name(step)
        found.append(Finding(kind=kind, step=interval(step), at=at, numbers=numbers, parts=parts))

    for dip in dips_of(y):
        back = {"back": float(y.step[dip.last + 1])} if dip.last > dip.first else {}
        add("dip", float(y.step[dip.first]), low=dip.extreme, usual=dip.usual, **back)
    for jump in jumps_of(y):
        add("jump", float(y.step[jump.row]), before=jump.before, after=jump.after)
    begun = [s for s in run.resumes if s > y.step[0] and s not in named]
    found += [resume_at(run.step_name(s)) for s in begun]
    return tuple(sorted(found, key=lambda x: 0.0 if x.at is None else x.at.step))


def resume_at(at: StepName) -> Finding:
    """A resume of the training."""
    return Finding(kind="resumed", step=interval(at.step), at=at)
