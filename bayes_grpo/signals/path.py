"""The path of a signal: draws of its latent course, and the questions that every judgement asks of it.

Each answer has one value a draw, so that a probability is a share of draws. A level is a mean over `SignalPath.window`
neighboring blocks of rows. The best level is taken where the posterior *mean* of the path is highest, not at the
maximum of each draw: the maximum of a noisy path lies above the path's true maximum, the more so the less is known.

Shares are fitted as arcsin √y, on which the noise of a share of successes is the same everywhere, and come back as
sin². Rows that scatter much, such as shares of few completions, have a mean apart from that: they are fitted as they
are. Signals that grow by factors are fitted in logarithms; all others in units of their own range.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from bayes_grpo.rows.series import ExpectedNoise, RewardLevels, is_share, row_blocks
from bayes_grpo.signals.counts import counts_of, flatten_by_counts
from bayes_grpo.signals.logged import Logged
from bayes_grpo.signals.posterior import PathDraws, PathPrior, path_draws
from bayes_grpo.signals.thresholds import THRESHOLDS

PATH_BLOCKS = 60
"""Longer signals are averaged in blocks of rows down to this number."""
LEAST_PATH_ROWS = 2
"""Rows that a path needs."""
REWARD = PathPrior()
"""Of train rewards: the anchor of 42 public repositories."""
EVALUATION_PRIOR = REWARD._replace(log_noise=-3.7, log_noise_sd=0.8, log_movement=-3.6, slope=0.02, at_rest=0.1)
"""Of evaluation rewards, which are means over hundreds of completions of the same prompts."""
FACTOR = PathPrior(log_noise=-1.2, log_noise_sd=1.2, log_movement=-3.5, slope=0.02)
"""Of signals in logarithms."""
_FAR = 4.0
_FREEDOM = 4.0
_NEIGHBORS = 3
_FEW_OUTLIERS = 3
_USUAL = 0.9
_SD_OF_MEDIAN = 1.4826  # of the noise, over the median of its sizes
_OUTLIER_SHARE = 0.02
_WINDOW_PART = 12
_NEAREST_SHARE = 0.02
_LARGEST_BIAS = 0.01
"""Share of the range by which the mean of a block may lie off sin² of the mean of its arcsin √y."""
_SCATTER_ROWS = 8
"""Rows from which on noise is distinguished from movement well enough to know that distance."""
_NOTHING = 2e-3
"""Share of the span below which a level is written as 0."""

Unit = Literal["share", "factor", "range"]
"""How a path is fitted: as a share, in logarithms, or in units of its range."""


@dataclass(frozen=True, eq=False)
class SignalPath:
    """Posterior of the latent course of one logged signal.

    Attributes:
        logged: The logged rows.
        step: Mean step of each block of rows, shape (n,).
        last_step: Last step of each block, shape (n,).
        value: Mean of the rows of each block, shape (n,).
        draws: Draws of the path, shape (draws, n), in the signal's unit.
        noise: Standard deviation of one logged row, in the signal's unit; of its logarithm where the unit is "factor".
        low: Lowest possible value; minus infinity where unknown.
        span: Range with which changes are compared, in the signal's unit.
        unit: How the path was fitted.
    """

    logged: Logged
    step: np.ndarray
    last_step: np.ndarray
    value: np.ndarray
    draws: np.ndarray
    noise: float
    low: float
    span: float
    unit: Unit

    @property
    def window(self) -> int:
        """Blocks whose mean is a level."""
        return max(1, len(self.step) // _WINDOW_PART)

    @cached_property
    def mean(self) -> np.ndarray:
        """Posterior mean, shape (n,)."""
        return self.draws.mean(axis=0)

    @cached_property
    def levels(self) -> np.ndarray:
        """Draws of the level over every window of blocks, shape (draws, n - window + 1)."""
        total = np.cumsum(np.pad(self.draws, ((0, 0), (1, 0))), axis=1)
        return (total[:, self.window :] - total[:, : -self.window]) / self.window

    @property
    def start(self) -> np.ndarray:
        """Draws of the first level, shape (draws,)."""
        return self.levels[:, 0]

    @property
    def now(self) -> np.ndarray:
        """Draws of the last level, shape (draws,): the one that every sentence calls "now"."""
        return self.levels[:, -1]

    @cached_property
    def trailing(self) -> np.ndarray:
        """Draws of the level up to each block, over as many blocks as there are up to a window, shape (draws, n)."""
        first = np.arange(1, self.window)
        lead = np.cumsum(self.draws[:, : self.window - 1], axis=1) / first
        return np.concatenate([lead, self.levels], axis=1)

    @cached_property
    def best_so_far(self) -> np.ndarray:
        """Draws of the best level up to each block, where its posterior mean is highest, shape (draws, n).

        A level over one block alone counts only there: the first row may lie off by chance.
        """
        return self.trailing[:, self._best_blocks]

    @cached_property
    def _best_blocks(self) -> np.ndarray:
        """Last block of the best level over more than one block, up to each block; the first of equals, shape (n,)."""
        mean = self.trailing.mean(axis=0)
        first = min(self.window, 2) - 1
        return np.array([first + int(mean[first : i + 1].argmax()) if i >= first else i for i in range(len(mean))])

    @property
    def best_block(self) -> int:
        """Last block of the best level over more than one block; the first of equals."""
        return int(self._best_blocks[-1])

    @property
    def best(self) -> np.ndarray:
        """Draws of the best level, shape (draws,)."""
        return self.trailing[:, self.best_block]

    @property
    def peaked(self) -> bool:
        """True if the last level lies below the best by any amount, with more than the probability of a suspicion."""
        return float((self.best > self.now).mean()) > 1.0 - THRESHOLDS.suspect

    @property
    def floor(self) -> float:
        """Lowest possible value; where it is unknown the lowest logged, or 0 where few rows lie above it.

        The range of few rows may be their noise: scores of 38 and 36 are nearly the same.
        """
        if np.isfinite(self.low):
            return self.low
        least = float(self.logged.value.min())
        return min(least, 0.0) if self.logged.rows < THRESHOLDS.waste_rows else least

    def fell(self, share: float | None = None) -> np.ndarray:
        """True where it lies below its best by a share of that (named from it), and by 2% of the span, (draws, n)."""
        share = THRESHOLDS.fell if share is None else share
        fall = self.best_so_far - self.recent
        return (fall >= share * (self.best_so_far - self.floor)) & (fall >= THRESHOLDS.rises * self.span)

    def returns(self) -> np.ndarray:
        """How often it has lost 30% of its best and come back within a tenth of it, up to each block, (draws, n)."""
        height = np.maximum(self.best_so_far - self.floor, 1e-12)
        fall = (self.best_so_far - self.recent) / height
        down = np.zeros(len(fall), bool)
        count = np.zeros(fall.shape, int)
        for i in range(1, fall.shape[1]):
            down = down | (fall[:, i] >= THRESHOLDS.turned)
            back = down & (fall[:, i] < THRESHOLDS.fell)
            count[:, i] = count[:, i - 1] + back
            down = down & ~back
        return count

    @property
    def best_step(self) -> float:
        """Last step at which the path is within the noise of a row of its best level, by the posterior mean.

        A level that is probably lost is none of them, however much a row scatters.
        """
        best = float(self.best.mean())
        not_lost = self.lost().mean(axis=0) < THRESHOLDS.probable
        near = np.flatnonzero(not_lost & (self.mean >= best - self.noise))
        last = near[-1] if len(near) else self.best_block
        return float(self.last_step[last])

    @cached_property
    def recent(self) -> np.ndarray:
        """Draws of the path, with the last level in the place of the last block, shape (draws, n)."""
        return np.concatenate([self.draws[:, :-1], self.now[:, None]], axis=1)

    @property
    def display_levels(self) -> RewardLevels:
        """First, last and best level as a sentence shows them, and the step of the best."""
        first, last, best = (self.display_value(draws) for draws in (self.start, self.now, self.best))
        # Of the level itself: `best_step` may be any later step within the noise of a row, which is for checkpoints.
        return RewardLevels(first, last, best, float(self.last_step[self.best_block]))

    def display_value(self, draws: np.ndarray) -> float:
        """Median of a level as a sentence shows it: 0 where it is nothing next to the span."""
        level = float(np.median(draws))
        return 0.0 if abs(level) < _NOTHING * self.span else level

    def at(self, steps: np.ndarray) -> np.ndarray:
        """Draws at other steps, linear between blocks and constant beyond them, shape (draws, steps)."""
        steps = np.atleast_1d(np.asarray(steps, dtype=float))
        right = np.clip(np.searchsorted(self.step, steps), 1, len(self.step) - 1)
        left = right - 1
        share = np.clip((steps - self.step[left]) / (self.step[right] - self.step[left]), 0.0, 1.0)
        return self.draws[:, left] * (1.0 - share) + self.draws[:, right] * share

    def over(self, first: float, last: float) -> np.ndarray:
        """Draws of the mean between two steps, shape (draws,)."""
        return self.at(np.linspace(first, last, 9)).mean(axis=1)

    def change(self, first: float | None = None, last: float | None = None) -> np.ndarray:
        """Draws of the change between two steps, by default from the first level to the last, shape (draws,)."""
        before = self.start if first is None else self.at(np.array([first]))[:, 0]
        after = self.now if last is None else self.at(np.array([last]))[:, 0]
        return after - before

    def lost(self) -> np.ndarray:
        """True where half of the gain, or of a level that was high from the start, is lost at each block, (draws, n).

        lost(t) = best(t) − m(t) ≥ base / 2 and ≥ 5% of the span, where base is the height of the best level above the
        lowest value if the run began above half of that height, else the gain; without a lowest value it is the gain
        or half of the range, whichever is more, and the fall a tenth of the best level above the floor.
        """
        half = THRESHOLDS.half
        best, start = self.best_so_far, self.start[:, None]
        fall = best - self.recent
        gain = best - start
        if np.isfinite(self.low):
            height = best - self.low
            base = np.where(start - self.low > half * height, height, gain)
        else:
            base = np.maximum(gain, half * self.span)
        least = THRESHOLDS.material * self.span
        if not np.isfinite(self.low):
            least = np.maximum(least, THRESHOLDS.fell * (best - self.floor))
        return (fall >= half * base) & (fall >= least)


def fit_path(
    step: np.ndarray,
    value: np.ndarray,
    *,
    seed: int = 0,
    prior: PathPrior | None = None,
    unit: Unit | None = None,
    low: float = -np.inf,
    high: float = np.inf,
    robust: bool = True,
    noise: ExpectedNoise | None = None,
    indicator: bool = False,
    counted: bool = False,
) -> SignalPath | None:
    """The path of a signal.

    Args:
        step: Steps of the rows, shape (n,), increasing.
        value: The signal, shape (n,), NaN where not logged.
        seed: Seed of the draws.
        prior: The prior on the scale of the fit; by default that of the unit.
        unit: How to fit; by default as a share where all values lie in [0, 1], else in units of the range.
        low: Lowest possible value, where known.
        high: Highest possible value, where known.
        robust: Whether single rows far off both neighbors have little weight: batches, but not evaluations.
        noise: Standard deviation that a row is expected to have, where the log says so.
        indicator: Whether rows are 0 or 1 by what they have, such as no variance: a share is then fitted as arcsin √y
            however much it scatters, as the thresholds of such shares were learned.
        counted: Whether shares are those of the successes of few completions, where they can be (`counts_of`).

    Returns:
        The posterior, or None with fewer than `LEAST_PATH_ROWS` finite values.
    """
    logged = Logged.of(step, value)
    if logged.rows < LEAST_PATH_ROWS:
        return None
    if unit is None:
        unit = "share" if is_share(logged.value) and low in (-np.inf, 0.0) and high in (np.inf, 1.0) else "range"
    raw = np.log(logged.value) if unit == "factor" else logged.value
    weight = row_weights(raw) if robust else np.ones(len(raw))
    blocks = row_blocks(logged.rows, PATH_BLOCKS)
    size = np.add.reduceat(weight, blocks.start)
    mean = np.add.reduceat(weight * raw, blocks.start) / size
    usual = raw[weight == 1.0]
    span = _span(usual if np.ptp(usual) > 0.0 else raw, unit, low, high)  # rows of one value and few others
    if prior is None:
        prior = _prior_of(unit, logged, bounded=bool(np.isfinite(high - low)))
    if unit == "factor":
        prior = prior._replace(jump_sd=max(prior.jump_sd, 0.5 * float(np.ptp(mean))))
    scale = span if unit == "range" else 1.0
    time = np.cumsum(blocks.size) - blocks.size[0]

    def fitted(rows: np.ndarray, noise_unit: float) -> PathDraws:
        given = prior if noise is None else prior.with_noise(noise, noise_unit)
        return path_draws(time, rows / scale, size, given, seed)

    rows = mean
    found = None
    if unit == "share":
        rows = np.arcsin(np.sqrt(np.clip(mean, 0.0, 1.0)))
        found = fitted(rows, _unit_noise(np.clip(raw, _NEAREST_SHARE, 1.0 - _NEAREST_SHARE)))
        known = logged.rows >= _SCATTER_ROWS and not (logged.constant or indicator)
        if known and _bias(found, size) > _LARGEST_BIAS:
            found = None
    angular = found is not None
    if found is None:
        rows = mean
        found = fitted(rows, scale)
    path = found.path * scale
    row_sd = found.noise * scale
    if logged.constant:
        path = np.broadcast_to(rows, path.shape)
        row_sd = 0.0
    if angular:
        path = np.sin(np.clip(path, 0.0, 0.5 * np.pi)) ** 2
        row_sd *= _unit_noise(path)
    counts = counts_of(logged.value) if counted and unit == "share" and not logged.constant else None
    if counts is not None:
        path = flatten_by_counts(path, counts, np.random.default_rng(seed))
    if unit == "share":
        low = 0.0
        high = 1.0
    if unit == "factor":
        path = np.exp(path)
    return SignalPath(
        logged=logged,
        step=blocks.mean(logged.step),
        last_step=logged.step[blocks.last],
        value=blocks.mean(logged.value),
        draws=np.clip(path, low, high),
        noise=row_sd,
        low=low,
        span=1.0 if unit == "share" else span,
        unit=unit,
    )


def _prior_of(unit: Unit, logged: Logged, *, bounded: bool) -> PathPrior:
    """Prior of a signal of which nothing but its rows and its range is known."""
    if unit == "factor":
        return FACTOR
    if unit == "share" or bounded:
        return REWARD
    gap = float(logged.step[-1] - logged.step[0]) / (logged.rows - 1)
    return REWARD.scaled_to_range(logged.rows, gap)


def _bias(found: PathDraws, size: np.ndarray) -> float:
    """Largest distance of the mean of a block from sin² of the mean of its arcsin √y, by the noise of that.

    For θ + e with e ~ N(0, v) the mean of sin² is sin²θ + ½ (1 − e^(−2v)) cos 2θ.
    """
    variance = found.noise**2 / size
    return float(np.abs(0.5 * (1.0 - np.exp(-2.0 * variance)) * np.cos(2.0 * found.path.mean(axis=0))).max())


def _unit_noise(share: np.ndarray) -> float:
    """Standard deviation of shares whose arcsin √y has one of 1."""
    return 2.0 * float(np.sqrt(np.mean(share * (1.0 - share))))


def _span(values: np.ndarray, unit: Unit, low: float, high: float) -> float:
    """Range with which changes are compared: the known one, else that of the rows."""
    if unit == "share" or unit == "factor":
        return 1.0
    if np.isfinite(low) and np.isfinite(high):
        return high - low
    return max(float(np.ptp(values)), 1e-9 * float(np.abs(values).max()), 1e-12)


def row_weights(value: np.ndarray) -> np.ndarray:
    """Weights of rows, shape (n,): 1, and little for the few single rows far off the rows on both of their sides.

    A row far off is a batch, not a state of the run, if the rows before and after agree that it is; the last rows have
    nothing after them, so that it stays open what they are. Where many rows are far off, that is how this signal
    scatters. The weight is that of Student's t distribution with 4 degrees of freedom.
    """
    n = len(value)
    if n < 2 * _NEIGHBORS:
        return np.ones(n)
    moves = np.abs(np.diff(value))
    usual = np.minimum(moves, np.quantile(moves, _USUAL))
    sd = max(_SD_OF_MEDIAN * float(np.median(moves)), float(np.sqrt(np.mean(usual**2)))) / np.sqrt(2.0)
    if sd == 0.0:
        sd = 1e-3 * float(np.ptp(value)) + 1e-300
    windows = np.lib.stride_tricks.sliding_window_view(value, _NEIGHBORS)
    medians = np.median(windows, axis=1)
    middle = np.arange(_NEIGHBORS, n - _NEIGHBORS)
    before, after = medians[middle - _NEIGHBORS], medians[middle + 1]
    above = value[middle] - np.maximum(before, after)
    below = np.minimum(before, after) - value[middle]
    off = np.maximum(np.maximum(above, below), 0.0) / sd
    far = off > _FAR
    weight = np.ones(n)
    if far.sum() <= max(_FEW_OUTLIERS, _OUTLIER_SHARE * n):
        weight[middle[far]] = (_FREEDOM + 1.0) / (_FREEDOM + off[far] ** 2)
    return weight
