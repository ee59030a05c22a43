"""The values of a signal, as the definitions of failures look at them: running means, the noise of these, falls, jumps.

    noise of a row = max(1.48 median|Δ|, 0.6 rms Δ) / √2 · (1 + 6/n),    Δ: differences of neighbors, n: rows

Both estimates are of neighbors, so that a trend does not count as noise; the larger one counts, and few rows are
trusted less. Nothing here is fitted, so a definition applies to logs of new authors without change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayes_grpo.diagnosis.records import Finding, FindingKind
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.series import is_share, stretches


@dataclass(frozen=True, eq=False)
class Logged:
    """The values of one signal.

    Attributes:
        step: Steps of the rows that have a value, shape (n,).
        value: The values, shape (n,).
    """

    step: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, step: np.ndarray, value: np.ndarray) -> Logged:
        """The finite values of a column, shape (rows,) both."""
        kept = np.isfinite(value)
        return cls(np.asarray(step, float)[kept], np.asarray(value, float)[kept])

    def until(self, step: float) -> Logged:
        """The rows up to a step."""
        n = int(np.searchsorted(self.step, step, side="right"))
        return self if n == len(self.step) else Logged(self.step[:n], self.value[:n])

    def between(self, first: float, last: float) -> np.ndarray:
        """The values from one step to another."""
        return self.value[(self.step >= first) & (self.step <= last)]

    @property
    def rows(self) -> int:
        """Number of values."""
        return len(self.value)

    @property
    def window(self) -> int:
        """Rows of a running mean: an eighth of them, at least three."""
        return min(max(THRESHOLDS.least_rows, self.rows // THRESHOLDS.window_part), self.rows)

    @cached_property
    def means(self) -> np.ndarray:
        """Running means, shape (n - window + 1,)."""
        total = np.concatenate([[0.0], np.cumsum(self.value)])
        return (total[self.window :] - total[: -self.window]) / self.window

    @cached_property
    def noise(self) -> float:
        """Standard deviation of a row about its neighbors."""
        if self.rows < THRESHOLDS.least_rows:
            return np.inf
        moves = np.abs(np.diff(self.value))
        sd = max(1.4826 * float(np.median(moves)), 0.6 * float(np.sqrt(np.mean(moves**2))), 1e-9)
        return sd / np.sqrt(2.0) * (1.0 + THRESHOLDS.few_rows / self.rows)

    @property
    def error(self) -> float:
        """Standard error of the difference of two running means."""
        return self.noise * np.sqrt(2.0 / max(self.window, 1))

    @property
    def start(self) -> float:
        """Mean of the first rows."""
        return float(self.means[0])

    @property
    def now(self) -> float:
        """Mean of the last rows."""
        return float(self.means[-1])

    @property
    def best(self) -> float:
        """Highest running mean."""
        return float(self.means.max())

    def fell(self, errors: float = THRESHOLDS.going_errors, part: float = THRESHOLDS.sign_fall) -> bool:
        """Whether it has fallen from its best by so many standard errors, and by a part that matters."""
        if not self.rows:
            return False
        size = self.best if is_share(self.value) else float(np.ptp(self.value))
        return self.best - self.now > max(errors * self.error, part * size)

    def loss(self, ends: RewardRange | None = None, least_rows: int = THRESHOLDS.trend_rows) -> float:
        """By how many times what counts as lost it has fallen from its best: above 1 it is lost.

        The fall has to exceed the noise of its means, to have taken most of what was gained, and to matter in the
        range, or in the level where the lowest value is known.

        Args:
            ends: Its range with both ends or none; by default [0, 1] where its values are shares.
            least_rows: Fewer values than this say nothing.
        """
        if self.rows < least_rows or self.since_best < THRESHOLDS.least_rows:
            return 0.0
        if ends is None:
            ends = RewardRange(0.0, 1.0) if is_share(self.value) else RewardRange()
        span = ends.high - ends.low if ends.known else max(float(np.ptp(self.value)), 1e-9)
        fall, gain, error = self.best - self.now, self.best - self.start, self.error
        least = THRESHOLDS.decline * span
        if ends.known:
            least = max(min(THRESHOLDS.lost * (self.best - ends.low), least), THRESHOLDS.material * span)
        found = min(fall / (THRESHOLDS.fall_errors * error), fall / least, fall / max(THRESHOLDS.lost * gain, 1e-9))
        if ends.known:  # a gain that is lost nearly whole counts in a part of the range that is smaller
            part = min(fall / (THRESHOLDS.gain_errors * error), fall / (THRESHOLDS.gain_part * span))
            whole = min(fall / max(THRESHOLDS.gain_lost * gain, 1e-9), gain / (THRESHOLDS.gain_errors * error))
            found = max(found, min(part, whole))
        return float(found)

    @property
    def fall(self) -> tuple[int, int]:
        """Places among the running means of the last one near its best before it fell, and of half of the fall."""
        best = int(self.means.argmax())
        half = best + int(np.argmax(self.means[best:] < self.best - THRESHOLDS.half * (self.best - self.now)))
        return best + int(np.flatnonzero(self.means[best : half + 1] >= self.best - self.error)[-1]), half

    @property
    def since_best(self) -> int:
        """Rows since the window of the highest mean ended."""
        return len(self.means) - 1 - int(self.means.argmax())

    @cached_property
    def dips(self) -> tuple[tuple[int, int], ...]:
        """First and last row of short stretches far off their running median and over; none where there are many."""
        half, ends = min(max(THRESHOLDS.trend_rows, self.rows // 6), THRESHOLDS.dip_rows), THRESHOLDS.least_rows
        if self.rows < 2 * half:
            return ()
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(self.value, half, mode="edge"), 2 * half + 1)
        far = max(THRESHOLDS.fall_errors * self.noise, THRESHOLDS.sign_fall * float(np.ptp(self.value)))
        off, one = np.abs(self.value - np.median(windows, axis=1)), THRESHOLDS.one_row * far
        found = [(a, b) for a, b in stretches(off > far) if b > a or off[a] > one]
        over = tuple((a, b) for a, b in found if a >= ends and b < self.rows - ends)
        return over if len(found) <= THRESHOLDS.least_rows else ()

    @property
    def jumps(self) -> tuple[tuple[int, float, float], ...]:
        """Rows at which the level changed at once and stayed, with the levels before and after; none where many."""
        size, found = THRESHOLDS.trend_rows // 2, []
        if self.rows < 4 * size:
            return ()
        medians = np.median(np.lib.stride_tricks.sliding_window_view(self.value, size), axis=1)
        before, after = medians[:-size], medians[size:]  # of the rows before row i + size, and from it on
        far = max(THRESHOLDS.fall_errors * self.noise, THRESHOLDS.sign_fall * float(np.ptp(self.value)))
        change, row_change = np.abs(after - before), np.abs(np.diff(self.value)[size - 1 :])
        near = [range(a - size, b + size + 1) for a, b in self.dips]
        for i in np.argsort(-change):
            row = int(i) + size
            if change[i] <= far:
                break
            if row_change[i] > THRESHOLDS.at_once * change[i] and not any(row in x for x in near):
                near.append(range(row - size, row + size + 1))
                found.append((row, float(before[i]), float(after[i])))
        return tuple(sorted(found)) if len(found) <= THRESHOLDS.least_rows else ()

    def change(self, first: int) -> tuple[float, float]:
        """Mean of the last third of the rows less that of an earlier one, without dips, and its standard error."""
        size = max(THRESHOLDS.least_rows, self.rows // THRESHOLDS.thirds)
        starts = max(self.rows - size, 0), max(round(first * (self.rows - size) / (THRESHOLDS.thirds - 1)), 0)
        kept = np.ones(self.rows, bool)
        for a, b in self.dips:
            kept[a : b + 1] = False
        now, before = (float(self.value[i : i + size][kept[i : i + size]].mean()) for i in starts)
        return now - before, self.noise * float(np.sqrt(2.0 / size))

    def late(self, part: int) -> np.ndarray:
        """The values of the last part of the rows, at least three."""
        return self.value[-max(THRESHOLDS.least_rows, self.rows // part) :]

    @property
    def lately(self) -> float:
        """Mean of the last rows, `THRESHOLDS.trend_rows` of them at most; NaN without any."""
        return float(self.value[-THRESHOLDS.trend_rows :].mean()) if self.rows else np.nan


NOTHING = Logged(np.empty(0), np.empty(0))
"""A signal without rows."""


def fall_of(name: str, y: Logged, kind: FindingKind = "signal_fell", **more: Any) -> Finding:
    """A fall of a signal or component from its best to its last values."""
    numbers = {"best": y.best, "now": y.now, **more.pop("numbers", {})}
    return Finding(kind=kind, signals=(name,), numbers=numbers, **more)
