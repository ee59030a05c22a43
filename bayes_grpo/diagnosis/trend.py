"""The trend of a logged signal with its uncertainty: a small state space over a grid of settings, in draws.

    signal of a row = level + noise,   level = straight line + integrated random walk + random walk

The random walks are the state (level, slope) of a local linear trend; their covariance over the rows of a log is
known in closed form, and with at most `TREND_ROWS` rows (longer logs are averaged in blocks) the posterior of the
whole trend is one linear solve. The noise variance is integrated out exactly, both strengths of the walks on a
grid. Rows far off lose weight, as in Huber's estimator, so that one wild row does not pull the trend along.
See Durbin and Koopman, Time Series Analysis by State Space Methods (2012), chapter 3, and Wahba (1978),
https://doi.org/10.1111/j.2517-6161.1978.tb01050.x for the equivalence with smoothing splines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.series import row_blocks

TREND_DRAWS = 200
"""Draws of a trend."""
TREND_ROWS = 48
"""Longer signals are averaged in blocks of rows down to this number."""
BEFORE_ROWS = 5
"""Rows whose mean is the level from which a change is counted."""
_INTEGRATED = np.array([0.3, 3.0, 12.0, 50.0, 200.0, 1000.0])  # sd of the integrated walk over the log, in noise sd
_WALK = np.array([0.0, 4.0])  # sd of the random walk over the log, in noise sd
_WALK_WEIGHT = np.array([0.75, 0.25])
_LINE_SD = 1e3  # of level and slope in noise sd: vague, yet proper
_STARTS, _START_SD = (0.03, 0.1), 20.0  # time constants of a start that settles, in lengths of the log; noise sd
_START_ROWS = 20  # of fewer rows a start is one or two
LEAST_VALUES = 3
"""Fewer values than this show no trend."""
_FAR = 3.5  # robust noise sd beyond which a row loses weight
_PASSES = 3


@dataclass(frozen=True, eq=False)
class Trend:
    """Posterior of the latent signal beneath a logged one.

    Attributes:
        step: Steps of the (averaged) rows, shape (n,).
        value: The rows themselves, shape (n,).
        draws: Draws of the trend, shape (draws, n).
        noise_sd: Posterior mean of a single logged row's noise sd.
        rows: Number of logged rows.
        raw_step: Steps of the logged rows, shape (rows,).
        raw: Logged rows, shape (rows,).
    """

    step: np.ndarray
    value: np.ndarray
    draws: np.ndarray
    noise_sd: float
    rows: int
    raw_step: np.ndarray
    raw: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean, shape (n,)."""
        return self.draws.mean(axis=0)

    def at(self, steps: np.ndarray) -> np.ndarray:
        """Draws at other steps, linear between rows and constant beyond them, shape (draws, steps)."""
        steps = np.atleast_1d(np.asarray(steps, dtype=float))
        if len(self.step) == 1:
            return np.repeat(self.draws, len(steps), axis=1)
        right = np.clip(np.searchsorted(self.step, steps), 1, len(self.step) - 1)
        left = right - 1
        share = np.clip((steps - self.step[left]) / (self.step[right] - self.step[left]), 0.0, 1.0)
        return self.draws[:, left] * (1.0 - share) + self.draws[:, right] * share

    def over(self, first: float, last: float) -> np.ndarray:
        """Draws of the mean between two steps, shape (draws,)."""
        return self.at(np.linspace(first, last, 9)).mean(axis=1)

    def change(self, first: float | None = None, last: float | None = None) -> np.ndarray:
        """Draws of the change between two steps, by default from the first row to the last, shape (draws,)."""
        first = self.step[0] if first is None else first
        last = self.step[-1] if last is None else last
        ends = self.at(np.array([first, last]))
        return ends[:, 1] - ends[:, 0]

    def change_since(self, first: float, last: float) -> np.ndarray:
        """Draws of the change from the rows up to a step, `BEFORE_ROWS` at most, to another step, shape (draws,).

        A smooth trend anticipates a jump; the rows before it do not.
        """
        before = self.raw[self.raw_step <= first][-BEFORE_ROWS:]
        if not len(before):
            return self.change(first, last)
        error = self.noise_sd / np.sqrt(len(before))
        start = before.mean() + error * np.random.default_rng(0).standard_normal(len(self.draws))
        return self.at(np.array([last]))[:, 0] - start


def fit_trend(step: np.ndarray, value: np.ndarray, seed: int = 0, settling: bool = False) -> Trend | None:
    """The trend of a signal.

    Args:
        step: Steps of the rows, shape (n,), increasing.
        value: The signal, shape (n,), NaN where not logged.
        seed: Seed of the draws.
        settling: Whether the level may have a start that settles within a few rows, e^(-t/τ) for two short τ, which
            else lose weight as rows far off.

    Returns:
        The posterior, or None with fewer than `LEAST_VALUES` logged values.
    """
    kept = np.isfinite(value)
    raw_step, raw = np.asarray(step, float)[kept], np.asarray(value, float)[kept]
    if len(raw) < LEAST_VALUES:
        return None
    blocks = row_blocks(len(raw), TREND_ROWS)
    x, y, count = blocks.mean(raw_step), blocks.mean(raw), blocks.size
    rng = np.random.default_rng(seed)
    centre, scale = float(np.median(y)), float(np.std(y))
    floor = 1e-6 * max(abs(centre), 1e-3)
    if scale <= floor:
        draws = y[None, :] + floor * rng.standard_normal((TREND_DRAWS, 1))
        return Trend(x, y, draws, floor, len(raw), raw_step, raw)
    starts = _START_SD * _starts(x, settling)
    draws, noise = _posterior(x, (y - centre) / scale, count, starts, rng)
    return Trend(x, y, centre + scale * draws, max(scale * noise, floor), len(raw), raw_step, raw)


def reward_trend(run: Run, signal: str) -> Trend | None:
    """The trend of a run's "reward" (train) or "eval_reward" (evaluation), fitted once a run, as by `fit_trend`."""
    train = signal == "reward"
    step, value = (run.step, run.reward) if train else (run.eval_step, run.eval_reward)
    return run.once(("trend", signal), lambda: fit_trend(step, value, seed=1 if train else 2))


def total_change(trend: Trend) -> np.ndarray:
    """Draws of the change from first row to last, with that of a start which settles in a few rows, shape (draws,)."""
    found = fit_trend(trend.raw_step, trend.raw, settling=True)
    return (found or trend).change()


def _starts(x: np.ndarray, settling: bool) -> np.ndarray:
    """Starts that settle, shape (number of time constants, n)."""
    t = (x - x[0]) / (x[-1] - x[0])
    times = _STARTS if settling and len(x) >= _START_ROWS else ()
    return np.exp(-t / np.array(times)[:, None])


def _covariances(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances over the rows of the vague line, the integrated random walk and the random walk.

    Time runs from 0 to 1 over the rows; both walks start at 0 and have unit variance at 1.
    """
    t = (x - x[0]) / (x[-1] - x[0])
    low, high = np.minimum(t[:, None], t), np.maximum(t[:, None], t)
    line = _LINE_SD**2 * (1.0 + (t[:, None] - 0.5) * (t - 0.5))
    return line, 0.5 * low**2 * (3.0 * high - low), low


class _OnGrid(NamedTuple):
    """What the rows say at every point of the grid, given the weight of each row.

    Attributes:
        share: Posterior weights of the grid, shape (grid,).
        mean: Trend, shape (grid, n).
        squares: Weighted sum of squares, from which the noise variance is drawn, shape (grid,).
        precision: Inverse covariance of the rows in units of the noise variance, shape (grid, n, n).
    """

    share: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    precision: np.ndarray


def _on_grid(trend: np.ndarray, y: np.ndarray, weight: np.ndarray, log_prior: np.ndarray) -> _OnGrid:
    total = trend + np.diag(1.0 / weight)
    precision = np.linalg.inv(total)
    inverse = precision @ y
    squares = 1e-6 + np.maximum(inverse @ y, 0.0)
    # The noise variance is integrated out under the prior 1/variance, except for a trace that keeps it proper.
    log_weight = log_prior - 0.5 * np.linalg.slogdet(total)[1] - 0.5 * (len(y) - 1.0) * np.log(squares)
    share = np.exp(log_weight - log_weight.max())
    return _OnGrid(share / share.sum(), y - inverse / weight, squares, precision)


def _posterior(
    x: np.ndarray, y: np.ndarray, count: np.ndarray, starts: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Draws of the trend and the noise sd of a single row, for values of unit spread; starts as `_starts`, scaled."""
    n = len(y)
    line, integrated, walk = _covariances(x)
    line = line + starts.T @ starts
    grid = [(b, w) for b in _INTEGRATED for w in _WALK]
    log_prior = np.log(np.array([weight for _ in _INTEGRATED for weight in _WALK_WEIGHT]))
    trend = np.stack([line + b**2 * integrated + w**2 * walk for b, w in grid])
    freedom = n - 1.0 - len(starts)  # the straight line takes two
    weight = count
    found = _on_grid(trend, y, weight, log_prior)
    for _ in range(_PASSES - 1):
        residual = np.abs(y - found.share @ found.mean) * np.sqrt(count)
        far = residual / max(1.4826 * float(np.median(residual)), 1e-9)
        weight = count * np.minimum(1.0, (_FAR / np.maximum(far, 1e-9)) ** 2)
        found = _on_grid(trend, y, weight, log_prior)
    # Draws by conditioning: a draw of the prior moves by what the rows say of its difference to them.
    counts = rng.multinomial(TREND_DRAWS, found.share)
    root_walk, root = (np.linalg.cholesky(x + 1e-10 * np.eye(n)) for x in (walk, integrated))
    middle = (x - x[0]) / (x[-1] - x[0]) - 0.5
    out = []
    for g in np.flatnonzero(counts):
        k, (b, w) = counts[g], grid[g]
        sd = np.sqrt(found.squares[g] / rng.chisquare(freedom, k))
        start = _LINE_SD * (rng.standard_normal((k, 1)) + rng.standard_normal((k, 1)) * middle)
        if len(starts):
            start = start + rng.standard_normal((k, len(starts))) @ starts
        start = start + b * rng.standard_normal((k, n)) @ root.T + w * rng.standard_normal((k, n)) @ root_walk.T
        off = start + rng.standard_normal((k, n)) / np.sqrt(weight)
        moved = start - off + (off @ found.precision[g]) / weight
        out.append(found.mean[g] + sd[:, None] * moved)
    return np.concatenate(out), float(np.sqrt(found.share @ found.squares / freedom))


def rate_spent_at(step: np.ndarray, learning_rate: np.ndarray | None) -> float | None:
    """Step from which a learning rate is spent; None where it is not, or was not logged.

    A rate that warms up is below its peak too, so only what comes after the peak counts.

    Args:
        step: Steps of the rows, shape (n,).
        learning_rate: The rate at them, shape (n,), NaN where it was not logged; None where it never was.
    """
    if learning_rate is None:
        return None
    kept = np.flatnonzero(np.isfinite(learning_rate))
    rate = learning_rate[kept]
    if len(kept) < THRESHOLDS.first_rows or not rate.max() > 0.0:
        return None
    low = rate <= THRESHOLDS.rate_spent * rate.max()
    if not low[-1]:
        return None
    return float(step[kept[int(np.flatnonzero(~low)[-1]) + 1]])
