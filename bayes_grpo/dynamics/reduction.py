"""From a trainer's settings and one curvature to an oscillator, its stability and its noise.

Near its fixed point the mean reward follows, with momentum μ, gain g = η K and gradients evaluated late,

    x[t+1] = x[t] + μ (x[t] − x[t−1]) − g x[late] + ξ[t]

which a second-order expansion in the step turns into m x'' + c x' + k x = ξ (Predictable GRPO,
arXiv 2606.30789; the mass and the exact maps here are our own algebra). Three lag models are kept apart:

* the published rule, g · K_ref < 1 − μ: the sign of the continuum's damping at lag K_ref;
* constant *delay*: every gradient is K_ref steps old, as with asynchronous rollouts;
* *hold*: the sampling policy is frozen for K_ref steps and then refreshed, as synchronous trainers do.

For an exponential moving average of gradients (Adam's β₁) the gain is (1 − β) η K. Adam's curvature is one in
preconditioned units. Plain NumPy in float64; `oscillator_coefficients` also takes JAX arrays.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import SettingError

MomentumConvention = Literal["heavy_ball", "ema"]
LagModel = Literal["delay", "hold"]


class OscillatorCoefficients(NamedTuple):
    """Coefficients of m x'' + c x' + k x = ξ in optimizer steps.

    Attributes:
        mass: m, steps (c is dimensionless in these units).
        damping: c, dimensionless; ≤ 0 is unstable.
        stiffness: k, 1/step.
    """

    mass: Any
    damping: Any
    stiffness: Any


def effective_learning_rate(learning_rate: Any, momentum: Any, convention: MomentumConvention) -> Any:
    """Step size that multiplies a fresh gradient: η for heavy ball, (1 − β) η for a moving average.

    Args:
        learning_rate: η.
        momentum: μ or β, in [0, 1).
        convention: "heavy_ball" (v = μv + g) or "ema" (v = βv + (1 − β)g, also Adam).

    Returns:
        The effective step size.

    Raises:
        SettingError: The convention is unknown.
    """
    if convention not in get_args(MomentumConvention):
        raise SettingError(f"momentum convention: expected heavy_ball or ema, found {convention!r}")
    return learning_rate if convention == "heavy_ball" else (1.0 - momentum) * learning_rate


def oscillator_coefficients(
    learning_rate: Any,
    curvature: Any,
    momentum: Any,
    lag: Any = 0.0,
    convention: MomentumConvention = "heavy_ball",
) -> OscillatorCoefficients:
    """Mass, damping and stiffness in closed form.

    The mass is the continuum's (1 + μ)/2 rather than the looser μ: at μ = 0.9 it puts the onset of
    oscillation within 0.1% of the discrete one, μ alone within 6%.

    Args:
        learning_rate: η.
        curvature: K, per unit learning rate and step.
        momentum: μ or β, in [0, 1).
        lag: Age τ of the gradient in optimizer steps (`mean_lag` times the lag exposure).
        convention: How momentum scales the step.

    Returns:
        The coefficients; arrays broadcast.
    """
    stiffness = effective_learning_rate(learning_rate, momentum, convention) * curvature
    mass = (1.0 + momentum) / 2.0 + stiffness * lag**2 / 2.0
    return OscillatorCoefficients(mass, (1.0 - momentum) - stiffness * lag, stiffness)


def mean_lag(refresh_interval: float, lag_model: LagModel | Literal["rule"]) -> float:
    """Mean age of a gradient in optimizer steps: K_ref for the rule and for delay, (K_ref − 1)/2 for hold."""
    return (refresh_interval - 1) / 2 if lag_model == "hold" else float(refresh_interval)


def onset_of_oscillation(momentum: ArrayLike) -> np.ndarray:
    """Gain g = η K above which a lag-free run oscillates: (1 − √μ)², exact for the discrete map."""
    return (1.0 - np.sqrt(_checked_momentum(momentum))) ** 2


def published_threshold(momentum: ArrayLike, refresh_interval: ArrayLike) -> np.ndarray:
    """Largest stable gain by the published rule, (1 − μ)/K_ref (arXiv 2606.30789)."""
    interval = np.asarray(refresh_interval, dtype=np.float64)
    if not (interval >= 1).all():
        raise SettingError(f"refresh interval: expected at least 1 optimizer step, found {refresh_interval!r}")
    return (1.0 - _checked_momentum(momentum)) / interval


def delay_map(gain: float, momentum: float, refresh_interval: int, lag_exposure: float = 1.0) -> np.ndarray:
    """Companion matrix of constant delay on (x[t], x[t−1], …, x[t−K_ref]).

    Args:
        gain: g = η K (effective learning rate).
        momentum: μ.
        refresh_interval: Age of the delayed gradient in steps.
        lag_exposure: Share of the gradient evaluated late, the rest at x[t].

    Returns:
        Matrix of shape (K_ref + 1, K_ref + 1); one application is one optimizer step.
    """
    matrix = np.eye(refresh_interval + 1, k=-1)
    matrix[0, 0] = 1.0 + momentum - gain * (1.0 - lag_exposure)
    matrix[0, 1] -= momentum
    matrix[0, refresh_interval] -= gain * lag_exposure
    return matrix


def hold_step(gain: ArrayLike, momentum: float, lag_exposure: ArrayLike = 1.0, refresh: bool = False) -> np.ndarray:
    """One optimizer step of the hold model on (x[t], x[t−1], x at the last refresh), shape (..., 3, 3).

    Args:
        gain: g = η K (effective learning rate), any shape.
        momentum: μ.
        lag_exposure: Share of the gradient evaluated at the held policy, the rest at x[t]; broadcasts with the gain.
        refresh: Whether the sampling policy is renewed at the start of this step.
    """
    g, e = np.broadcast_arrays(np.asarray(gain, dtype=np.float64), np.asarray(lag_exposure, dtype=np.float64))
    step = np.zeros((*g.shape, 3, 3))
    step[..., 0, 0] = 1.0 + momentum - g * (1.0 - e)
    step[..., 0, 1] = -momentum
    step[..., 0, 2] = -g * e
    step[..., 1, 0] = step[..., 2, 2] = 1.0
    renew = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    return step @ renew if refresh else step


def hold_map(gain: ArrayLike, momentum: float, refresh_interval: int, lag_exposure: ArrayLike = 1.0) -> np.ndarray:
    """Map of (x, previous x) over one whole refresh cycle of the hold model, shape (..., 2, 2); as `hold_step`."""
    later = np.linalg.matrix_power(hold_step(gain, momentum, lag_exposure), refresh_interval - 1)
    cycle = later @ hold_step(gain, momentum, lag_exposure, refresh=True)
    return cycle[..., :2, :2]


def hold_growth(gain: ArrayLike, momentum: float, refresh_interval: int, lag_exposure: ArrayLike = 1.0) -> np.ndarray:
    """Growth factor per optimizer step of the hold model's slowest mode, shape (...); above 1 is unstable."""
    return _radius(hold_map(gain, momentum, refresh_interval, lag_exposure)) ** (1.0 / refresh_interval)


def spectral_radius(
    gain: float, momentum: float, refresh_interval: int, lag_model: LagModel, lag_exposure: float = 1.0
) -> float:
    """Growth factor *per optimizer step* of the slowest-decaying mode; below 1 is stable.

    Args:
        gain: g = η K (effective learning rate), ≥ 0.
        momentum: μ, in [0, 1).
        refresh_interval: K_ref, whole optimizer steps, at least 1.
        lag_model: "delay" or "hold".
        lag_exposure: In [0, 1].

    Returns:
        The spectral radius; for hold the K_ref-th root of the cycle's.

    Raises:
        SettingError: A setting is out of range.
    """
    interval = _checked_interval(refresh_interval)
    mu = float(_checked_momentum(momentum))
    _check_exposure(lag_exposure)
    if lag_model == "delay":
        return float(_radius(delay_map(gain, mu, interval, lag_exposure)))
    if lag_model == "hold":
        return float(hold_growth(gain, mu, interval, lag_exposure))
    raise SettingError(f"lag model: expected delay or hold, found {lag_model!r}")


@lru_cache(maxsize=1024)
def critical_gain(momentum: float, refresh_interval: int, lag_model: LagModel, lag_exposure: float = 1.0) -> float:
    """Smallest gain g = η K at which a run is no longer stable, by bisection on the spectral radius.

    Args:
        momentum: μ, in [0, 1).
        refresh_interval: K_ref, whole optimizer steps, at least 1.
        lag_model: "delay" or "hold".
        lag_exposure: In [0, 1].

    Returns:
        The threshold, to a relative precision of 1e-12.

    Raises:
        SettingError: A setting is out of range.
    """

    def unstable(gain: float) -> bool:
        return spectral_radius(gain, momentum, refresh_interval, lag_model, lag_exposure) > 1.0

    # Walk up in small steps, because a stability region need not be the last one: the first crossing counts.
    low = 0.1 * float(published_threshold(momentum, refresh_interval))
    high = low * 1.02
    while not unstable(high):
        low, high = high, high * 1.02
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if unstable(middle) else (middle, high)
    return 0.5 * (low + high)


def update_noise_variance(
    learning_rate: ArrayLike, gradient_variance: ArrayLike, prompts_per_step: ArrayLike, group_size: ArrayLike
) -> np.ndarray:
    """Var ξ = η² σ² / (B G), the variance a step's sampling noise adds to x.

    Args:
        learning_rate: Effective η.
        gradient_variance: σ², variance of one completion's contribution to the drift.
        prompts_per_step: B.
        group_size: G.
    """
    groups = np.asarray(prompts_per_step, dtype=np.float64) * np.asarray(group_size)
    return np.asarray(learning_rate, dtype=np.float64) ** 2 * np.asarray(gradient_variance) / groups


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
        exact: The discrete AR(2) at lag 0 instead of the stochastic differential equation.

    Returns:
        s²/(2ck) with c = 1 − μ − g·lag, or (1 + μ)s² / ((1 − μ) g (2(1 + μ) − g)); ``inf`` where unstable.

    Raises:
        SettingError: The exact form is asked for at a lag.
    """
    mu = _checked_momentum(momentum)
    s2, g, tau = (np.asarray(v, dtype=np.float64) for v in (noise_variance, gain, lag))
    if exact and np.any(tau != 0):
        raise SettingError("stationary_variance: the exact form holds at lag 0; use exact=False with a lag")
    room = (1.0 - mu) * (2.0 * (1.0 + mu) - g) / (1.0 + mu) if exact else 2.0 * ((1.0 - mu) - g * tau)
    with np.errstate(divide="ignore"):
        return np.where(room > 0, s2 / np.where(room > 0, room * g, 1.0), np.inf)


def group_drift_factor(success_rate: ArrayLike, group_size: int, ddof: Literal[0, 1] = 0) -> np.ndarray:
    """Drift of a finite group relative to G → ∞ under std-normalised advantages, by the exact binomial sum.

    With k successes the group's gradient is σ̂² / s, where σ̂ is the population and s the chosen standard
    deviation; its mean over k relative to √(p(1 − p)) is E[σ̂]/√(p(1 − p)) for ``ddof=0`` and √((G − 1)/G)
    times that for ``ddof=1``. This is the residual G-dependence of arXiv 2606.30789 v2;
    `leading_order_factor` expands it.

    Args:
        success_rate: p, in (0, 1), any shape.
        group_size: G, at least 2.
        ddof: 0 for the population, 1 for the sample standard deviation.

    Returns:
        Factors in (0, 1), of the shape of ``success_rate``.

    Raises:
        SettingError: G < 2 or p outside (0, 1).
    """
    size = _checked_group(group_size)
    p = np.asarray(success_rate, dtype=np.float64)
    if not ((p > 0) & (p < 1)).all():
        raise SettingError(f"success rate: expected values strictly between 0 and 1, found {success_rate!r}")
    k = np.arange(size + 1)
    log_choose = np.concatenate([[0.0], np.cumsum(np.log((size - k[:-1]) / (k[:-1] + 1.0)))])
    log_p, log_q = np.log(p)[..., None], np.log1p(-p)[..., None]
    probability = np.exp(log_choose + k * log_p + (size - k) * log_q)
    std = np.sqrt(k * (size - k)) / size
    return (probability @ std) / np.sqrt(p * (1.0 - p)) * np.sqrt((size - ddof) / size)


def leading_order_factor(success_rate: ArrayLike, group_size: ArrayLike) -> np.ndarray:
    """Large-G expansion of the population factor, 1 − 1/(8 G p (1 − p)); poor where G p (1 − p) is small."""
    p = np.asarray(success_rate, dtype=np.float64)
    return 1.0 - 1.0 / (8.0 * np.asarray(group_size) * p * (1.0 - p))


def usable_group_share(success_rate: ArrayLike, group_size: int) -> float:
    """Mean share of groups with any spread, 1 − E_p[p^G + (1 − p)^G].

    Args:
        success_rate: p of the prompts, in [0, 1], any shape; the mean is over all of them.
        group_size: G, at least 2.

    Raises:
        SettingError: G < 2 or p outside [0, 1].
    """
    size = _checked_group(group_size)
    p = np.asarray(success_rate, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise SettingError(f"success rate: expected values in [0, 1], found {success_rate!r}")
    return float(1.0 - np.mean(p**size + (1.0 - p) ** size))


def trl_refresh_interval(
    steps_per_generation: int, num_iterations: int = 1, gradient_accumulation_steps: int = 1
) -> float:
    """K_ref of TRL: steps_per_generation · num_iterations / gradient_accumulation_steps, at least 1."""
    return _ratio(steps_per_generation * num_iterations, gradient_accumulation_steps)


def verl_refresh_interval(ppo_epochs: int, train_batch_size: int, ppo_mini_batch_size: int) -> float:
    """K_ref of verl: ppo_epochs · train_batch_size / ppo_mini_batch_size, at least 1."""
    return _ratio(ppo_epochs * train_batch_size, ppo_mini_batch_size)


def asynchronous_refresh_interval(publish_interval: int, queue_staleness: float = 0.0) -> float:
    """K_ref of an asynchronous trainer: weight-publishing interval plus the queue's staleness, in steps."""
    if queue_staleness < 0:
        raise SettingError(f"queue staleness: expected at least 0 steps, found {queue_staleness!r}")
    return _ratio(publish_interval, 1) + queue_staleness


def _ratio(numerator: float, denominator: float) -> float:
    if numerator < 1 or denominator < 1:
        raise SettingError(f"refresh interval: expected counts >= 1, found {numerator}/{denominator}")
    # Several generations within one optimizer step come from the same policy: no lag below one step.
    return max(1.0, numerator / denominator)


def _checked_momentum(momentum: ArrayLike) -> np.ndarray:
    mu = np.asarray(momentum, dtype=np.float64)
    if not ((mu >= 0) & (mu < 1)).all():
        raise SettingError(f"momentum: expected values in [0, 1), found {momentum!r}; at 1 nothing is damped")
    return mu


def _checked_interval(refresh_interval: float) -> int:
    if refresh_interval < 1 or refresh_interval != int(refresh_interval):
        raise SettingError(f"refresh interval: expected a whole number of at least 1 step, found {refresh_interval!r}")
    return int(refresh_interval)


def _checked_group(group_size: int) -> int:
    if group_size < 2 or group_size != int(group_size):
        raise SettingError(
            f"group size: expected a whole number of at least 2 (a group of one has no relative advantage), "
            f"found {group_size!r}"
        )
    return int(group_size)


def _check_exposure(lag_exposure: float) -> None:
    if not 0.0 <= lag_exposure <= 1.0:
        raise SettingError(f"lag exposure: expected a value in [0, 1], found {lag_exposure!r}")


def _radius(matrix: np.ndarray) -> np.ndarray:
    """Spectral radius of each matrix, shape (...)."""
    return np.max(np.abs(np.linalg.eigvals(matrix)), axis=-1)
