"""A verifier that breaks as an event: the reward falls to one value and stays there. Borders are those of `events`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.events import BREAK, LOST, NOISE, SAME, SURE, UNMOVED, span
from bayes_grpo.diagnosis.trend import Trend

POLICY = ("entropy", "completion_length")
"""Signals that a policy takes along when it collapses."""
BEFORE = 8
"""Rows before a break whose median and spread are the usual ones."""
_HELD = 4  # held-out rewards before and after a break that are compared, where there are so many


class ConstantEnd(NamedTuple):
    """Rows at the end of a log that all have one reward.

    Attributes:
        first: Place of the first of them.
        usual: Median of the rows before.
        border: Reward below which a fall from there is one of a verifier that broke.
    """

    first: int
    usual: float
    border: float


def constant_from(y: np.ndarray, apart: float) -> int:
    """Place of the first of the rows at the end that lie within so much of the last one."""
    away = np.flatnonzero(np.abs(y - y[-1]) > apart)
    return int(away[-1]) + 1 if len(away) else 0


def constant_end(courses: Courses) -> ConstantEnd | None:
    """Where the reward became constant for good; None where it did not, or from the start."""
    y, width = courses.progress.raw, span(courses, courses.progress)
    first = constant_from(y, SAME * width)
    if first < 4 or len(y) - first < max(3, len(y) // 20):
        return None
    before = y[max(0, first - BEFORE) : first - 1]  # the last row may hold steps of both kinds
    usual, least = float(np.median(before)), BREAK * width
    if courses.has_range and _stood(y[: first - 1], usual, courses.low):
        least = min(least, LOST * (usual - courses.low))
    return ConstantEnd(first, usual, usual - max(least, NOISE * float(before.std())))


def broken(courses: Courses) -> float:
    """How sure it is that the reward broke, and not the policy; within ±`SURE`.

    A policy that collapses takes its entropy, its completions and its held-out reward along, and some steps; a verifier
    that fails does not.
    """
    course, end = courses.progress, constant_end(courses)
    if end is None or course.raw[-1] > end.border:
        return -SURE
    last = course.raw[-1]
    if course.raw[end.first - 2] - last < 0.5 * (end.usual - last):
        return -SURE
    held = _kept(courses, course.raw_step[end.first])
    if held > LOST:
        return SURE
    moved = [abs(_step_at(course.raw_step[end.first], c)) for k, c in courses.signals.items() if k in POLICY]
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
