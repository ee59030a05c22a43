"""Parts shared by the regimes: noises, levels, a process on the windows of rows, a fluctuation about a given curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.discretization import WindowRow, relaxation_step
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
from bayes_grpo.regimes.base import POSITIVE, REAL, Parameter, Prior, Quantity, Regime
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.series import Series, is_share

_MEASURED = "measurement noise of a typical row (sampling of prompts and completions)"
_FORCED = "stationary sd of the latent reward about the curve (gradient noise)"
NOISES: tuple[Parameter, ...] = (
    Parameter("observation_sd", "reward", _MEASURED, POSITIVE, lambda t: measurement_prior(t)),
    Parameter("fluctuation_sd", "reward", _FORCED, POSITIVE, lambda t: Prior(0.2 * t.scale, 1.0)),
)

LEVELS: tuple[Parameter, ...] = tuple(
    Parameter(name, "reward", meaning, REAL, lambda t: level_prior(t), marginalized=True)
    for name, meaning in (
        ("fixed_point", "R*: where the reward would settle"),
        ("initial_reward", "R₀: latent reward at the start of the log"),
    )
)


HALF_GAIN = {"half_gain_step": Quantity("step", "from the start to half of the gain, on the curve without noise")}
"""Derived by regimes with a trend."""


_SHARE = Prior(0.5, 0.3)
"""Level of a share of successes before its rows are seen: nine in ten lie in [0, 1]."""


def level_prior(table: Series) -> Prior:
    """Prior of a level: about the mean of the rows, with three of their standard deviations as spread.

    Where all rows lie in [0, 1] this normal is multiplied by one about the middle of the range, so that runs drawn from
    the priors mostly stay there, while a curve that has moved little keeps the prior of its own scale.
    """
    spread = 3.0 * table.scale
    if not is_share(table.y):
        return Prior(table.centre, spread)
    weight = _SHARE.spread**2 / (_SHARE.spread**2 + spread**2)
    return Prior(weight * table.centre + (1.0 - weight) * _SHARE.median, math.sqrt(weight) * spread)


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
    fixed, fixed_sd = marginalized["fixed_point"]
    start, start_sd = marginalized["initial_reward"]
    x_var = start_sd**2 + fixed_sd**2
    fixed_var = fixed_sd**2
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

    ``moments`` are mean and covariance of the first state, the level last; ``row`` is the process on every row.
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


def window_row(rows: Rows, step: Callable[[Array], WindowRow], over_gap: Callable[[Array], WindowRow]) -> WindowRow:
    """A row, free over its gap and averaged over its window, from the process over steps of given lengths."""
    window = jnp.asarray(0.0 if rows.window is None else rows.window)
    f, integral, q, cross, var = step(window)
    # A window of length 0 is an instantaneous value, the limit of the mean.
    instant = window == 0
    width = jnp.where(window == 0, 1.0, window)
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

    The relaxation rate, 1/step, of any sign, and the diffusion, reward²/step, are for all rows or for each; over gaps
    the rate may differ.
    """

    def over(rate: Array, t: Array) -> WindowRow:
        return relaxation_step(rate, t).forced(diffusion)

    return window_row(rows, partial(over, rate), partial(over, rate if gap_rate is None else gap_rate))


FLUCTUATION: tuple[Parameter, ...] = (
    Parameter(
        "fluctuation_time",
        "step",
        "T: e-fold time of the latent reward's return to the curve",
        POSITIVE,
        # Rarely above a third of the log: a slower fluctuation would be a trend, which is what the regimes differ in.
        lambda t: Prior(max(t.length / 20.0, t.length / len(t.y)), 0.8),
    ),
    *NOISES,
)
"""Parameters of the fluctuation and the measurement."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)
_NODES, _WEIGHTS = 0.5 * (1.0 + _NODES), 0.5 * _WEIGHTS
"""Three-point Gauss-Legendre rule on [0, 1]; its middle node is the middle of the window."""


class TrendRegime(Regime):
    """A regime whose unforced mean is a given curve: R(t) = R* + (R₀ - R*) s(t), s from 1 towards 0.

    Both levels are linear in the rows and stay integrated out; only the shape's parameters are sampled. About the curve
    runs a fluctuation u with an e-fold time T of its own,

        du = [f'(m(t)) - 1/T] u dt + noise,

    f' the derivative of the regime's drift along the unforced path m: the nonlinear regime
    dR = [f(R) - (R - m(t))/T] dt + noise, linearized about its path, with growth cut off at a net rate of 0. A curve
    without a drift of its own has f' = 0.
    State: (R₀ - R*, u, R*).
    """

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Fluctuation time no shorter than half a row: a faster one cannot be distinguished from row noise."""
        return {**values, "fluctuation_time": jnp.sqrt(values["fluctuation_time"] ** 2 + (0.5 * rows.spacing) ** 2)}


class RowTimes(NamedTuple):
    """When the rows happen on a clock that starts with the log, in steps or in steps weighted by learning rate.

    ``nodes`` are quadrature nodes of every row's window, shape (nodes, T), one where rows are instantaneous;
    ``gap_middle`` is the middle of the gap before every row, shape (T,), None without gaps.
    """

    nodes: Array
    gap_middle: Array | None


def row_times(rows: Rows, weighted: bool) -> RowTimes:
    """Times of the rows since the start of the log.

    Weighted, the clock runs with the learning rate: the clock of a regime that is driven by updates.
    """
    window = 0.0 if rows.window is None else rows.window
    gap = 0.0 if rows.gap is None else rows.gap
    rate = 1.0 if rows.rate is None or not weighted else rows.rate
    each = jnp.asarray((window + gap) * rate)
    # One length for all rows needs no running sum.
    end = each * jnp.arange(1.0, rows.y.shape[0] + 1.0) if each.ndim == 0 else jnp.cumsum(each)
    span = jnp.broadcast_to(jnp.asarray(window * rate), rows.y.shape)
    places = jnp.asarray(_NODES if rows.window is not None else [1.0])
    nodes = end - span * (1.0 - places[:, None])
    gap_middle = None if rows.gap is None else end - span - 0.5 * jnp.asarray(rows.gap * rate)
    return RowTimes(nodes, gap_middle)


def window_mean(at_nodes: Array) -> Array:
    """Means over the rows' windows of a function given at `RowTimes.nodes`, shape (T,)."""
    return at_nodes[0] if len(at_nodes) == 1 else jnp.asarray(_WEIGHTS) @ at_nodes


def fluctuation_rows(
    values: Mapping[str, Array],
    rows: Rows,
    slope: Array | None = None,
    gap_slope: Array | None = None,
) -> WindowRow:
    """The fluctuation on the rows.

    ``slope`` is f' at the middle of every row, 1/step, and ``gap_slope`` that of every gap. With it the fluctuation
    starts at 0, because the regime then starts from the latent reward itself; without it, it starts stationary, which
    is noise of the first row, so that the unforced curve is free of it.
    """
    rate = 1.0 / values["fluctuation_time"]
    variance = values["fluctuation_sd"] ** 2
    diffusion = 2.0 * variance * rate
    if slope is not None:
        after_gap = None if gap_slope is None else _net_rate(rate, gap_slope)
        return first_order_row(_net_rate(rate, slope), diffusion, rows, after_gap)
    ((f,),), (h,), ((q,),), (s,), r = first_order_row(rate, diffusion, rows)
    start = jnp.where(jnp.arange(rows.y.shape[0]) == 0, variance, 0.0)
    return WindowRow(((f,),), (h,), ((q + start * f**2,),), (s + start * f * h,), r + start * h**2)


def _net_rate(rate: Array, slope: Array) -> Array:
    """Rate of return 1/T - f', falling off smoothly to 0 below a quarter of 1/T.

    Where the drift makes a fluctuation grow faster than it returns, the linearized one would grow by orders of
    magnitude while the nonlinear one soon leaves the steep stretch.
    """
    net, least = rate - slope, 0.25 * rate
    return jnp.where(net > least, net, least * jnp.exp(jnp.minimum(net / least - 1.0, 0.0)))


def trend_space(
    share: Array, fluctuation: WindowRow, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows
) -> StateSpace:
    """State space (R₀ - R*, fluctuation, R*) of a curve with two levels on the rows.

    The share is the mean of s over every row's window, shape (T,).
    """
    ((f,),), (h,), ((q,),), (s,), r = fluctuation
    row = WindowRow(((1.0, 0.0), (0.0, f)), (share, h), ((0.0, 0.0), (0.0, q)), (0.0, s), r)
    return with_level(initial_levels(marginalized, 0.0), row, values, rows)
