"""Measures on simulated runs what the reduction predicts: onset, thresholds, fluctuation, drift.

All on the two-armed bandit with a KL penalty, whose one parameter makes the reduction exact near its fixed
point. Gains g = η K use the curvature from finite differences of the expected update, never the reward curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.dynamics.reduction import checked_momentum
from bayes_grpo.simulate.policies import bernoulli_bandit
from bayes_grpo.simulate.settings import AdvantageScale, Numbers, RefreshModel, Structure
from bayes_grpo.simulate.training import simulate
from benchmarks.common import bisected
from benchmarks.lab.fixed_points import FixedPoint, find_fixed_point

_KL_WEIGHT = 0.5
_REFERENCE_LOGIT = -1.2
_GAIN_BRACKET = (1e-4, 3.99)  # 2(1 + μ) < 4 bounds every threshold


def stationary_variance(
    noise_variance: ArrayLike,
    gain: ArrayLike,
    momentum: ArrayLike,
    lag: ArrayLike = 0.0,
    exact: bool = False,
) -> np.ndarray:
    """Variance of x around the fixed point.

    Args:
        noise_variance: Var ξ of one step, reward².
        gain: g = η K.
        momentum: μ, in [0, 1).
        lag: Age of the gradient in steps; only for the continuum.
        exact: The discrete AR(2), for lag 0 alone, instead of the stochastic differential equation.

    Returns:
        s²/(2ck) with c = 1 − μ − g·lag, or (1 + μ)s² / ((1 − μ) g (2(1 + μ) − g)); ``inf`` where unstable.
    """
    mu = checked_momentum(momentum)
    s2, g, tau = (np.asarray(v, dtype=np.float64) for v in (noise_variance, gain, lag))
    room = (1.0 - mu) * (2.0 * (1.0 + mu) - g) / (1.0 + mu) if exact else 2.0 * ((1.0 - mu) - g * tau)
    with np.errstate(divide="ignore"):
        return np.where(room > 0, s2 / np.where(room > 0, room * g, 1.0), np.inf)


class Fluctuation(NamedTuple):
    """Stationary variance of the true reward at one group size, measured and predicted; reward².

    Attributes:
        group_size: G.
        measured: Pooled over runs and steps after burn-in.
        exact: Discrete AR(2) with the exact noise of finite groups.
        leading_order: Continuum with noise σ²/(BG), the paper's picture.
    """

    group_size: int
    measured: float
    exact: float
    leading_order: float


def measured_onset(momentum: ArrayLike, rounds: int = 14) -> np.ndarray:
    """Smallest gain at which a noise-free run passes its fixed point, by bisection on simulated runs.

    Args:
        momentum: Heavy-ball μ, shape (n,).
        rounds: Halvings of the logarithmic bracket; 14 leave 0.07%.

    Returns:
        Gains η K, shape (n,).
    """
    mu = np.atleast_1d(np.asarray(momentum, dtype=np.float64))
    structure, point = _noise_free("hold", n_steps=1500)
    numbers = Numbers(momentum=mu, kl_weight=_KL_WEIGHT, lag_exposure=1.0, advantage_epsilon=0.0)

    def passes(gain: np.ndarray) -> np.ndarray:
        # Just above onset the half period outlasts many e-foldings: the passage is looked for down to
        # rounding, and starts far enough for that, near enough that μ = 0 is not passed by the drift's second
        # order.
        x = _deviation(structure, numbers, point, gain, offset=-1e-3)
        return (x > 1e-15).any(axis=1)

    low, high = _GAIN_BRACKET
    return bisected(passes, np.full_like(mu, low), np.full_like(mu, high), rounds)


def measured_threshold(
    momentum: ArrayLike,
    refresh_interval: ArrayLike,
    lag_model: RefreshModel,
    rounds: int = 14,
    n_steps: int = 4000,
) -> np.ndarray:
    """Smallest gain at which a noise-free run leaves its fixed point, by bisection on simulated runs.

    Args:
        momentum: Heavy-ball μ, shape (n,).
        refresh_interval: K_ref, shape (n,).
        lag_model: "hold" or "delay", with gradients evaluated at the stale policy.
        rounds: Halvings of the logarithmic bracket.
        n_steps: Length of each run; longer ones tell slower growth.

    Returns:
        Gains η K, shape (n,).
    """
    structure, point = _noise_free(lag_model, n_steps)
    numbers = Numbers(
        momentum=np.asarray(momentum, dtype=np.float64),
        refresh_interval=np.asarray(refresh_interval),
        kl_weight=_KL_WEIGHT,
        lag_exposure=1.0,
        advantage_epsilon=0.0,
    )
    quarter = n_steps // 4

    def leaves(gain: np.ndarray) -> np.ndarray:
        size = np.abs(_deviation(structure, numbers, point, gain, offset=-1e-6))
        early, late = size[:, quarter : 2 * quarter].max(axis=1), size[:, -quarter:].max(axis=1)
        # A run that left for good may have come to rest elsewhere, or at certainty, where nothing moves.
        return (late > 1e-3) | ((late > early) & (late > 1e-12))

    low, high = _GAIN_BRACKET
    return bisected(leaves, np.full_like(numbers.momentum, low), np.full_like(numbers.momentum, high), rounds)


def measured_fluctuation(
    group_sizes: Sequence[int],
    *,
    correct_rate: float = 0.5,
    true_positive_rate: float = 0.85,
    false_positive_rate: float = 0.15,
    advantage: AdvantageScale = "mean",
    ddof: Literal[0, 1] = 0,
    gain: float = 0.02,
    momentum: float = 0.5,
    prompts_per_step: int = 16,
    n_runs: int = 64,
    n_steps: int = 4000,
    seed: int = 0,
) -> list[Fluctuation]:
    """Stationary fluctuation of the reward against group size, all at the same fixed point and gain.

    The reference policy is moved with G so that the fixed point stays: the residual G-dependence of the drift
    would otherwise move it, and with it the noise.

    Args:
        group_sizes: Values of G.
        correct_rate: Probability p of the right arm at the fixed point.
        true_positive_rate: Of the verifier.
        false_positive_rate: Of the verifier.
        advantage: "mean" or "std".
        ddof: Of the group's standard deviation.
        gain: g = η K.
        momentum: Heavy-ball μ.
        prompts_per_step: B.
        n_runs: Independent runs a group size.
        n_steps: Steps of each, the first eighth of which is dropped.
        seed: First seed.

    Returns:
        One row a group size.
    """
    p = correct_rate
    logit = float(np.log(p / (1.0 - p)))
    # The std-normalised drift resists a weak penalty's pull; a strong one keeps the fixed point attracting.
    weight = _KL_WEIGHT if advantage == "mean" else 4 * _KL_WEIGHT
    verifier = {"true_positive_rate": true_positive_rate, "false_positive_rate": false_positive_rate}
    # Reward per logit, squared, turns the parameter's variance into the reward's.
    slope = ((true_positive_rate - false_positive_rate) * p * (1.0 - p)) ** 2
    large = 4096
    per_completion = large * bernoulli_group_noise(p, large, advantage, ddof, **verifier)[1]
    rows = []
    for size in group_sizes:
        mean, variance = bernoulli_group_noise(p, size, advantage, ddof, **verifier)
        environment = bernoulli_bandit(logit, logit - mean / (weight * p * (1.0 - p)), **verifier)
        structure = Structure(
            n_steps=n_steps,
            group_size=size,
            prompts_per_step=prompts_per_step,
            advantage=advantage,
            ddof=ddof,
        )
        numbers = Numbers(momentum=momentum, kl_weight=weight, advantage_epsilon=0.0)
        point = find_fixed_point(structure, numbers, environment)
        if point is None:
            raise RuntimeError("the bandit has no fixed point: its KL weight is too small")
        rate = gain / point.curvature
        batch = simulate(structure, numbers._replace(learning_rate=rate), environment, seed + np.arange(n_runs))
        late = np.asarray(batch.true_reward, dtype=np.float64)[:, n_steps // 8 :]
        noise = rate**2 / prompts_per_step
        rows.append(
            Fluctuation(
                group_size=int(size),
                measured=float(late.var()),
                exact=float(slope * stationary_variance(noise * variance, gain, momentum, exact=True)),
                leading_order=float(slope * stationary_variance(noise * per_completion / size, gain, momentum)),
            )
        )
    return rows


def log_log_slope(group_sizes: ArrayLike, values: ArrayLike) -> float:
    """Least-squares slope of log(values) against log(group sizes)."""
    return float(np.polyfit(np.log(np.asarray(group_sizes)), np.log(np.asarray(values)), 1)[0])


def bernoulli_group_noise(
    correct_rate: float,
    group_size: int,
    advantage: AdvantageScale = "std",
    ddof: Literal[0, 1] = 0,
    true_positive_rate: float = 1.0,
    false_positive_rate: float = 0.0,
) -> tuple[float, float]:
    """Exact mean and variance of one group's gradient in the logit of a two-armed bandit.

    Given k successes the gradient is (σ̂²/s)(ā₁ − ā₀), where ā₁ and ā₀ are the shares of right arms among
    successes and failures, independent binomials; the sum over k is binomial too.

    Args:
        correct_rate: Probability p of the right arm, in (0, 1).
        group_size: G.
        advantage: "std" or "mean".
        ddof: Of the standard deviation.
        true_positive_rate: Of the verifier.
        false_positive_rate: Of the verifier.

    Returns:
        Mean and variance; a step's gradient noise has this variance over B.
    """
    m = true_positive_rate * correct_rate + false_positive_rate * (1.0 - correct_rate)
    right_if_success = true_positive_rate * correct_rate / m
    right_if_failure = (1.0 - true_positive_rate) * correct_rate / (1.0 - m)
    k = np.arange(1, group_size)
    log_choose = np.cumsum(np.log((group_size - k + 1.0) / k))
    share = np.exp(log_choose + k * np.log(m) + (group_size - k) * np.log1p(-m))
    population = k * (group_size - k) / group_size**2
    std = np.sqrt(population * group_size / (group_size - ddof))
    factor = population / std if advantage == "std" else population
    mean_given_k = factor * (right_if_success - right_if_failure)
    variance_given_k = factor**2 * (
        right_if_success * (1.0 - right_if_success) / k + right_if_failure * (1.0 - right_if_failure) / (group_size - k)
    )
    mean = float(share @ mean_given_k)
    return mean, float(share @ (variance_given_k + mean_given_k**2) - mean**2)


def _noise_free(refresh: RefreshModel, n_steps: int) -> tuple[Structure, FixedPoint]:
    """Mean-only bandit in the infinite-group limit, and its fixed point."""
    structure = Structure(n_steps=n_steps, advantage="mean", refresh=refresh, update="infinite_group")
    numbers = Numbers(kl_weight=_KL_WEIGHT, advantage_epsilon=0.0)
    environment = bernoulli_bandit(_REFERENCE_LOGIT, _REFERENCE_LOGIT)
    point = find_fixed_point(structure, numbers, environment)
    if point is None:
        raise RuntimeError("the bandit has no fixed point: its KL weight is too small")
    return structure, point


def _deviation(
    structure: Structure, numbers: Numbers, point: FixedPoint, gain: np.ndarray, offset: float
) -> np.ndarray:
    """True reward minus its fixed point from a start ``offset`` logits away, shape (n, steps)."""
    start = float(point.parameters[0]) + offset + _REFERENCE_LOGIT
    environment = bernoulli_bandit(start, _REFERENCE_LOGIT)
    rated = numbers._replace(learning_rate=gain / point.curvature)
    batch = simulate(structure, rated, environment, np.zeros(len(gain), dtype=int), double=True)
    return np.asarray(batch.true_reward) - point.reward
