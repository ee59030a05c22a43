"""Findings that need a look whatever the reward does and raise no alarm: those that stand next to that of a status.

Each is a predicate on the path of a signal, its probability a share of draws. One that the status says is left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.goals import parted_goal
from bayes_grpo.diagnosis.modes.idle_steps import dead_path
from bayes_grpo.diagnosis.records import Finding
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.signals.thresholds import THRESHOLDS

_CERTAIN = 0.95
"""Probability of what every row shows: a log may be misread."""


def looks_of(facts: Facts, status: Status) -> tuple[Finding, ...]:
    """Findings of a run that need a look next to its status."""
    found = (look(facts, status) for look in LOOKS)
    return tuple(x for x in found if x is not None)


_OF_VARIANCE = ("advantage_degeneracy", "idle_steps", "one_sided_groups")
"""Modes whose own sentences have the groups or rows without variance."""
_WITHOUT_SPREAD = ("constant_so_far", "unmeasured", "solved", "mostly_solved", "at_ceiling")
"""Findings of a reward that cannot vary, or that have those groups in their sentence."""


def _no_signal(facts: Facts, status: Status) -> Finding | None:
    """Most groups, or most rows, have no variance: they cost time and give no gradient."""
    found = status.finding
    named = found.mode in _OF_VARIANCE or any(part.kind == "no_variance" for part in found.parts)
    if status.alarming or named or found.kind in _WITHOUT_SPREAD:
        return None
    view = facts.view
    groups = view.signal("frac_reward_zero_std")
    if groups is not None:
        p = float((groups.now > THRESHOLDS.waste).mean())
        if p >= THRESHOLDS.probable:
            return Finding.of("idle_groups", share=float(np.median(groups.now)), probability=p)
    rows = dead_path(view)
    p = 0.0 if rows is None else float((rows.now > THRESHOLDS.half).mean())
    if rows is None or p < THRESHOLDS.probable:
        return None
    late = rows.logged.late(THRESHOLDS.half)
    return Finding.of("idle_rows", dead=float(late.sum()), rows=float(len(late)), probability=p)


_OF_GOALS = ("goal_parts", "component_fell", "scheduled_weight", "form_without_task", "apparent_gain")
"""Findings whose own sentences say what the goals do."""


def _goal(facts: Facts, status: Status) -> Finding | None:
    """A goal that does not share the rise of the reward, where the finding is another."""
    return None if status.alarming or status.finding.kind in _OF_GOALS else parted_goal(facts.view)


def _far(facts: Facts, status: Status) -> Finding | None:
    """A policy that is further from its reference than usual, whatever the reward does."""
    path = facts.view.signal("kl")
    found = status.finding
    named = "kl" in found.signals or any("kl" in part.signals for part in found.parts)
    if path is None or status.alarming or named:
        return None
    p = float((path.now > THRESHOLDS.far_kl).mean())
    return (
        None if p < THRESHOLDS.probable else Finding.of("high_kl", "kl", now=float(np.median(path.now)), probability=p)
    )


def _capped(facts: Facts, status: Status) -> Finding | None:
    """Completions that all have one length, of a reward without variance: they end at a limit."""
    if not facts.capped:
        return None
    length = facts.view.logged("completion_length")
    return Finding.of(
        "one_length", "completion_length", length=float(length.value[-1]), rows=float(length.rows), probability=_CERTAIN
    )


def _one_score(facts: Facts, status: Status) -> Finding | None:
    """A scorer that gives most answers one score between the lowest and the highest."""
    return None if status.alarming else facts.one_score


LOOKS: tuple[Callable[[Facts, Status], Finding | None], ...] = (_capped, _one_score, _goal, _far, _no_signal)
"""All of them, in the order of their sentences."""
