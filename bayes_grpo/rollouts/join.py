"""Rollouts joined to a log: are both of one run, shifted by how many steps or versions, and with which gain?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import counted, plain
from bayes_grpo.logs.run import Run
from bayes_grpo.rollouts.decompose import decompose
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.rollouts.records import Rollouts

LARGEST_SHIFT = 8
"""Largest shift between rollouts and log that is tried, in rows."""
_LEAST = 4
_EQUAL, _RESEMBLING = 0.9, 0.5
_ROUNDED = 1e-3


@dataclass(frozen=True)
class Joined(Result):
    """How rollouts lie on the rows of a log.

    ``axis`` ("step" or "policy_version") of the rollouts counts the rows; the log's step less theirs is ``shift``; a
    row averages ``window`` steps. Of the rows compared the share ``equal`` has the mean of its completions as the
    reward; ``difference`` is the median absolute one, and ``correlation`` that of the two over rows.
    """

    axis: str
    shift: int
    window: int
    compared: int
    equal: float
    difference: float
    correlation: float

    also_in_json = ("sentence", "matches")

    @property
    def matches(self) -> bool:
        """True where both are of one run."""
        return self.equal >= _EQUAL or (self.compared >= 2 * _LEAST and self.correlation >= 0.99)

    @property
    def sentence(self) -> str:
        """The same in words."""
        if not self.matches:
            fit = "only resemble" if self.correlation >= _RESEMBLING else "do not fit"
            return (
                f"The rollouts {fit} the log (correlation {self.correlation:.2f} over {self.compared} rows, median "
                f"difference {self.difference:.3g}): they are of another run or reward, or were filtered."
            )
        more = f", {self.window} steps averaged into a row" if self.window > 1 else ""
        where = "at the same step"
        if self.shift != 0:
            unit = "version" if self.axis == "policy_version" else "step"
            where = f"{counted(abs(self.shift), unit)} {'later' if self.shift > 0 else 'earlier'} in the log"
        return f"The log is the mean of these completions in {self.equal:.0%} of {self.compared} rows, {where}{more}."


def join(run: Run, rollouts: Rollouts) -> Joined:
    """Lays the means of rollouts on the rows of a log and looks for the shift under which they agree best.

    It tries shifts of up to `LARGEST_SHIFT` steps or versions, and rows that average several steps.

    Raises:
        FitError: Fewer than 4 rows can be compared at any shift.
    """
    kept = np.isfinite(run.reward)
    step, reward, window = run.step[kept], run.reward[kept], run.window[kept]
    found: list[Joined] = []
    for axis in ("step", "policy_version"):
        key = rollouts.step if axis == "step" else rollouts.policy_version
        if np.any(key < 0):
            continue
        at, place = np.unique(key, return_inverse=True)
        count = np.bincount(place)
        mean = np.bincount(place, rollouts.reward) / count
        for wide in sorted({1, int(np.median(window))} if len(window) else {1}):
            for shift in range(-LARGEST_SHIFT, LARGEST_SHIFT + 1):
                found += _shifted((step, reward), (at, mean, count), (axis, shift, wide))
    if not found:
        raise FitError(
            f"expected at least {_LEAST} rows of {plain(run.name, 60)} with rollouts, found "
            "fewer; give the rollouts of this run"
        )
    # Agreement first; among equals the smaller shift and the plainer reading.
    return max(found, key=lambda j: (round(j.equal, 2), -round(j.difference, 6), j.compared, -abs(j.shift)))


def gain_of(run: Run, rollouts: Rollouts) -> tuple[Decomposition, tuple[str, ...]]:
    """Decomposition of the gain by rollouts, and notes on whether they match the log."""
    try:
        fits = join(run, rollouts).sentence
    except FitError as error:
        fits = str(error)
    return decompose(rollouts), (f"rollouts: {fits}", *(f"rollouts: {note}" for note in rollouts.notes))


def _shifted(
    log: tuple[np.ndarray, np.ndarray], means: tuple[np.ndarray, np.ndarray, np.ndarray], how: tuple[str, int, int]
) -> list[Joined]:
    """Rows of the log against the rollouts of the steps that end at them, at one shift."""
    (step, reward), (at, mean, count), (axis, shift, wide) = log, means, how
    total = np.cumsum(np.r_[0.0, mean * count])
    many = np.cumsum(np.r_[0, count])
    last = np.searchsorted(at, step - shift + 1e-9, "right")
    first = np.searchsorted(at, step - shift - wide + 1e-9, "right")
    known = last > first
    if wide > 1:
        known &= (step - shift - wide >= at[0] - 1) & (step - shift <= at[-1])
    if known.sum() < _LEAST:
        return []
    expected = (total[last] - total[first])[known] / (many[last] - many[first])[known]
    seen = reward[known]
    off = np.abs(seen - expected)
    equal = float(np.mean(off <= _ROUNDED * np.maximum(np.abs(expected), 1.0)))
    moves = np.ptp(seen) > 0.0 and np.ptp(expected) > 0.0
    correlation = float(np.corrcoef(seen, expected)[0, 1]) if moves else 0.0
    return [Joined(axis, shift, wide, len(seen), equal, float(np.median(off)), correlation)]
