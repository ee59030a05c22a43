"""Groups without spread as events: wasted, and what a broken reward leaves. Borders are those of `events`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.events import (
    BREAK,
    DEAD,
    EXCESS,
    LACKING,
    LOST,
    NOISE,
    SAME,
    SOLVED,
    SURE,
    UNMOVED,
    WASTE,
    span,
)
from bayes_grpo.diagnosis.trend import DRAWS, Trend

POLICY = ("entropy", "completion_length")
"""Signals that a policy takes along when it collapses."""
BEFORE = 8
"""Rows before a break whose median and spread are the usual ones."""
_HELD = 4  # held-out rewards before and after a break that are compared, where there are so many


class Waste(NamedTuple):
    """What tells of wasted groups: draws of shape (draws,), or None where the log cannot say.

    Attributes:
        share: Share of groups without spread, over the second half.
        excess: That share less what level and group size imply.
        dead: Which rows of the second half have no spread at all, shape (rows,) or None.
        level: Where the reward stands in its range over the second half.
    """

    share: np.ndarray | None
    excess: np.ndarray | None
    dead: np.ndarray | None
    level: np.ndarray | None


def wasted(waste: Waste) -> np.ndarray | None:
    """Draws of whether groups are wasted, shape (draws,); None where no signal tells.

    A solved task wastes its batch and is no failure: the reward's level explains its groups.
    """
    found = []
    unsolved = True if waste.level is None else waste.level < SOLVED
    if waste.share is not None:
        unexplained = True if waste.excess is None else waste.excess > EXCESS
        found.append((waste.share > WASTE) & (unexplained | unsolved))
    if waste.dead is not None:
        found.append((dead_share(waste.dead) > DEAD) & unsolved)
    return np.any(found, axis=0) if found else None


def dead_share(dead: np.ndarray) -> np.ndarray:
    """Draws of the share of rows without spread, given which of them had none, shape (draws,)."""
    count = int(dead.sum())
    return np.random.default_rng(0).beta(0.5 + count, 0.5 + len(dead) - count, DRAWS)


def wasted_by(waste: Waste) -> float:
    """How far `wasted` lies beyond its borders at the posterior means, within [-2, 3]; NaN where no signal tells."""
    found = []
    unsolved = 3.0 if waste.level is None else 6.0 * (SOLVED - float(waste.level.mean()))
    if waste.share is not None:
        share, unexplained = float(waste.share.mean()), 3.0
        if waste.excess is not None:
            excess = float(waste.excess.mean())
            unexplained = 8.0 * (excess - EXCESS)
            if unsolved > 0.0:  # near the top hardly any spread is implied, and a share of it is noise
                unexplained = max(unexplained, 6.0 * (excess / max(1.0 - share + excess, 1e-3) - LACKING))
        found.append(min(6.0 * (share - WASTE), max(unexplained, unsolved)))
    if waste.dead is not None:
        found.append(min(5.0 * (float(waste.dead.mean()) - DEAD), unsolved))
    return float(np.clip(max(found), -2.0, 3.0)) if found else np.nan


def broken(courses: Courses) -> float:
    """How sure it is that the reward broke, and not the policy; within ±`SURE`.

    A policy that collapses takes its entropy, its completions and its held-out reward along, and some steps; a verifier
    that fails does not.
    """
    course = courses.progress
    y, least = course.raw, max(3, len(course.raw) // 20)
    width = span(courses, course)
    away = np.flatnonzero(np.abs(y - y[-1]) > SAME * width)
    first = int(away[-1]) + 1 if len(away) else 0  # of the rows that are all the same
    if first < 4 or len(y) - first < least:
        return -SURE
    before = y[max(0, first - BEFORE) : first - 1]
    usual = float(np.median(before))
    least_fall = BREAK * width
    if courses.has_range and _stood(y[: first - 1], usual, courses.low):
        least_fall = min(least_fall, LOST * (usual - courses.low))
    # The row before may hold steps of both kinds.
    if usual - y[-1] < max(least_fall, NOISE * float(before.std())) or y[first - 2] - y[-1] < 0.5 * (usual - y[-1]):
        return -SURE
    held = _kept(courses, course.raw_step[first])
    if held > LOST:
        return SURE
    moved = [abs(_step_at(course.raw_step[first], c)) for k, c in courses.signals.items() if k in POLICY]
    if moved and max(moved) >= UNMOVED:
        return -SURE
    if held <= LOST:
        return 0.0  # one verifier for both rewards, or a policy that fails at both
    return SURE if moved else 0.5 * SURE


def _stood(y: np.ndarray, usual: float, low: float) -> bool:
    """Whether the rows before a break had kept their level, so that what fell is no rest of a collapse."""
    medians = [float(np.median(y[i : i + BEFORE])) for i in range(0, len(y), BEFORE)]
    return usual - low > LOST * (max(medians) - low)


def _kept(courses: Courses, step: float) -> float:
    """Share of its level that a held-out reward had left after the train reward fell; NaN where none tells."""
    held = courses.held_out
    if held is None:
        return np.nan
    before, after = held.raw[held.raw_step < step], held.raw[held.raw_step > step]
    if not len(before) or not len(after) or before[-_HELD:].mean() <= 0.0:
        return np.nan
    return float(after[:_HELD].mean() / before[-_HELD:].mean())


def _step_at(step: float, course: Trend) -> float:
    """Change of a logged signal across a step: mean of the next three rows less that of the three before the last."""
    at = int(np.searchsorted(course.raw_step, step))
    before, after = course.raw[max(0, at - 4) : max(1, at - 1)], course.raw[at : at + 3]
    return float(after.mean() - before.mean()) if len(before) and len(after) else 0.0
