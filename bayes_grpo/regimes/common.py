"""What the regimes share: noises, levels, processes of first and second order on rows, the step of half the gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.oscillator import oscillator_step
from bayes_grpo.dynamics.relaxation import relaxation_step
from bayes_grpo.dynamics.state_space import (
    Entry,
    Matrix,
    StateSpace,
    Vector,
    dot,
    matvec,
    plus,
    product,
    symmetric_product,
    transpose,
)
from bayes_grpo.regimes.parameters import POSITIVE, REAL, Parameter, Prior, Quantity, namespace
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.series import Series

_MEASURED = "measurement noise of a typical row (sampling of prompts and completions)"
_FORCED = "stationary sd of the latent reward about the curve (gradient noise)"
NOISES: tuple[Parameter, ...] = (
    Parameter("observation_sd", "reward", _MEASURED, POSITIVE, lambda t: measurement_prior(t)),
    Parameter("fluctuation_sd", "reward", _FORCED, POSITIVE, lambda t: Prior(0.2 * t.scale, 1.0)),
)

OSCILLATOR_NOISES: tuple[Parameter, ...] = (
    NOISES[0],
    replace(
        NOISES[1],
        meaning="gradient noise: the stationary sd of the latent reward is fluctuation_sd times "
        "sqrt(sqrt(1 + 4 ζ²) / (2 ζ)), which is 1 where overdamped",
    ),
)
"""Of second-order regimes, for which only the overdamped limit of the stationary sd is finite at every damping."""

LEVELS: tuple[Parameter, ...] = tuple(
    Parameter(name, "reward", meaning, REAL, lambda t: Prior(t.centre, 3.0 * t.scale), marginalized=True)
    for name, meaning in (
        ("fixed_point", "R*: where the reward would settle"),
        ("initial_reward", "R₀: latent reward at the start of the log"),
    )
)


HALF_GAIN = {"half_gain_step": Quantity("step", "from the start to half of the gain, on the curve without noise")}
"""Derived by regimes with a trend."""
SECOND_ORDER = {
    "stiffness": Quantity("1/step²", "k = m ω₀²"),
    "damping": Quantity("1/step", "c = 2 ζ m ω₀"),
    "damping_ratio": Quantity("", "ζ = c / (2 sqrt(mk))"),
    "natural_frequency": Quantity("1/step", "ω₀ = sqrt(k/m)"),
    "relaxation_time": Quantity("step", "c/k; below 0 where unstable"),
    "inertial_time": Quantity("step", "m/c; below 0 where unstable"),
    **HALF_GAIN,
}
"""Derived by second-order regimes."""


def measurement_prior(table: Series) -> Prior:
    """Prior of the measurement noise: as the log states it (`bayes_grpo.rows.known_noise`), else within an e-fold."""
    level = table.level
    return Prior(0.5 * table.scale, 1.0) if level is None else Prior(level.sd, level.prior_spread)


def response_prior(table: Series) -> Prior:
    """Prior of a regime's time: a fifth of the log, within a few e-folds, and rarely below the spacing of the rows.

    A regime faster than the rows looks like white noise, and an oscillation faster than them only aliases.
    """
    return Prior(table.length / 5.0, min(1.0, math.log(max(len(table.y), 8) / 5.0) / 2.5))


def initial_levels(marginalized: Mapping[str, Any], speed_var: Entry | None = None) -> tuple[Vector, Matrix]:
    """Prior moments of the state before the first row, (x, fixed point) or (x, velocity, fixed point).

    ``x`` is the initial reward minus the fixed point, so the two levels enter the state linearly. The variance of the
    initial velocity is 0 from rest, None for a regime without velocity.
    """
    (fixed, fixed_sd), (start, start_sd) = marginalized["fixed_point"], marginalized["initial_reward"]
    x_var, fixed_var = start_sd**2 + fixed_sd**2, fixed_sd**2
    if speed_var is None:
        return (start - fixed, fixed), ((x_var, -fixed_var), (-fixed_var, fixed_var))
    return (start - fixed, 0.0, fixed), (
        (x_var, 0.0, -fixed_var),
        (0.0, speed_var, 0.0),
        (-fixed_var, 0.0, fixed_var),
    )


def measurement_var(values: Mapping[str, Array], rows: Rows) -> Entry:
    """Variance of the measurement noise of each row: of fewer or more unequal completions, more."""
    var = values["observation_sd"] ** 2
    return var if rows.weight is None else var / jnp.asarray(rows.weight)


def with_level(moments: tuple[Vector, Matrix], row: WindowRow, values: Mapping[str, Array], rows: Rows) -> StateSpace:
    """State space (process, level) on the rows of a process about a constant level.

    Args:
        moments: Mean and covariance of the first state, the level last.
        row: The process on every row.
        values: Holds "observation_sd".
        rows: Rows of the log.
    """
    none = (0.0,) * len(row.observation)
    return StateSpace(
        *moments,
        transition=(*((*x, 0.0) for x in row.transition), (*none, 1.0)),
        noise_cov=(*((*x, 0.0) for x in row.noise_cov), (*none, 0.0)),
        observation=(*row.observation, 1.0),
        cross_cov=(*row.cross_cov, 0.0),
        observation_var=row.observation_var,
        offset=0.0,
        measurement_var=measurement_var(values, rows),
    )


def half_gain_time(zeta: Any, omega: Any) -> Any:
    """Steps from rest until half of the way to the fixed point is done, first passage; shape of the draws.

    Solved on the unforced regime by bisection, vectorized over draws; NaN where a growing oscillation is too violent.
    """
    xp = namespace(zeta)
    zeta, omega = xp.broadcast_arrays(zeta, omega)
    # First passage lies before 1/ω₀ × (2ζ + 2): the undamped curve passes at π/3, the overdamped at 2ζ ln 2.
    low, high = xp.zeros_like(zeta), 2.0 * xp.maximum(zeta, 0.0) + 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        passed = _remaining(zeta, middle) < 0.5
        low, high = xp.where(passed, low, middle), xp.where(passed, middle, high)
    return high / omega


def _remaining(zeta: Any, s: Any) -> Any:
    """Share of the way still to go after ``s`` = ω₀ t from rest, closed form on both sides of ζ = 1."""
    xp = namespace(zeta)
    z = (zeta**2 - 1.0) * s**2
    root = xp.sqrt(xp.abs(z))
    near = xp.abs(z) < 1e-8
    safe = xp.where(near, 1.0, root)
    decay = xp.exp(-zeta * s)
    # e^{-ζs} cosh(root) in the form that does not overflow where strongly overdamped.
    up, down = xp.exp(xp.minimum(-zeta * s + root, 700.0)), xp.exp(-zeta * s - root)
    over = 0.5 * (up + down) + zeta * s * 0.5 * (up - down) / safe
    under = decay * (xp.cos(root) + zeta * s * xp.sin(root) / safe)
    critical = decay * (1.0 + z / 2.0 + zeta * s * (1.0 + z / 6.0))
    return xp.where(near, critical, xp.where(z > 0, over, under))


class WindowRow(NamedTuple):
    """A linear process over a window, per state before it; its first component is observed.

    Attributes:
        transition: State after the window, n × n.
        observation: Integral of the first component over the window, n; of a row its mean.
        noise_cov: Covariance of the noise of the state after it, n × n.
        cross_cov: Its covariance with the noise of the integral or mean, n.
        observation_var: Variance of the noise of the integral or mean.
    """

    transition: Matrix
    observation: Vector
    noise_cov: Matrix
    cross_cov: Vector
    observation_var: Entry


def window_row(rows: Rows, step: Callable[[Array], WindowRow], over_gap: Callable[[Array], WindowRow]) -> WindowRow:
    """A row, free over its gap and averaged over its window, from the process over steps of given lengths."""
    window = jnp.asarray(0.0 if rows.window is None else rows.window)
    f, integral, q, cross, var = step(window)
    # A window of length 0 is an instantaneous value, the limit of the mean.
    instant, width = window == 0, jnp.where(window == 0, 1.0, window)
    h = tuple(jnp.where(instant, now, mean / width) for now, mean in zip(f[0], integral, strict=True))
    s = tuple(jnp.where(instant, now, mean / width) for now, mean in zip(q[0], cross, strict=True))
    r = jnp.where(instant, q[0][0], var / width**2)
    if rows.gap is None:
        return WindowRow(f, h, q, s, r)
    free, _, kicked, *_ = over_gap(jnp.asarray(rows.gap))
    before = matvec(kicked, h)
    return WindowRow(
        transition=product(f, free),
        observation=matvec(transpose(free), h),
        noise_cov=tuple(tuple(map(plus, *two)) for two in zip(q, symmetric_product(f, kicked), strict=True)),
        cross_cov=tuple(map(plus, s, matvec(f, before))),
        observation_var=plus(r, dot(h, before)),
    )


def first_order_row(rate: Array, diffusion: Array, rows: Rows, gap_rate: Array | None = None) -> WindowRow:
    """Every row of x' + rate x = sqrt(diffusion) dW/dt, a process of one component.

    Args:
        rate: Relaxation rate, 1/step, for all rows or for each; any sign.
        diffusion: reward²/step, likewise.
        rows: Rows of the log.
        gap_rate: Relaxation rate over the gaps where it differs.
    """

    def over(rate: Array, t: Array) -> WindowRow:
        m = relaxation_step(rate, t)
        return WindowRow(((m.xx,),), (m.zx,), ((diffusion * m.q_xx,),), (diffusion * m.q_zx,), diffusion * m.q_zz)

    return window_row(rows, partial(over, rate), partial(over, rate if gap_rate is None else gap_rate))


def diffusion_of(fluctuation_sd: Array, zeta: Array, omega: Array) -> Array:
    """Diffusion of the velocity for a given fluctuation, reward²/step³.

    The stationary sd is ``fluctuation_sd * sqrt(sqrt(1 + 4 ζ²) / (2 ζ))``: ``fluctuation_sd`` where overdamped, 2.26 of
    it at ζ = .1; the diffusion stays finite through zero damping, where no stationary sd exists.
    """
    return 2.0 * fluctuation_sd**2 * omega**3 * jnp.sqrt(1.0 + 4.0 * zeta**2)


def unstable_damping(growth: Any) -> Any:
    """|ζ| of an unstable curve that grows at rate ``growth`` in units of 1/T: growth = |ζ| ω₀ T = |ζ| sqrt(1 + 4ζ²)."""
    return growth * (2.0 / (1.0 + (1.0 + 16.0 * growth**2) ** 0.5)) ** 0.5


def second_order_space(
    a: Array, b: Array, diffusion: Array, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows
) -> StateSpace:
    """State space (x, velocity, fixed point) of x'' + a x' + b x = forcing on the rows.

    Args:
        a: Damping over mass, 1/step, for all rows or for each.
        b: Stiffness over mass, 1/step², likewise.
        diffusion: Of the velocity, reward²/step³, likewise.
        values: Holds "observation_sd".
        marginalized: (mean, sd) of "fixed_point" and "initial_reward".
        rows: Rows of the log.
    """

    def over(t: Array) -> WindowRow:
        m = oscillator_step(a, b, t)
        xx, xv, vv = diffusion * m.q_xx, diffusion * m.q_xv, diffusion * m.q_vv
        return WindowRow(
            ((m.xx, m.xv), (m.vx, m.vv)),
            (m.zx, m.zv),
            ((xx, xv), (xv, vv)),
            (diffusion * m.q_zx, diffusion * m.q_zv),
            diffusion * m.q_zz,
        )

    speed_var = 0.0 if rows.start_speed is None else jnp.asarray(rows.start_speed) ** 2
    return with_level(initial_levels(marginalized, speed_var), window_row(rows, over, over), values, rows)


def second_order_times(zeta: Any, omega: Any) -> dict[str, Any]:
    """Natural frequency, relaxation, inertial and half-gain times of draws, at the highest learning rate."""
    with np.errstate(divide="ignore"):
        return {
            "natural_frequency": omega,
            "relaxation_time": 2.0 * zeta / omega,
            "inertial_time": 1.0 / (2.0 * zeta * omega),
            "half_gain_step": half_gain_time(zeta, omega),
        }
