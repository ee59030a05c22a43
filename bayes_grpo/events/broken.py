"""Broken: a verifier that fails, so that the reward falls to one value and stays there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.events.borders import BORDERS, DIAGNOSIS, TRUTH
from bayes_grpo.events.definition import Definition
from bayes_grpo.events.trend import LatentSignals, Trend

_B = BORDERS
BROKEN = Definition(
    "broken",
    DIAGNOSIS,
    "advantage_degeneracy",
    f"the reward fell within two rows to one value and stays there, by more than {_B.broken_fall:.0%} of its range or "
    f"{_B.lost:.0%} of its level above the lowest reward, and {_B.noise:g} times the spread of the rows before, while "
    f"a held-out reward kept {_B.broken_kept:.0%} of its level, or entropy and length of the completions moved by less "
    f"than a factor {np.exp(_B.broken_unmoved):.1f}",
)
MISREWARDED = Definition(
    "broken_reward", TRUTH, "", f"the reward differs by more than {_B.broken_truth:.0%} from what was deserved"
)
POLICY = ("entropy", "completion_length")
"""Signals that a policy takes along when it collapses."""


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


def constant_end(signals: LatentSignals) -> ConstantEnd | None:
    """Where the reward became constant for good; None where it did not, or from the start."""
    y, span = signals.reward.raw, signals.span
    first = constant_from(y, BORDERS.broken_same * span)
    if first < BORDERS.broken_after or len(y) - first < max(BORDERS.broken_rows, len(y) // BORDERS.broken_part):
        return None
    before = y[max(0, first - BORDERS.broken_before) : first - 1]  # the last row may hold steps of both kinds
    usual, least = float(np.median(before)), BORDERS.broken_fall * span
    if not _stood(y[: first - 1], usual, float(y[-1])):
        return None
    if signals.has_range:
        least = min(least, BORDERS.lost * (usual - signals.low))
    return ConstantEnd(first, usual, usual - max(least, BORDERS.noise * float(before.std())))


def broken(signals: LatentSignals) -> float:
    """How sure it is that the reward broke, and not the policy; ½ log odds, within their bound.

    A policy that collapses takes its entropy, its completions and its held-out reward along, and some steps; a verifier
    that fails does not.
    """
    trend, end, sure = signals.reward, constant_end(signals), BORDERS.log_odds_bound
    if end is None or trend.raw[-1] > end.border:
        return -sure
    last, step = trend.raw[-1], trend.raw_step[end.first]
    if trend.raw[end.first - 2] - last < BORDERS.broken_at_once * (end.usual - last):
        return -sure
    held = _kept(signals, step)
    if held > BORDERS.broken_kept:
        return sure
    moved = [abs(_change_across(step, x)) for name, x in signals.signals.items() if name in POLICY]
    if moved and max(moved) >= BORDERS.broken_unmoved:
        return -sure
    if held <= BORDERS.broken_kept:
        return 0.0  # one verifier for both rewards, or a policy that fails at both
    return sure if moved else BORDERS.broken_unknown * sure


def misrewarded(trained: np.ndarray, deserved: np.ndarray) -> np.ndarray:
    """Whether the reward of a run of the laboratory is not what was deserved, at every step, shape (T,).

    Args:
        trained: Reward that was trained on, as a share of what is attainable, shape (T,).
        deserved: What the completions deserved, likewise.
    """
    return np.abs(deserved - trained) > BORDERS.broken_truth


def _stood(y: np.ndarray, usual: float, end: float) -> bool:
    """Whether the rows before a break had kept their level, so that what fell is no rest of a collapse."""
    rows = BORDERS.broken_before
    medians = [float(np.median(y[i : i + rows])) for i in range(0, len(y), rows)]
    return usual - end > BORDERS.lost * (max(medians) - end)


def _kept(signals: LatentSignals, step: float) -> float:
    """Share of its level that a held-out reward had left after the train reward fell; NaN where none tells."""
    held, rows = signals.held_out, BORDERS.broken_held_out
    if held is None:
        return np.nan
    before, after = held.raw[held.raw_step < step], held.raw[held.raw_step > step]
    if not len(before) or not len(after) or before[-rows:].mean() <= 0.0:
        return np.nan
    return float(after[:rows].mean() / before[-rows:].mean())


def _change_across(step: float, trend: Trend) -> float:
    """Change of a logged signal across a step: mean of the rows from it on less that of those before the last."""
    at, rows = int(np.searchsorted(trend.raw_step, step)), BORDERS.broken_beside
    before, after = trend.raw[max(0, at - 1 - rows) : max(1, at - 1)], trend.raw[at : at + rows]
    return float(after.mean() - before.mean()) if len(before) and len(after) else 0.0
