"""Events of the rows to come, as seen from an origin of a log: collapse and take-off.

At an origin, *first* is the mean reward of the first fifth of the rows, *now* that of the last fifth, and *noise* the
standard deviation of a row by the differences of neighbours; *end* is the mean of the last tenth of the log with the
rows that came. A collapse is that of `bayes_grpo.diagnosis.fallen`, of what the log had to lose at the origin, and
has to be beyond noise. The *size* of an event lies between 0 at its border and 1 where nothing more can be lost or
gained. A run that stops for good, because its learning rate has reached 0, is no event: the schedule says when.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.fallen import at_stake, least_loss, started_high
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.rows.reward_range import RewardRange

COLLAPSE, TAKEOFF = "collapse", "takeoff"
HAZARDS = (COLLAPSE, TAKEOFF)
"""The events that may meet a run; they exclude one another."""
SIGN = {COLLAPSE: -1.0, TAKEOFF: 1.0}
"""Event → direction in which the reward goes."""


class Span(NamedTuple):
    """How far an event can lead, as changes of the reward, both positive.

    Attributes:
        least: The least change that is one.
        most: To the end of the reward's range; where nobody knows it, all of the gain, or a multiple of the least.
    """

    least: float
    most: float

    def size_of(self, change: float) -> float:
        """Size of an event: 0 at the least change, 1 at the most."""
        return (change - self.least) / (self.most - self.least)

    def change(self, size: np.ndarray) -> np.ndarray:
        """The inverse of `size_of`."""
        return self.least + size * (self.most - self.least)


class OriginState(NamedTuple):
    """What a log can lose or gain at an origin.

    Attributes:
        now: Mean reward of the last fifth of the rows.
        noise: Standard deviation of a row.
        rows: Number of rows.
        last: Rows in the last fifth.
        spans: Event → how far it can lead. Only events that can meet the log.
    """

    now: float
    noise: float
    rows: int
    last: int
    spans: dict[str, Span]


def origin_state(y: np.ndarray, reward: RewardRange) -> OriginState:
    """Where a log stands after its rows.

    Args:
        y: Rewards of the rows so far, shape (n,), at least 2.
        reward: Where the reward can lie, as these rows and the settings say.
    """
    n = len(y)
    last = min(n, max(THRESHOLDS.least_rows, n // THRESHOLDS.origin_part))
    first, now = float(y[:last].mean()), float(y[-last:].mean())
    noise = float(np.std(np.diff(y)) / np.sqrt(2.0)) + 1e-12
    error = THRESHOLDS.noise_of_means * noise / np.sqrt(last)
    error_of_gain = np.sqrt(2.0) * error
    gain, level, room = now - first, now - reward.low, reward.high - now  # the latter infinite where nobody knows
    most = level if np.isfinite(level) else gain
    stake = float(at_stake(first, now, reward.low))
    spans = {}
    # A level is a mean of its own, a gain the difference of two.
    if stake > (error if started_high(first, now, reward.low) else error_of_gain):
        spans[COLLAPSE] = Span(float(least_loss(stake)), most)
    least = THRESHOLDS.takeoff * max(gain, noise)
    if abs(gain) <= error_of_gain and room > least:
        spans[TAKEOFF] = Span(least, room if np.isfinite(room) else THRESHOLDS.takeoff_most * least)
    return OriginState(now, noise, n, last, spans)
