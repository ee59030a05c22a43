"""The story of a run: present failures, earlier ones, and the failures that its log cannot show, in this order.

A resume at which a fall begins is its first suspect. It loads weights and may lose the rest: the optimizer's moments,
the place in the learning-rate schedule, the order of the data, the reference policy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, cast

import numpy as np

from bayes_grpo.common.intervals import interval, percent, rounded, span_text
from bayes_grpo.common.text import StepName
from bayes_grpo.diagnosis.logged import Logged
from bayes_grpo.diagnosis.mode import Episode, Timeline, all_modes, failure_names
from bayes_grpo.diagnosis.records import Finding, FindingKind
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends, rise_chance, total_change
from bayes_grpo.diagnosis.wording import joined, label_of
from bayes_grpo.logs.run import Run

LEFT_BY_SOLVED = ("advantage_degeneracy", "policy_concentration", "idle_steps", "one_sided_groups")
"""Modes that a solved task causes: zero-variance groups and low entropy are no failure there."""


def story(timeline: Timeline, trends: RunTrends, first: str = "", happened: Sequence[Finding] = ()) -> str:
    """The verdict in words.

    Args:
        timeline: Of the run.
        trends: Its trends.
        first: Mode of the status; the story begins with it where it is under way.
        happened: Sudden events that are over.
    """
    over = joined(x.clause for x in (*happened, *over_findings(timeline)))
    parts = [_now(timeline, trends, first), over and f"Earlier, now over: {over}.", _unseen(timeline)]
    return " ".join(part for part in parts if part)


def progress_text(trends: RunTrends) -> str:
    """Change of the reward, the evidence behind every verdict."""
    trend = trends.reward
    name = "train reward" if trends.run.has_reward else "evaluation reward"
    p, level = rise_chance(trends), f"{rounded(interval(trend.draws[:, -1]).median):.3g}"
    change = span_text(total_change(trend), ".3g")
    return f"the {name} changed by {change} to {level}; {percent(p)} chance that the rise exceeds one row's noise"


def _now(timeline: Timeline, trends: RunTrends, first: str) -> str:
    failures = failure_names()
    found = [e for e in timeline.probable(over=False) if e.mode in failures]
    if found:
        found.sort(key=lambda e: (e.mode != first, e.mode not in MODES, -e.probability))
        lead, *others = map(_episode, found)
        if first == "plateaued" and found[0].mode in LEFT_BY_SOLVED:  # the status calls the task solved
            lead = f"expected for a solved task: {lead}"
        return f"{lead[:1].upper()}{lead[1:]}." + "".join(f" Also {other}." for other in others)
    progress = progress_text(trends)
    shown = f"{progress[:1].upper()}{progress[1:]}"
    moves = [e for e in timeline.probable(over=False) if e.mode not in failures]
    if moves:
        last = max(moves, key=lambda e: (e.mode == first, e.probability))
        word = "rising" if last.mode == "growing" else "flat"
        since = f"The reward has been {word} since about step {last.onset.median:.0f} ({percent(last.probability)})."
        shown = f"{since} {shown}"
    estimate = timeline.now
    listed = sorted(MODES, key=lambda mode: -estimate.probability[mode])[:2]
    which = ", ".join(f"{label_of(mode)} {percent(estimate.probability[mode])}" for mode in listed)
    if estimate.failing >= THRESHOLDS.probable:
        fails = percent(estimate.failing)
        return f"A failure is likely ({fails}), but the log does not show which: {which}. {shown}."
    return f"No failure is likely ({which}). {shown}."


def kind_of(mode: str) -> FindingKind:
    """The kind of a mode's finding: its name."""
    return cast(FindingKind, mode)


def over_findings(timeline: Timeline, modes: Collection[str] = ()) -> list[Finding]:
    """Failures that are over: of all modes, or of some."""
    failures = modes or failure_names()
    by_mode: dict[str, list[Episode]] = {}
    for e in timeline.probable(over=True):
        if e.mode in failures:
            by_mode.setdefault(e.mode, []).append(e)
    return [_over(episodes) for episodes in by_mode.values()]


def _over(episodes: Sequence[Episode]) -> Finding:
    """Past episodes of one mode: a single one with its severity, several as a count."""
    first, last = episodes[0], episodes[-1]
    return Finding(
        kind=kind_of(first.mode),
        step=first.onset,
        numbers={"end": last.end.median, "episodes": len(episodes)},
        probability=max(e.probability for e in episodes),
        severity=first.severity_text if len(episodes) == 1 else "",
    )


def _unseen(timeline: Timeline) -> str:
    """Failures of the four that the log cannot show, and the signal each needs; "" without any."""
    found = [m for m in all_modes() if m.name in MODES and m.required_signal and not timeline.modes[m.name].seen]
    return f"Not checked: {', '.join(f'{m.label} (log {m.required_signal})' for m in found)}." if found else ""


def _episode(e: Episode) -> str:
    """A failure under way, with its onset and severity."""
    sharp = f"{e.onset.low:.0f}" == f"{e.onset.high:.0f}"
    severity = e.severity_text if sharp else e.severity_short  # a clause names the level once
    since = f"{label_of(e.mode)} ({percent(e.probability)}) since about step {span_text(e.onset, '.0f')}"
    return f"{since}: {severity}" if severity else since


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


def resume_behind(timeline: Timeline, rows: RunSoFar, run: Run) -> Resume | None:
    """The last resume of a run at which a failure under way begins, by all rows; None where none does."""
    y = rows.reward
    slack = min(y.window // 2, THRESHOLDS.trend_rows) * float(np.median(np.diff(y.step))) if y.rows > 1 else 0.0
    for step in sorted(run.resumes, reverse=True):
        found = (e for e in timeline.probable(over=False) if e.onset.low - slack <= step <= e.onset.high)
        modes = tuple(e.mode for e in found if e.mode in failure_names())
        if modes and step > y.step[0]:
            return Resume(step, modes, changes_at(run, step))
    return None


def changes_at(run: Run, step: float) -> tuple[Finding, ...]:
    """Signals whose median over six rows changed at a step by a factor that counts."""
    out, size = [], THRESHOLDS.trend_rows // 2
    for key in _COMPARED:
        y = Logged.of(run.step, run.values(key))
        sides = y.value[y.step < step][-size:], y.value[y.step >= step][:size]
        if min(map(len, sides)) < THRESHOLDS.least_rows:
            continue
        before, after = (float(np.median(np.abs(x))) for x in sides)
        if max(before, after) > THRESHOLDS.resumed * min(before, after):
            out.append(Finding(kind="signal_changed", signals=(key,), numbers={"before": before, "after": after}))
    return tuple(out)


def sudden_events(rows: RunSoFar, run: Run) -> tuple[Finding, ...]:
    """Dips that are over, jumps and resumes, in the order of their steps."""
    y, named = rows.reward, set[float]()
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

    for a, b in y.dips:
        usual, part = float(np.median(y.value)), y.value[a : b + 1]
        low = float(part[np.abs(part - usual).argmax()])
        back = {"back": float(y.step[b + 1])} if b > a else {}
        add("dip", float(y.step[a]), low=low, usual=usual, **back)
    for i, before, after in y.jumps:
        add("jump", float(y.step[i]), before=before, after=after)
    begun = [s for s in run.resumes if s > y.step[0] and s not in named]
    found += [resume_at(run.step_name(s)) for s in begun]
    return tuple(sorted(found, key=lambda x: 0.0 if x.at is None else x.at.step))


def resume_at(at: StepName) -> Finding:
    """A resume of the training."""
    return Finding(kind="resumed", step=interval(at.step), at=at)
