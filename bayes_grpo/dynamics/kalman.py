"""Kalman filter as one sequential scan over the rows: densities, one-step predictions, drawn rows.

The recursions run on scalars, not on small matrices: XLA fuses them into one loop body. A row whose logged value
is NaN counts as missing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.state_space import (
    LOG_2PI,
    Matrix,
    StateSpace,
    Vector,
    dot,
    matvec,
    plus,
    symmetric_product,
    times,
)


class Filtered(NamedTuple):
    """One-step predictions of every row and the state after the last one.

    Attributes:
        log_likelihood: Log density of all logged rows, scalar.
        innovation: Logged minus predicted, shape (T,); 0 where missing.
        innovation_var: Its variance, shape (T,).
        gain: Gain of the one-step predictor, n arrays of shape (T,); 0 where missing.
        mean: Predicted state before each row, n arrays of shape (T,).
        cov: Its covariance, n × n arrays of shape (T,).
        last_mean: State after the last row, n scalars.
        last_cov: Its covariance, n × n scalars.
    """

    log_likelihood: Array
    innovation: Array
    innovation_var: Array
    gain: Vector
    mean: Vector
    cov: Matrix
    last_mean: Vector
    last_cov: Matrix


def _split(tree: Any) -> tuple[list[Array], Any]:
    """Separates the entries that vary over rows, to scan over, from those that hold for every row."""
    leaves, treedef = jax.tree.flatten(tree)
    varying = [leaf for leaf in leaves if getattr(leaf, "ndim", 0) == 1]

    def join(row: list[Array]) -> Any:
        values = iter(row)
        return jax.tree.unflatten(treedef, [next(values) if getattr(leaf, "ndim", 0) == 1 else leaf for leaf in leaves])

    return varying, join


def advance(space: StateSpace, mean: Vector, cov: Matrix, y: Array) -> tuple[Vector, Matrix, Any]:
    """One row: from the prediction of the state before it to that of the state after it.

    Args:
        space: The law on this row, see `at_row`.
        mean: Predicted state before the row, n entries.
        cov: Its covariance, n × n entries.
        y: Logged reward, a scalar; NaN = missing.

    Returns:
        Mean and covariance of the state after the row; and the row's innovation, its variance, whether there is a
        value, and the gain.
    """
    present = jnp.isfinite(y)
    ph = matvec(cov, space.observation)
    var = plus(plus(dot(space.observation, ph), space.observation_var), space.measurement_var)
    var = jnp.where(present, var, 1.0)
    predicted = plus(dot(space.observation, mean), space.offset)
    innovation = jnp.where(present, jnp.where(present, y, 0.0) - predicted, 0.0)
    weight = jnp.where(present, 1.0 / var, 0.0)
    cross = tuple(plus(c, s) for c, s in zip(matvec(space.transition, ph), space.cross_cov, strict=True))
    gain = tuple(times(c, weight) for c in cross)
    moved = matvec(space.transition, mean)
    mean = tuple(plus(m, times(k, innovation)) for m, k in zip(moved, gain, strict=True))
    spread = symmetric_product(space.transition, cov)
    n = len(mean)
    cov = tuple(
        tuple(
            plus(plus(spread[i][j], space.noise_cov[i][j]), -times(cross[min(i, j)], gain[max(i, j)])) for j in range(n)
        )
        for i in range(n)
    )
    return mean, cov, (innovation, var, present, gain)


def initial_moments(space: StateSpace) -> tuple[Vector, Matrix]:
    """Mean and covariance of the state before the first row, n and n × n arrays."""
    mean = tuple(jnp.asarray(m, float) for m in space.initial_mean)
    cov = tuple(tuple(jnp.asarray(c, float) for c in row) for row in space.initial_cov)
    return mean, cov


def at_row(space: StateSpace, t: Any) -> StateSpace:
    """The law on one row."""
    varying, at = over_rows(space)
    return at([x[t] for x in varying])


def over_rows(space: StateSpace) -> tuple[list[Array], Any]:
    """The entries that vary over rows, to scan over, and what makes the law on a row of them."""
    varying, join = _split(
        (space.transition, space.noise_cov, space.observation, space.cross_cov,
         space.observation_var, space.offset, space.measurement_var)
    )  # fmt: skip

    def at(row: list[Array]) -> StateSpace:
        return StateSpace(space.initial_mean, space.initial_cov, *join(row))

    return varying, at


def log_likelihood(space: StateSpace, y: Array) -> Array:
    """Log density of the logged rows under the law, by the filter.

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.

    Returns:
        The log density, a scalar.
    """
    varying, at = over_rows(space)

    body = jax.checkpoint(summed(at))  # recomputing a row costs less than storing its values for the gradient
    mean, cov = initial_moments(space)
    (_, _, total), _ = lax.scan(body, (mean, cov, jnp.zeros(())), (y, varying))
    return total


def summed(at: Any) -> Any:
    """One row of the log density's sum: the body of a scan over (values, entries that vary)."""

    def body(carry: Any, row: Any) -> tuple[Any, None]:
        mean, cov, total = carry
        value, entries = row
        mean, cov, (innovation, var, present, _) = advance(at(entries), mean, cov, value)
        term = jnp.where(present, jnp.log(var) + innovation**2 / var + LOG_2PI, 0.0)
        return (mean, cov, total - 0.5 * term), None

    return body


def filter_rows(space: StateSpace, y: Array) -> Filtered:
    """Runs the filter and keeps what smoother, leave-one-out and forecast need.

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.

    Returns:
        Predictions of every row and the state after the last one.
    """
    varying, at = over_rows(space)

    def body(carry: Any, row: Any) -> tuple[Any, Any]:
        mean, cov, total = carry
        value, entries = row
        after, after_cov, (innovation, var, present, gain) = advance(at(entries), mean, cov, value)
        term = jnp.where(present, jnp.log(var) + innovation**2 / var + LOG_2PI, 0.0)
        gain = tuple(jnp.asarray(k, float) for k in gain)
        return (after, after_cov, total - 0.5 * term), (innovation, var, gain, mean, cov)

    mean, cov = initial_moments(space)
    (last_mean, last_cov, total), out = lax.scan(body, (mean, cov, jnp.zeros(())), (y, varying))
    innovation, var, gain, means, covs = out
    return Filtered(total, innovation, var, gain, means, covs, last_mean, last_cov)


def draw_rows(space: StateSpace, y: Array, noise: Array) -> tuple[Array, Array]:
    """Rows drawn from the law, each given those before it, and the logged rows' log density.

    Gains and variances do not depend on the values, so one pass serves both runs.

    Args:
        space: The law on the rows.
        y: Logged rewards, shape (T,); NaN = missing.
        noise: Standard normal numbers, shape (T,).

    Returns:
        Drawn rows, shape (T,), NaN where the log has none; and `log_likelihood`.
    """
    varying, at = over_rows(space)

    def body(carry: Any, row: Any) -> tuple[Any, Array]:
        mean, drawn_mean, cov, total = carry
        value, z, entries = row
        here = at(entries)
        mean, cov, (innovation, var, present, gain) = advance(here, mean, cov, value)
        surprise = jnp.sqrt(var) * z
        drawn = plus(dot(here.observation, drawn_mean), here.offset) + surprise
        drawn_mean = tuple(
            plus(m, k * surprise) for m, k in zip(matvec(here.transition, drawn_mean), gain, strict=True)
        )
        term = jnp.where(present, jnp.log(var) + innovation**2 / var + LOG_2PI, 0.0)
        return (mean, drawn_mean, cov, total - 0.5 * term), jnp.where(present, drawn, jnp.nan)

    mean, cov = initial_moments(space)
    (*_, total), drawn = lax.scan(body, (mean, mean, cov, jnp.zeros(())), (y, noise, varying))
    return drawn, total
