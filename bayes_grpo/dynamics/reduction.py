"""From a trainer's settings and one curvature to an oscillator, and to where a run oscillates and is unstable.

Near its fixed point the mean reward follows, with momentum μ, gain g = η K and gradients evaluated late,

    x[t+1] = x[t] + μ (x[t] − x[t−1]) − g x[late] + ξ[t]

which a second-order expansion in the step turns into m x'' + c x' + k x = ξ (Predictable GRPO,
arXiv 2606.30789; the mass and the exact maps below are our own algebra). Three lag models are kept separate:

* the published rule, g · K_ref < 1 − μ: the sign of the continuum's damping at lag K_ref;
* constant *delay*: every gradient is K_ref steps old, as with asynchronous rollouts;
* *hold*: the sampling policy is frozen for K_ref steps and then refreshed, as synchronous trainers do.

For an exponential moving average of gradients (Adam's β₁) the gain is (1 − β) η K. Adam's curvature is one in
preconditioned units. Plain NumPy in float64; `oscillator_coefficients` also takes JAX arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import SettingError

MomentumConvention = Literal["heavy_ball", "ema"]
LagModel = Literal["delay", "hold"]


class OscillatorCoefficients(NamedTuple):
    """Coefficients of m x'' + c x' + k x = ξ in optimizer steps: m in steps, c dimensionless, k in 1/step."""

    mass: Any
    damping: Any
    stiffness: Any


def effective_learning_rate(learning_rate: Any, momentum: Any, convention: MomentumConvention) -> Any:
    """Step size that multiplies a fresh gradient: η for "heavy_ball" (v = μv + g), (1 − β) η for "ema".

    A moving average is v = βv + (1 − β)g, also Adam's.
    """
    if convention not in get_args(MomentumConvention):
        raise SettingError(f"momentum convention: expected heavy_ball or ema, found {convention!r}")
    return learning_rate if convention == "heavy_ball" else (1.0 - momentum) * learning_rate


def oscillator_coefficients(gain: Any, momentum: Any, lag: Any = 0.0) -> OscillatorCoefficients:
    """Mass, damping and stiffness in closed form, from the gain g = η K; arrays broadcast.

    The mass is the continuum's (1 + μ)/2 rather than the looser μ: at μ = 0.9 it puts the onset of oscillation within
    0.1% of the discrete one, μ alone within 6%. The lag is the age τ of the gradient in optimizer steps (`mean_lag`
    times the lag exposure).
    """
    mass = (1.0 + momentum) / 2.0 + gain * lag**2 / 2.0
    return OscillatorCoefficients(mass, (1.0 - momentum) - gain * lag, gain)


def mean_lag(refresh_interval: Any) -> Any:
    """Mean age of a gradient in optimizer steps where the policy is held for K_ref of them: (K_ref − 1)/2."""
    return (refresh_interval - 1) / 2


def trl_refresh_interval(
    steps_per_generation: int, num_iterations: int = 1, gradient_accumulation_steps: int = 1
) -> float:
    """K_ref of TRL: steps_per_generation · num_iterations / gradient_accumulation_steps, at least 1."""
    made = steps_per_generation * num_iterations
    used = gradient_accumulation_steps
    if made < 1 or used < 1:
        raise SettingError(f"refresh interval: expected counts >= 1, found {made}/{used}")
    # Several generations within one optimizer step come from the same policy: no lag below one step.
    return max(1.0, made / used)


def checked_momentum(momentum: ArrayLike) -> np.ndarray:
    """Momentum in [0, 1) as an array; `SettingError` outside."""
    mu = np.asarray(momentum, dtype=np.float64)
    if not ((mu >= 0) & (mu < 1)).all():
        raise SettingError(
            f"expected values in [0, 1), found {momentum!r}; at 1 nothing is damped", parameter="momentum"
        )
    return mu


def onset_of_oscillation(momentum: ArrayLike) -> np.ndarray:
    """Gain g = η K above which a lag-free run oscillates: (1 − √μ)², exact for the discrete map."""
    return (1.0 - np.sqrt(checked_momentum(momentum))) ** 2


def published_threshold(momentum: ArrayLike, refresh_interval: ArrayLike) -> np.ndarray:
    """Largest stable gain by the published rule, (1 − μ)/K_ref (arXiv 2606.30789)."""
    interval = np.asarray(refresh_interval, dtype=np.float64)
    if not (interval >= 1).all():
        raise SettingError(
            f"expected at least 1 optimizer step, found {refresh_interval!r}", parameter="refresh_interval"
        )
    return (1.0 - checked_momentum(momentum)) / interval


def _delay_map(gain: float, momentum: float, refresh_interval: int, lag_exposure: float) -> np.ndarray:
    """Companion matrix of constant delay on (x[t], x[t−1], …, x[t−K_ref]): one application is one optimizer step."""
    matrix = np.eye(refresh_interval + 1, k=-1)
    matrix[0, 0] = 1.0 + momentum - gain * (1.0 - lag_exposure)
    matrix[0, 1] -= momentum
    matrix[0, refresh_interval] -= gain * lag_exposure
    return matrix


def hold_map(gain: float, momentum: float, refresh_interval: int, lag_exposure: float = 1.0) -> np.ndarray:
    """Map of (x, previous x) over one whole refresh cycle of the hold model, shape (2, 2)."""
    # On (x[t], x[t−1], x at the last refresh), which the first step of a cycle renews.
    late = gain * lag_exposure
    step = np.array(
        [[1.0 + momentum - gain * (1.0 - lag_exposure), -momentum, -late], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    )
    renew = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    with np.errstate(over="ignore", invalid="ignore"):
        cycle = np.linalg.matrix_power(step, refresh_interval - 1) @ (step @ renew)
    return cycle[:2, :2]


def spectral_radius(
    gain: float, momentum: float, refresh_interval: int, lag_model: LagModel, lag_exposure: float = 1.0
) -> float:
    """Growth factor *per optimizer step* of the slowest-decaying mode; below 1 is stable.

    Of the gain g = η K (effective learning rate), ≥ 0; for hold it is the K_ref-th root of the cycle's.

    Raises:
        SettingError: A setting is out of range.
    """
    interval = _checked_interval(refresh_interval)
    mu = float(checked_momentum(momentum))
    _check_exposure(lag_exposure)
    if lag_model == "delay":
        return _radius(_delay_map(gain, mu, interval, lag_exposure))
    if lag_model == "hold":
        return _radius(hold_map(gain, mu, interval, lag_exposure)) ** (1.0 / interval)
    raise SettingError(f"lag model: expected delay or hold, found {lag_model!r}")


@lru_cache(maxsize=1024)
def critical_gain(momentum: float, refresh_interval: int, lag_model: LagModel, lag_exposure: float = 1.0) -> float:
    """Smallest gain g = η K at which a run is no longer stable, by bisection on the spectral radius.

    Settings and errors are those of `spectral_radius`; to a relative precision of 1e-12.
    """
    return _first(
        lambda gain: spectral_radius(gain, momentum, refresh_interval, lag_model, lag_exposure) > 1.0,
        0.1 * float(published_threshold(momentum, refresh_interval)),
    )


@lru_cache(maxsize=1024)
def frozen_policy_onset(momentum: float, refresh_interval: int, lag_exposure: float = 1.0) -> float:
    """Smallest gain g = η K at which a run under a frozen policy oscillates: `onset_of_oscillation` with its lag.

    Below it both modes of the map over a refresh cycle decay without changing sign, and what is not late does so within
    the cycle too. A run that is unstable counts as one that oscillates.

    Settings and errors are those of `spectral_radius`; to a relative precision of 1e-12, without lag (1 − √μ)².
    """
    interval = _checked_interval(refresh_interval)
    mu = float(checked_momentum(momentum))
    _check_exposure(lag_exposure)

    free = float(onset_of_oscillation(mu))
    unstable = critical_gain(mu, interval, "hold", lag_exposure)

    def turns(gain: float) -> bool:
        # Over an even number of steps a change of sign at each would not be seen.
        if gain >= unstable or gain * (1.0 - lag_exposure) > free:
            return True
        (a, b), (c, d) = hold_map(gain, mu, interval, lag_exposure)
        trace, product = a + d, a * d - b * c
        # Without momentum nothing remembers the step before, and the smaller mode is 0 but for rounding.
        return trace**2 < 4.0 * product or trace < 0.0 or product < -1e-12

    return _first(turns, 0.1 * free / interval)


def _first(crossed: Callable[[float], bool], low: float) -> float:
    """The first gain above one below it at which a condition holds.

    A region of stability need not be the last one, so the walk goes up in small steps.
    """
    high = low * 1.02
    while not crossed(high):
        low, high = high, high * 1.02
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if crossed(middle) else (middle, high)
    return 0.5 * (low + high)


def _checked_interval(refresh_interval: float) -> int:
    if refresh_interval < 1 or refresh_interval != int(refresh_interval):
        raise SettingError(f"refresh interval: expected a whole number of at least 1 step, found {refresh_interval!r}")
    return int(refresh_interval)


def _check_exposure(lag_exposure: float) -> None:
    if not 0.0 <= lag_exposure <= 1.0:
        raise SettingError(f"lag exposure: expected a value in [0, 1], found {lag_exposure!r}")


def _radius(matrix: np.ndarray) -> float:
    """Spectral radius; infinite where a long cycle has grown past all numbers."""
    return float(np.max(np.abs(np.linalg.eigvals(matrix)))) if np.isfinite(matrix).all() else np.inf
