"""The trend of a logged signal with its uncertainty: a small state space over a grid of settings, in draws.

    signal of a row = level + noise,   level = straight line + integrated random walk + random walk

The random walks are the state (level, slope) of a local linear trend; their covariance over the rows of a log is
known in closed form, and with at most `TREND_ROWS` rows (longer logs are averaged in blocks) the posterior of the
whole trend is one linear solve. The noise variance is integrated out exactly, both strengths of the walks on a
grid. Rows far off lose weight, as in Huber's estimator, so that one wild row does not pull the trend along.
See Durbin and Koopman, Time Series Analysis by State Space Methods (2012), chapter 3, and Wahba (1978),
https://doi.org/10.1111/j.2517-6161.1978.tb01050.x for the equivalence with smoothing splines.

`trends_of` fits all signals of a run, for pictures and numbers in sentences. `fallen_of` and `last_lost` find a lost
reward by the rule of the diagnosis, so that fit, forecast and decision agree with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.logged import Logged
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.series import row_blocks, stretches

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
_FAR = 3.5  # robust noise sd beyond which a row loses weight
_PASSES = 3
_SD_OF_MEDIAN = 1.4826  # of the noise, over the median of its sizes
_LEAST_CENTRE = 1e-3  # that a constant signal counts for


@dataclass(frozen=True, eq=False)
class Trend:
    """Posterior of the latent signal beneath a logged one.

    Attributes:
        step: Steps of the (averaged) rows, shape (n,).
        value: The rows themselves, shape (n,).
        draws: Draws of the trend, shape (draws, n).
        noise_sd: Posterior mean of a single logged row's noise sd.
        logged: The logged rows.
    """

    step: np.ndarray
    value: np.ndarray
    draws: np.ndarray
    noise_sd: float
    logged: Logged

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean, shape (n,)."""
        return self.draws.mean(axis=0)

    def at(self, steps: np.ndarray) -> np.ndarray:
        """Draws at other steps, linear between rows and constant beyond them, shape (draws, steps)."""
        steps = np.atleast_1d(np.asarray(steps, dtype=float))
        right = np.clip(np.searchsorted(self.step, steps), 1, len(self.step) - 1)
        left = right - 1
        share = np.clip((steps - self.step[left]) / (self.step[right] - self.step[left]), 0.0, 1.0)
        return self.draws[:, left] * (1.0 - share) + self.draws[:, right] * share

    def over(self, first: float, last: float) -> np.ndarray:
        """Draws of the mean between two steps, shape (draws,)."""
        return self.at(np.linspace(first, last, 9)).mean(axis=1)

    def change(self, first: float | None = None, last: float | None = None) -> np.ndarray:
        """Draws of the change between two steps, by default from the first row to the last, shape (draws,)."""
        ends = (self.step[0] if first is None else first, self.step[-1] if last is None else last)
        return np.diff(self.at(np.array(ends)))[:, 0]

    def change_since(self, first: float, last: float) -> np.ndarray:
        """Draws of the change from the rows up to a step, `BEFORE_ROWS` at most, to another step, shape (draws,).

        A smooth trend anticipates a jump; the rows before it do not.
        """
        before = self.logged.until(first).value[-BEFORE_ROWS:]
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
        The posterior, or None with fewer than `THRESHOLDS.least_rows` logged values.
    """
    logged = Logged.of(step, value)
    if logged.rows < THRESHOLDS.least_rows:
        return None
    blocks = row_blocks(logged.rows, TREND_ROWS)
    x, y, count = blocks.mean(logged.step), blocks.mean(logged.value), blocks.size
    rng = np.random.default_rng(seed)
    centre, scale = float(np.median(y)), float(np.std(y))
    floor = 1e-6 * max(abs(centre), _LEAST_CENTRE)
    if scale <= floor:
        draws = y[None, :] + floor * rng.standard_normal((TREND_DRAWS, 1))
        return Trend(x, y, draws, floor, logged)
    times = np.array(_STARTS if settling and len(x) >= _START_ROWS else ())
    starts = _START_SD * np.exp(-(x - x[0]) / (x[-1] - x[0]) / times[:, None])
    draws, noise = _posterior(x, (y - centre) / scale, count, starts, rng)
    return Trend(x, y, centre + scale * draws, max(scale * noise, floor), logged)


def reward_trend(run: Run, signal: str) -> Trend | None:
    """The trend of a run's "reward" (train) or "eval_reward" (evaluation), fitted once a run, as by `fit_trend`."""
    train = signal == "reward"
    step, value = (run.step, run.reward) if train else (run.eval_step, run.eval_reward)
    return run.once(("trend", signal), lambda: fit_trend(step, value, seed=1 if train else 2))


def total_change(trend: Trend) -> np.ndarray:
    """Draws of the change from first row to last, with that of a start which settles in a few rows, shape (draws,)."""
    found = fit_trend(trend.logged.step, trend.logged.value, settling=True)
    return (found or trend).change()


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
    """Draws of the trend and noise sd of a row, for values of unit spread; starts that settle, shape (times, n)."""
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
        far = residual / max(_SD_OF_MEDIAN * float(np.median(residual)), 1e-9)
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


def rate_spent_at(run: Run) -> float | None:
    """Step from which the learning rate of a run is spent; None where it is not, or was not logged.

    A rate that warms up is below its peak too, so only what comes after the peak counts.
    """
    rate = Logged.of(run.step, run.values("learning_rate"))
    if rate.rows < THRESHOLDS.first_rows or not rate.value.max() > 0.0:
        return None
    low = rate.value <= THRESHOLDS.rate_spent * rate.value.max()
    return float(rate.step[np.flatnonzero(~low)[-1] + 1]) if low[-1] else None


LOGARITHMIC = {"entropy": 1e-4, "grad_norm": 1e-6, "completion_length": 1.0, "engine_mismatch": 1e-8}
"""Signals whose trend is fitted in logarithms, and the smallest value that counts."""
LIVE = ("grad_norm",)
"""Signals whose rows of 0 are left out: where no group has spread there is no gradient to measure."""
FITTED = {
    "reward_std": 10, "frac_reward_zero_std": 11, "entropy": 12, "kl": 13, "grad_norm": 14, "completion_length": 15,
    "completions_clipped_ratio": 26, "engine_mismatch": 30, "step_time": 32,
}  # fmt: skip
"""Signals whose trend is fitted, and the seed of its draws."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunTrends:
    """The trends of a run.

    Attributes:
        run: The run.
        reward: Train reward, or evaluation reward where no train reward is logged.
        held_out: Gold or evaluation reward of a run that logs a train reward too, or None.
        held_out_name: "gold" or "evaluation".
        signals: Canonical name → trend; of the logarithm of those in `LOGARITHMIC`.
        components: Reward function → trend of its mean, where the trainer logs them one by one.
        environments: Environment → trend of its mean.
    """

    run: Run
    reward: Trend
    held_out: Trend | None
    held_out_name: str
    signals: Mapping[str, Trend]
    components: Mapping[str, Trend]
    environments: Mapping[str, Trend]

    def share_without_spread(self, first: float, last: float) -> np.ndarray | None:
        """Draws of the share of zero-variance groups from one step to another, shape (draws,); None without rows."""
        trend = self.signals.get("frac_reward_zero_std")
        inside = np.zeros(0, bool) if trend is None else (trend.step >= first) & (trend.step <= last)
        return trend.draws[:, inside].mean(axis=1) if trend is not None and inside.any() else None


def trends_of(run: Run) -> RunTrends | None:
    """Fits the trend of every signal; None where neither reward has three values."""
    step = run.step
    train, held_out = reward_trend(run, "reward"), reward_trend(run, "eval_reward")
    name, gold = "evaluation", run.signals.get("gold_reward")
    if gold is not None and train is not None:
        trend = fit_trend(step, gold, seed=3)
        if trend is not None and (held_out is None or trend.logged.rows > held_out.logged.rows):
            held_out, name = trend, "gold"
    reward = train or held_out
    if reward is None:
        return None

    def fitted(columns: Mapping[str, np.ndarray], seeds: Iterable[int]) -> dict[str, Trend]:
        found = {key: fit_trend(step, x, seed=i) for i, (key, x) in zip(seeds, columns.items(), strict=False)}
        return {key: trend for key, trend in found.items() if trend is not None}

    signals = {key: run.signals[key] for key in FITTED if key in run.signals}
    signals |= {key: np.where(x > 0.0, x, np.nan) for key, x in signals.items() if key in LIVE}
    signals |= {key: np.log(np.maximum(x, LOGARITHMIC[key])) for key, x in signals.items() if key in LOGARITHMIC}
    return RunTrends(
        run=run,
        reward=reward,
        held_out=None if train is None else held_out,
        held_out_name=name,
        signals=fitted(signals, [FITTED[key] for key in signals]),
        components=fitted(run.components, count(100)),
        environments=fitted(run.environments, count(200)),
    )


def rise_chance(trends: RunTrends) -> float:
    """Probability that the reward rose by more than the noise of a row."""
    return float((trends.reward.change() > trends.reward.noise_sd).mean())


def rows_collapsed(y: np.ndarray) -> bool:
    """Whether a reward is lost at its last row, shape (n,), by the rule of the diagnosis."""
    return Logged(np.arange(float(len(y))), y).loss() > 1.0


class Fallen(NamedTuple):
    """A reward that is lost at the last row of a log.

    Attributes:
        best_step: Last step at which it was near its best.
        best: What it was there, reward.
        now: Where it stands.
        saved_step: Step of the checkpoint to go back to: of the best evaluation reward where one is logged, else
            ``best_step``.
        saved: What the reward was there.
        at_once: Whether it was never near its best after its first rows, so that going back is starting again.
    """

    best_step: float
    best: float
    now: float
    saved_step: float
    saved: float
    at_once: bool = False


def fallen_of(trend: Trend, ends: RewardRange, held_out_best: float | None = None) -> Fallen | None:
    """What a reward has lost at its last row, by the rule of the diagnosis (`Logged.loss`); None if it has not.

    Args:
        trend: Of the reward.
        ends: Its range with both ends or none.
        held_out_best: Step of the best evaluation reward; None where none is logged.
    """
    rows = trend.logged
    if rows.loss(ends) <= 1.0:
        return None
    step = last_near_best(trend, float(rows.step[rows.fall[1] - 1]))
    best = float(np.interp(step, trend.step, trend.mean))
    now = max(float(trend.mean[-1]), ends.low)
    at_once = step <= float(trend.step[THRESHOLDS.first_rows - 1])
    if at_once:  # what was lost before the trend could show it stands in the first rows
        best = max(best, float(rows.value[: THRESHOLDS.first_rows].mean()))
    if best <= now:
        return None
    if held_out_best is None:
        return Fallen(step, best, now, step, best, at_once)
    return Fallen(step, best, now, held_out_best, float(np.interp(held_out_best, trend.step, trend.mean)))


def last_lost(trend: Trend, ends: RewardRange) -> tuple[float, float] | None:
    """First and last step of the last stretch in which a reward is lost, whether it came back or not; None without."""
    lost = np.array([trend.logged.until(step).loss(ends) > 1.0 for step in trend.step])
    found = stretches(lost, THRESHOLDS.least_rows)
    return None if not found else (float(trend.step[found[-1][0]]), float(trend.step[found[-1][1]]))


def last_near_best(trend: Trend, until: float) -> float:
    """Last step up to one at which a signal is within its noise of its best by then."""
    before = trend.step <= until
    near = before & (trend.mean >= trend.mean[before].max() - trend.noise_sd)
    return float(trend.step[np.flatnonzero(near)[-1]])
