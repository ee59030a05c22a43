"""What a definition of a failure looks at: the logged rows up to a step, their running means and the noise of these.

    noise of a row = max(1.48 median|Δ|, 0.6 rms Δ) / √2 · (1 + 6/n),    Δ: differences of neighbors, n: rows

Both estimates are of neighbors, so that a trend does not count as noise; the larger one counts, and few rows are
trusted less. Nothing here is fitted, so a definition applies to logs of new authors without change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.diagnosis.plausibility import of_groups
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import TREND_ROWS, stretches
from bayes_grpo.logs.parts import adding_weights
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.reward_range import RewardRange, both_ends
from bayes_grpo.rows.series import is_share

if TYPE_CHECKING:
    from bayes_grpo.rollouts.decomposition import Decomposition

EVERY_ROW = ("reward", "loss", "grad_norm")
"""Signals whose NaN breaks the weights."""
TYPICAL_GROUP = 8.0
"""Completions a prompt where a log names none; groups of one are the default of other algorithms."""


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

    @property
    def falls(self) -> bool:
        """Whether it has fallen from its best beyond noise, by a part that matters."""
        if not self.rows:
            return False
        size = self.best if is_share(self.value) else float(np.ptp(self.value))
        return self.best - self.now > max(THRESHOLDS.going_errors * self.error, THRESHOLDS.sign_fall * size)

    def loss(self, least_rows: int = THRESHOLDS.trend_rows) -> float:
        """Its `lost_strength`, in [0, 1] where its values are shares: above 1 it is lost."""
        ends = (0.0, 1.0) if is_share(self.value) else (np.nan, np.nan)
        return lost_strength(self, *ends, least_rows)

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

    def change(self, last: int, first: int) -> tuple[float, float]:
        """Mean of a third of the rows less that of an earlier one, without dips, and its standard error."""
        size = max(THRESHOLDS.least_rows, self.rows // THRESHOLDS.thirds)
        starts = [max(round(i * (self.rows - size) / (THRESHOLDS.thirds - 1)), 0) for i in (last, first)]
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


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSoFar:
    """A run up to a step.

    Attributes:
        reward: Train reward, or held-out reward where no train reward is logged.
        held_out: Gold or held-out reward of a run that logs a train reward too; without rows elsewhere.
        uses_eval: Whether the reward is the held-out one.
        signals: Canonical name → logged values.
        parts: Reward function → its values, times the weight with which it enters the total where they add up to it.
        nan: Signal → whether the trainer wrote a value that is no number, one a row.
        block: Rows that one look covers.
        low: Lowest reward if known, else NaN.
        high: Highest reward if known, else NaN; known together with ``low`` or not at all.
        assumed: The assumption behind both, a sentence; "" where they are settings or unknown.
        group_size: Completions a prompt: of the run, else a usual number.
        gain: Decomposition of its gain by rollouts; None without rollouts.
    """

    reward: Logged
    held_out: Logged
    uses_eval: bool
    signals: Mapping[str, Logged]
    parts: Mapping[str, Logged]
    nan: Mapping[str, Logged]
    block: int
    low: float
    high: float
    assumed: str
    group_size: float
    gain: Decomposition | None

    @classmethod
    def of(cls, run: Run, gain: Decomposition | None = None) -> RunSoFar:
        """All rows of a run.

        Args:
            run: The run.
            gain: Decomposition of its gain by rollouts.
        """
        run = of_groups(run)
        train, held_out = Logged.of(run.step, run.reward), Logged.of(run.eval_step, run.eval_reward)
        signals = {name: Logged.of(run.step, values) for name, values in run.signals.items()}
        gold = signals.get("gold_reward", NOTHING)
        held_out = gold if gold.rows > held_out.rows else held_out
        uses_eval = train.rows < THRESHOLDS.least_rows
        reward = held_out if uses_eval else train
        ends = both_ends(reward.value, dict(run.settings.items())) if reward.rows else RewardRange()
        weights = weights_of(run, run.components)
        group = float(run.settings.group_size.value or 0.0)
        return cls(
            reward=reward,
            held_out=NOTHING if uses_eval else held_out,
            uses_eval=uses_eval,
            signals=signals,
            parts={
                n: Logged.of(run.step, x * (weights.get(n, 0.0) if weights else 1.0)) for n, x in run.components.items()
            },
            nan={n: Logged.of(run.step, lost) for n in EVERY_ROW if (lost := run.not_finite(n)).any()},
            block=max(1, round(reward.rows / TREND_ROWS)),
            low=ends.low if ends.known else np.nan,
            high=ends.high if ends.known else np.nan,
            assumed=ends.assumed,
            group_size=group if group > 1.0 else TYPICAL_GROUP,
            gain=gain,
        )

    def until(self, step: float) -> RunSoFar:
        """The rows up to a step."""
        cut = {k: {n: x.until(step) for n, x in getattr(self, k).items()} for k in ("signals", "parts", "nan")}
        return replace(self, reward=self.reward.until(step), held_out=self.held_out.until(step), **cut)

    @property
    def judged(self) -> Logged | None:
        """The held-out reward that checkpoints are chosen by; None where none is logged, or too few of its values."""
        if self.held_out.rows >= THRESHOLDS.least_rows:
            return self.held_out
        return self.reward if self.uses_eval else None

    @property
    def held_out_best(self) -> float | None:
        """Step of the best held-out score; None where no score can choose, or it lies before anything was learned.

        None can choose where none differs, or where all count as zero and the best is no better than the last beyond
        noise: it is then the luckiest of equals.
        """
        y = self.judged
        if y is None or np.ptp(y.value) == 0.0:
            return None
        if is_share(y.value) and y.best < THRESHOLDS.hollow and not y.falls:
            return None
        if y.rows > self.reward.rows // 2:  # a score of every row, of which a single one says little
            best = float(y.step[int(y.means.argmax()) + y.window - 1])
        else:
            best = float(y.step[int(np.argmax(y.value))])
        return best if best > self.reward.step[0] else None

    @property
    def last_step(self) -> float:
        """Step of the last reward."""
        return max(float(x.step[-1]) for x in (self.reward, self.held_out) if x.rows)

    @property
    def has_range(self) -> bool:
        """Whether lowest and highest reward are known."""
        return bool(np.isfinite(self.low))

    @property
    def span(self) -> float:
        """Range of the reward: the known one, or what the rows show of it."""
        return self.high - self.low if self.has_range else max(float(np.ptp(self.reward.value)), 1e-9)

    @property
    def level(self) -> float:
        """Where the reward stands, as a share of its range; NaN where that is not known."""
        return (self.reward.now - self.low) / self.span if self.has_range else np.nan

    @property
    def loss(self) -> float:
        """`lost_strength` of the reward: above 1 it is lost."""
        return lost_strength(self.reward, self.low, self.high, THRESHOLDS.trend_rows)

    @property
    def near_top(self) -> bool:
        """Whether the reward stands high in a range that is known."""
        return self.has_range and self.level > THRESHOLDS.near_top

    @property
    def rise(self) -> float:
        """By how many times what counts the reward has risen since its start: above 1 it did."""
        y = self.reward
        gain, error = y.change(THRESHOLDS.thirds - 1, 0)
        by_thirds = min(gain / (THRESHOLDS.rise_errors * error), gain / (THRESHOLDS.risen * self.span))
        gain = y.now - y.start
        return max(by_thirds, min(gain / (THRESHOLDS.rise_errors * y.error), gain / (THRESHOLDS.risen * self.span)))

    @property
    def rose(self) -> bool:
        """Whether the last third of the rows lies above the first beyond noise, however little, or the reward rose."""
        gain, error = self.reward.change(THRESHOLDS.thirds - 1, 0)
        return self.rise > 1.0 or gain > THRESHOLDS.rose_errors * error

    @property
    def carried(self) -> tuple[float, float] | None:
        """How far both rewards went since the held-out one's first rows, where the train reward rose clearly since."""
        y, held_out = self.reward, self.held_out
        if held_out.rows < THRESHOLDS.held_out_rows - 1 or y.rows < THRESHOLDS.trend_rows:
            return None
        then = y.between(held_out.step[0], held_out.step[held_out.window - 1])
        if len(then) < THRESHOLDS.least_rows:
            return None
        gain = y.now - float(then.mean())
        least = max(
            THRESHOLDS.rise_errors * y.error, THRESHOLDS.risen * self.span, THRESHOLDS.carry_errors * held_out.error
        )
        return (gain, held_out.now - held_out.start) if gain > least else None

    @property
    def late_change(self) -> float:
        """The last third of the rows less the middle one, over what counts as a change of them."""
        change, error = self.reward.change(THRESHOLDS.thirds - 1, 1)
        return change / (THRESHOLDS.going_errors * error)

    @property
    def constant(self) -> bool:
        """Whether the reward was the same in every row, in enough of them."""
        y = self.reward
        return y.rows >= THRESHOLDS.direct_rows and bool(np.ptp(y.value) == 0.0)

    def without_spread(self, least_share: float) -> Logged | None:
        """Which rows have no group with spread, of the rows that tell; None where neither signal of a spread does.

        Args:
            least_share: Share of groups without spread from which on a row has none, where the share is logged.
        """
        share, spread = (self.signals.get(name, NOTHING) for name in ("frac_reward_zero_std", "reward_std"))
        if share.rows >= THRESHOLDS.least_rows:
            return Logged(share.step, share.value >= least_share)
        if spread.rows < THRESHOLDS.least_rows or self.uses_eval:
            return None
        largest = max(float(np.abs(self.reward.value).max()), 1e-9)
        return Logged(spread.step, spread.value <= THRESHOLDS.dead_spread * largest)

    @cached_property
    def idle(self) -> Logged | None:
        """Which rows have no group with any spread, or else a loss of 0 among others; None where no signal tells."""
        if (found := self.without_spread(THRESHOLDS.dead_groups)) is not None:
            return found
        loss = self.signals.get("loss", NOTHING)
        other = np.abs(loss.value[loss.value != 0.0])
        if loss.rows >= THRESHOLDS.least_rows and len(other) and float(np.median(other)) > THRESHOLDS.loss_typical:
            return Logged(loss.step, loss.value == 0.0)
        return None

    @property
    def waste(self) -> float:
        """Share of groups without spread late in the log, or of rows without any; NaN where no signal tells."""
        share, idle = self.signals.get("frac_reward_zero_std", NOTHING), self.idle
        if share.rows >= THRESHOLDS.least_rows:
            return float(np.median(share.late(THRESHOLDS.late_part)))
        return np.nan if idle is None else float(idle.late(2).mean())


def weights_of(run: Run, parts: Mapping[str, np.ndarray], of_mean: bool = False) -> dict[str, float]:
    """Weights with which parts add up to the reward; empty where they do not.

    Args:
        run: The run.
        parts: Reward functions or environments, on its steps.
        of_mean: Whether the reward is a mean over them. It has as many completions of each as were drawn for a row, so
            that its weights are estimated.
    """
    known = np.isfinite(run.reward) & np.all([np.isfinite(x) for x in parts.values()], axis=0)
    found = adding_weights(run.reward[known], {name: x[known] for name, x in parts.items()})
    if found or not of_mean or not known.any():
        return found
    weights = np.linalg.lstsq(np.stack([x[known] for x in parts.values()], axis=1), run.reward[known], rcond=1e-8)[0]
    one = bool(np.all(weights >= 0.0)) and abs(float(weights.sum()) - 1.0) < THRESHOLDS.whole
    return dict(zip(parts, weights.tolist(), strict=True)) if one else {}


def fall_text(name: str, y: Logged) -> str:
    """A fall in words, the same wherever it is named."""
    return f"{name} fell from {y.best:.2g} to {y.now:.2g}"


def lost_strength(y: Logged, low: float, high: float, least_rows: int) -> float:
    """By how many times what counts as lost a signal has fallen from its best: above 1 it is lost.

    The fall has to exceed the noise of its means, to have taken most of what was gained, and to matter in the range, or
    in the level where the lowest value is known.

    Args:
        y: The signal.
        low: Lowest value; NaN if unknown.
        high: Highest value; NaN if unknown.
        least_rows: Fewer values than this say nothing.
    """
    if y.rows < least_rows or y.since_best < THRESHOLDS.least_rows:
        return 0.0
    known = np.isfinite(low)
    span = high - low if known else max(float(np.ptp(y.value)), 1e-9)
    fall, gain, error = y.best - y.now, y.best - y.start, y.error
    least = THRESHOLDS.decline * span
    if known:
        least = max(min(THRESHOLDS.lost * (y.best - low), least), THRESHOLDS.material * span)
    found = min(fall / (THRESHOLDS.fall_errors * error), fall / least, fall / max(THRESHOLDS.lost * gain, 1e-9))
    if known:  # a gain that is lost nearly whole counts in a part of the range that is smaller
        part = min(fall / (THRESHOLDS.gain_errors * error), fall / (THRESHOLDS.gain_part * span))
        found = max(
            found, min(part, fall / max(THRESHOLDS.gain_lost * gain, 1e-9), gain / (THRESHOLDS.gain_errors * error))
        )
    return float(found)
