"""Measurement noise of rows from what is logged with the mean, known before a regime is fitted.

A row is the mean over N completions in groups of G. Completions of one prompt are alike: with intraclass correlation ρ,

    variance of a row = v (1 + (G − 1) ρ) / N,

v the variance of one completion, p(1 − p) for a share of successes p. What says ρ is the share of groups without
spread, or the mean spread within groups: both follow from p, ρ and G where success rates of prompts have a beta
distribution. Where nothing says it, a typical ρ stands in, and the prediction is less sure.

This holds for prompts that are new in every step. Where the same ones come back, the variance between prompts is no
noise at all, and rows scatter less; where a trainer drops groups before it averages, or several rewards are summed, the
numbers logged with the mean are not of the same completions. A log that scatters otherwise than predicted shows it,
and the prediction is then less sure by as much (`NoiseLevel.prior_spread`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.logs.run import Run
from bayes_grpo.rows.series import ExpectedNoise, NoiseLevel, is_share

SMOOTHING_WIDTH = 8.0
"""Standard deviation of the kernel that smooths levels and spreads, rows: a row must not weigh itself."""

NEAREST_RATE = 0.02
"""Shares nearer to 0 or 1 count as this near: a log cannot promise that noise ends there."""

MIN_GROUPS = 50
"""Groups that it takes to say how alike completions of one prompt are."""

TWO_VALUED = 0.9
"""A logged variance of this share of p(1 − p) or more is that of a reward of 0 or 1."""


class NoiseEvidence(NamedTuple):
    """Basis of a prediction; numbers by `benchmarks/calibration/known_noise.py`, repositories left out.

    Attributes:
        name: What was logged.
        spread: Standard deviation of the logarithm of true over predicted sd, e-folds.
        correlation: Typical intraclass correlation that stands in; NaN where the log says it.
    """

    name: str
    spread: float
    correlation: float


BY_GROUPS = NoiseEvidence("mean and groups", 0.18, float("nan"))
BY_LEVEL = NoiseEvidence("mean and batch size", 0.38, 0.32)
BY_SPREAD = NoiseEvidence("spread and batch size", 0.57, 0.55)

ROW_OVER_SPREAD = 0.22
"""Typical standard deviation of a row over the spread of single rewards that trainers log.

Over 15 repositories, by `benchmarks/calibration/few_rows.py`.
"""


def row_noise(run: Run, kept: np.ndarray) -> tuple[np.ndarray | None, NoiseLevel | None]:
    """Measurement noise of the fitted rows of the train reward, as far as the log determines it.

    The variance of each row over that of a typical one, shape (n,), and the sd of a typical one; None for either where
    nothing says it.
    """
    y = run.reward[kept]
    deviation = _logged(run, "reward_std", kept)
    success = np.clip(_smooth(y), NEAREST_RATE, 1.0 - NEAREST_RATE) if is_share(y) else None
    if success is not None:
        one = success * (1.0 - success)
        if deviation is not None and run.settings.reward_std_kind.value == "total":
            share = float(np.mean(deviation**2) / np.mean(y * (1.0 - y) + 1e-12))
            if share < TWO_VALUED:  # in [0, 1] without being a share of successes
                one = one * max(share, 1e-4)
                success = None
    elif deviation is not None:
        one = _smooth(deviation**2)
        one = 0.5 * (one + one.mean())  # a spread over few completions is itself noise
    else:
        return None, None
    typical = float(np.exp(np.mean(np.log(one))))
    return one / typical, _level(run, kept, one / typical, typical, success)


def expected_noise(run: Run) -> ExpectedNoise | None:
    """Standard deviation of a row of the train reward from the batch, else from the logged spread of its rewards.

    Unlike `row_noise` it needs no number of rows and no correlation of the run's own: it is for logs of a few rows,
    which do not show their noise.
    """
    reward = run.reward[np.isfinite(run.reward)]
    deviation = run.values("reward_std")
    deviation = deviation[np.isfinite(deviation) & (deviation > 0.0)]
    group, prompts = run.settings.group_size.explicit, run.settings.prompts_per_step.explicit
    if group and prompts and len(reward):
        completions = group * prompts * float(np.median(run.window))
        if is_share(reward):
            success = float(np.clip(reward.mean(), NEAREST_RATE, 1.0 - NEAREST_RATE))
            return _of_batch(BY_LEVEL, success * (1.0 - success), group, completions)
        if len(deviation):
            return _of_batch(BY_SPREAD, float(np.mean(deviation**2)), group, completions)
    if not len(deviation):
        return None
    return ExpectedNoise(ROW_OVER_SPREAD * float(np.sqrt(np.mean(deviation**2))), at_least=True)


def _of_batch(evidence: NoiseEvidence, variance: float, group: float, completions: float) -> ExpectedNoise:
    design = _design(group, evidence.correlation)
    return ExpectedNoise(float(np.sqrt(variance * design / max(completions, 1.0))), at_least=False)


def _design(group: float, correlation: float) -> float:
    """Variance of a row over that of as many independent completions."""
    return 1.0 + (group - 1.0) * correlation


def _level(
    run: Run, kept: np.ndarray, variance: np.ndarray, typical: float, success: np.ndarray | None
) -> NoiseLevel | None:
    """The sd of a typical row, by the best evidence that there is; None where the batch is unknown."""
    y = run.reward[kept]
    group, prompts = run.settings.group_size.explicit, run.settings.prompts_per_step.explicit
    if not group or not prompts:
        return None
    groups = prompts * float(np.median(run.window[kept]))
    rho = None if success is None or len(y) * groups < MIN_GROUPS else _correlation(run, kept, success, group)
    evidence = BY_SPREAD
    if success is not None:
        evidence = BY_LEVEL if rho is None else BY_GROUPS
    design = _design(group, evidence.correlation if rho is None else rho)
    sd = float(np.sqrt(typical * design / (group * groups)))
    seen, error = scatter(y, variance)
    return NoiseLevel(sd, evidence.spread, evidence.name, design, float(np.log(seen / sd)), error)


def scatter(y: np.ndarray, variance: np.ndarray) -> tuple[float, float]:
    """Scatter of rows about any smooth course, from their second differences.

    Standard deviation of a typical row, from rows and their relative variances of shape (n,), and the standard error of
    its logarithm: for normal noise the mean of n squared second differences has the relative variance 35/(9n).
    """
    second = y[:-2] - 2.0 * y[1:-1] + y[2:]
    expected = variance[:-2] + 4.0 * variance[1:-1] + variance[2:]
    return float(np.sqrt(np.mean(second**2 / expected) + 1e-300)), float(np.sqrt(35.0 / (36.0 * len(second))))


def _correlation(run: Run, kept: np.ndarray, success: np.ndarray, group: float) -> float | None:
    """Intraclass correlation ρ for which groups are as often without spread, or spread as much, as was logged."""
    for name in ("frac_reward_zero_std", "reward_std"):
        logged = _logged(run, name, kept)
        if logged is None or (name == "reward_std" and run.settings.reward_std_kind.value != "within"):
            continue
        few = np.linspace(0, len(success) - 1, min(len(success), 256)).astype(int)
        return _solved(success[few], float(np.mean(logged)), group, name == "reward_std")
    return None


def _solved(success: np.ndarray, logged: float, group: float, spread: bool) -> float:
    """ρ at which the expected share of zero-variance groups, or their mean spread, is the logged one."""
    count = np.arange(round(group) + 1.0)
    if spread:
        statistic = np.sqrt(count * (group - count) / (group * (group - 1.0)))
    else:
        statistic = ((count == 0) | (count == count[-1])).astype(float)

    from scipy.optimize import brentq  # here: with ndimage a sixth of a second that other logs need not wait for

    def excess(logit: float) -> float:
        rho = 1.0 / (1.0 + np.exp(-logit))
        return float(np.mean(beta_binomial(success, rho, group) @ statistic)) - logged

    low, high = -7.0, 7.0
    ends = excess(low), excess(high)
    if ends[0] * ends[1] > 0:  # beyond what any ρ explains: the nearer end
        root = low if abs(ends[0]) < abs(ends[1]) else high
    else:
        root = float(brentq(excess, low, high, xtol=1e-3))  # pyright: ignore[reportArgumentType]
    return float(1.0 / (1.0 + np.exp(-root)))


def beta_binomial(success: np.ndarray, rho: float, group: float) -> np.ndarray:
    """Probabilities of 0 to G successes, shape (n, G + 1), in a group whose prompts have beta success rates.

    With mean success rates p, shape (n,), and intraclass correlation ρ in (0, 1): a = p(1/ρ − 1), b = (1 − p)(1/ρ − 1).
    """
    from scipy.special import betaln, gammaln  # here: what follows a training from outside needs no SciPy

    size = round(group)
    count = np.arange(size + 1.0)
    a, b = (x[:, None] * (1.0 / rho - 1.0) for x in (success, 1.0 - success))
    ways = gammaln(size + 1.0) - gammaln(count + 1.0) - gammaln(size - count + 1.0)
    return np.exp(ways + betaln(a + count, b + size - count) - betaln(a, b))


def _logged(run: Run, name: str, kept: np.ndarray) -> np.ndarray | None:
    """A signal on the fitted rows, holes filled with its mean; None where most of it is missing or all is 0."""
    if name not in run.signals:
        return None
    values = run.signals[name][kept]
    there = np.isfinite(values)
    if there.mean() < 0.8 or (name == "reward_std" and not np.any(values[there] > 0)):
        return None
    return np.where(there, values, np.mean(values[there]))


def _smooth(values: np.ndarray) -> np.ndarray:
    """A Gaussian kernel's mean of the rows about each row, to four widths; beyond the ends stand the ends' values."""
    width = min(SMOOTHING_WIDTH, len(values) / 4.0)
    reach = int(4.0 * width + 0.5)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    return np.convolve(np.pad(values, reach, mode="edge"), kernel / kernel.sum(), mode="valid")
