"""What the regimes share whose unforced mean is a given curve: R(t) = R* + (R₀ - R*) s(t), s from 1 towards 0.

Both levels are linear in the rows and stay integrated out; only the shape's parameters are sampled. About the curve
runs a fluctuation u with an e-fold time T of its own,

    du = [f'(m(t)) - 1/T] u dt + noise,

f' the derivative of the regime's drift along the unforced path m: the nonlinear regime
dR = [f(R) - (R - m(t))/T] dt + noise, linearized about its path, with growth cut off at a net rate of 0. A curve
without a drift of its own has f' = 0.
State: (R₀ - R*, u, R*).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.common import NOISES, WindowRow, first_order_row, initial_levels, with_level
from bayes_grpo.regimes.parameters import POSITIVE, Parameter, Prior
from bayes_grpo.rows.padding import Rows

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
    """A regime whose unforced mean is a given curve, with a fluctuation about it."""

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Fluctuation time no shorter than half a row: a faster one cannot be distinguished from row noise."""
        return {**values, "fluctuation_time": jnp.sqrt(values["fluctuation_time"] ** 2 + (0.5 * rows.spacing) ** 2)}


class RowTimes(NamedTuple):
    """When the rows happen on a clock that starts with the log, in steps or in steps weighted by learning rate.

    Attributes:
        nodes: Quadrature nodes of every row's window, shape (nodes, T); one node where rows are instantaneous.
        gap_middle: Middle of the gap before every row, shape (T,); None without gaps.
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

    Args:
        values: Holds "fluctuation_time" and "fluctuation_sd".
        rows: Rows of the log.
        slope: f' at the middle of every row, 1/step. With it the fluctuation starts at 0, because the regime then
            starts from the latent reward itself; without it, it starts stationary, which is noise of the first row, so
            that the unforced curve is free of it.
        gap_slope: f' at the middle of every gap.
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
