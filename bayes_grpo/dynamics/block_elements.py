"""What a block of rows says of the state before it and of the constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from bayes_grpo.dynamics.state_space import LOG_2PI, Entry, Matrix, StateSpace, Vector, dot, matvec, plus, times

_LOGS_TOGETHER = 8
"""Variances multiplied before their logarithm is taken; 1e±38 each would be in range."""


class Coefficients(NamedTuple):
    """A state space without its constant component c: d moving components s, and how the constant enters.

        s' = F s + f c + w,    y = H s + h c + o + e,    Cov(w) = Q, Cov(w, e) = S, Var(e) = R

    Attributes:
        transition: F, d × d entries.
        from_constant: f, d entries.
        noise_cov: Q, d × d entries.
        observation: H, d entries.
        constant_seen: h, an entry.
        cross_cov: S, d entries.
        variance: R, measurement noise included, an entry.
        offset: o, an entry.
    """

    transition: Matrix
    from_constant: Vector
    noise_cov: Matrix
    observation: Vector
    constant_seen: Entry
    cross_cov: Vector
    variance: Entry
    offset: Entry


class InitialState(NamedTuple):
    """The state before the first row: the constant, and the d moving components given it.

    Attributes:
        mean: Mean of the moving components where the constant is ``level``, d scalars.
        slope: How it changes with the constant, d scalars.
        cov: Covariance of the moving components given the constant, d × d scalars.
        level: Mean of the constant, a scalar.
        level_var: Its variance, a scalar; 0 where it is known.
    """

    mean: Vector
    slope: Vector
    cov: Matrix
    level: Array
    level_var: Array

    @classmethod
    def of(cls, space: StateSpace) -> InitialState:
        """Of a state space whose last component is constant."""
        *mean, level = (jnp.asarray(m, float) for m in space.initial_mean)
        cov = [[jnp.asarray(c, float) for c in row] for row in space.initial_cov]
        d, var = len(mean), cov[-1][-1]
        known = jnp.where(var > 0, var, 1.0)
        slope = tuple(cov[i][d] / known for i in range(d))
        given = tuple(tuple(cov[i][k] - slope[i] * cov[k][d] for k in range(d)) for i in range(d))
        return cls(tuple(mean), slope, given, level, var)


class Elements(NamedTuple):
    """What blocks say of the state x before them and of the constant c, arrays of shape (B,).

    In the letters of Särkkä and García-Fernández 2021 (https://doi.org/10.1109/TAC.2020.2976316), with x counted from
    ``reference`` and c from its prior mean:

        state after the block | x, c, rows ~ N(A x + A_c c + b, C)
        log p(rows | x, c) = log_density + ηᵀx + η_c c − ½ xᵀJ x − J_xcᵀx c − ½ J_cc c²

    Attributes:
        A: d × d.
        A_c: d.
        b: d.
        C: d × d.
        log_density: Log density of the block's rows at the reference.
        eta: η, d.
        J: d × d.
        eta_c: η_c.
        J_xc: d.
        J_cc: A number.
        reference: State before the block from which x is counted, d.
    """

    A: Matrix
    A_c: Vector
    b: Vector
    C: Matrix
    log_density: Array
    eta: Vector
    J: Matrix
    eta_c: Array
    J_xc: Vector
    J_cc: Array
    reference: Vector


def without_constant(space: StateSpace) -> Coefficients:
    """The state space with its constant component apart."""
    d = space.size - 1
    return Coefficients(
        transition=tuple(row[:d] for row in space.transition[:d]),
        from_constant=tuple(row[d] for row in space.transition[:d]),
        noise_cov=tuple(row[:d] for row in space.noise_cov[:d]),
        observation=space.observation[:d],
        constant_seen=space.observation[d],
        cross_cov=space.cross_cov[:d],
        variance=plus(space.observation_var, space.measurement_var),
        offset=space.offset,
    )


def reference_of(values: Array, present: Array, level: Array, d: int) -> Vector:
    """Near the state where each block begins: from 0, small noise would leave little of a difference of large squares.

    Args:
        values: Rows, shape (length, B).
        present: Which of them are logged.
        level: Prior mean of the constant.
        d: Moving components.

    Returns:
        d arrays of shape (B,).
    """
    first = jnp.where(present[0] > 0, values[0], level) - level
    return (lax.stop_gradient(first), *[jnp.zeros_like(first)] * (d - 1))


def full(tree: Any, like: Array) -> Any:
    """Entries, numbers among them, as arrays of one shape."""
    return jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x, float), like.shape), tree)


def upper(d: int) -> list[tuple[int, int]]:
    """Places of the upper triangle of a d × d matrix."""
    return [(i, k) for i in range(d) for k in range(i, d)]


def symmetric(entries: dict[tuple[int, int], Any], d: int) -> Matrix:
    """A symmetric matrix from its upper triangle."""
    return tuple(tuple(entries[min(i, k), max(i, k)] for k in range(d)) for i in range(d))


def half(m: Matrix) -> Vector:
    """Upper triangle of a symmetric matrix, row by row: each pair of mirrored entries is carried once."""
    return tuple(m[i][k] for i, k in upper(len(m)))


def whole(entries: Vector, d: int) -> Matrix:
    """The symmetric d × d matrix with this upper triangle."""
    return symmetric(dict(zip(upper(d), entries, strict=True)), d)


def product(a: Matrix, b: Matrix) -> Matrix:
    """Product of two matrices of entries."""
    return tuple(tuple(dot(row, column) for column in zip(*b, strict=True)) for row in a)


def advance_cov(model: Coefficients, cov: Matrix) -> tuple[Matrix, tuple[Vector, Entry, Vector, Matrix]]:
    """One row: covariance after it; and covariance × observation, 1/variance, gain, transition × covariance."""
    d = len(model.observation)
    seen = matvec(cov, model.observation)
    weight = 1.0 / plus(dot(model.observation, seen), model.variance)
    moved = product(model.transition, cov)
    cross = tuple(plus(c, s) for c, s in zip(matvec(model.transition, seen), model.cross_cov, strict=True))
    gain = tuple(times(c, weight) for c in cross)
    after = {
        (i, k): plus(plus(dot(model.transition[k], moved[i]), model.noise_cov[i][k]), -times(cross[i], gain[k]))
        for i, k in upper(d)
    }
    return symmetric(after, d), (seen, weight, gain, moved)


def scan_rows(
    model: Coefficients, step: Callable[..., Any], carry: Any, *columns: Any, reverse: bool = False
) -> tuple[Any, Any]:
    """Scans ``step(coefficients of the row, carry, *columns of the row)`` over the rows, all blocks at once.

    Args:
        model: Entries over the rows of shape (length, B), or one for all rows.
        step: The step.
        carry: What is carried from row to row.
        *columns: Trees of arrays with a leading axis of rows.
        reverse: Whether to begin with the last row.

    Returns:
        What was carried past the last row, and what every row gave.
    """
    leaves, treedef = jax.tree.flatten(model)
    varying = [x for x in leaves if getattr(x, "ndim", 0) == 2]

    def body(carry: Any, row: Any) -> Any:
        entries = iter(row[0])
        own = jax.tree.unflatten(treedef, [next(entries) if getattr(x, "ndim", 0) == 2 else x for x in leaves])
        return step(own, carry, *row[1:])

    return lax.scan(body, carry, (varying, *columns), reverse=reverse)


def over_columns(entry: Entry) -> Entry:
    """An entry of shape (B,) as one that broadcasts over columns of shape (C, B)."""
    return entry[None] if getattr(entry, "ndim", 0) else entry  # pyright: ignore[reportIndexIssue]


def unit_vector(size: int, place: int) -> Any:
    """1 in one place and 0 elsewhere, shape (size, 1)."""
    out = np.zeros((size, 1))
    out[place] = 1.0
    return out


def advance_columns(
    model: Coefficients, columns: Vector, gain: Vector, value: Array, level: Array
) -> tuple[Vector, Array]:
    """One row: columns of the state and their residuals.

    Args:
        model: Coefficients of the row.
        columns: d arrays (C, B): the mean, its slope in the constant, its slopes in the state before the block.
        gain: Gain of the row, d entries.
        value: Its values, shape (B,).
        level: The constant.

    Returns:
        The columns after the row, and its residuals of shape (C, B): that of the mean, then their slopes.
    """
    size = jnp.shape(columns[0])[0]
    is_mean, is_slope = unit_vector(size, 0), unit_vector(size, 1)
    known = value - plus(times(model.constant_seen, level), model.offset)
    residual = over_columns(known) * is_mean - times(over_columns(model.constant_seen), is_slope)
    residual = residual - dot(tuple(over_columns(h) for h in model.observation), columns)
    moved = matvec(tuple(tuple(over_columns(x) for x in row) for row in model.transition), columns)
    pushed = tuple(
        plus(m, times(over_columns(f), level * is_mean + is_slope))
        for m, f in zip(moved, model.from_constant, strict=True)
    )
    return tuple(plus(m, over_columns(k) * residual) for m, k in zip(pushed, gain, strict=True)), residual


def elements_of_rows(model: Coefficients, values: Array, present: Array, level: Array) -> Elements:
    """What the blocks say where every row has coefficients of its own.

    Args:
        model: Coefficients, entries of shape (length, B) or one for all rows.
        values: Rows, shape (length, B); anything where missing.
        present: 1 where logged, 0 where missing.
        level: Prior mean of the constant.

    Returns:
        The elements.
    """
    blocks, d = values.shape[1], len(model.observation)
    size, zero = d + 2, jnp.zeros(blocks)
    reference = reference_of(values, present, level, d)
    columns = tuple(
        reference[k] * unit_vector(size, 0) + jnp.broadcast_to(unit_vector(size, 2 + k), (size, blocks))
        for k in range(d)
    )

    def step(own: Coefficients, carry: Any, value: Array, here: Array) -> tuple[Any, Array]:
        cov, columns, squares = carry
        cov, (_, weight, gain, _) = advance_cov(own, whole(cov, d))
        columns, residual = advance_columns(own, columns, gain, value, level)
        scaled = residual * over_columns(jnp.sqrt(weight) * here)
        return (full(half(cov), zero), columns, squares + scaled[:, None] * scaled[None]), full(weight, zero)

    start = ((zero,) * len(upper(d)), columns, jnp.zeros((size, size, blocks)))
    (cov, columns, squares), weight = scan_rows(model, step, start, values, present)
    weight = jnp.where(present > 0, weight, 1.0)
    together = jnp.concatenate([weight, jnp.ones((-len(weight) % _LOGS_TOGETHER, blocks))])
    logs = jnp.log(jnp.prod(together.reshape(-1, _LOGS_TOGETHER, blocks), axis=1))
    return Elements(
        A=tuple(tuple(columns[i][2 + k] for k in range(d)) for i in range(d)),
        A_c=tuple(x[1] for x in columns),
        b=tuple(x[0] for x in columns),
        C=whole(cov, d),
        log_density=0.5 * (jnp.sum(logs, axis=0) - LOG_2PI * jnp.sum(present, axis=0) - squares[0, 0]),
        eta=tuple(-squares[0, 2 + k] for k in range(d)),
        J=symmetric({(i, k): squares[2 + i, 2 + k] for i, k in upper(d)}, d),
        eta_c=-squares[0, 1],
        J_xc=tuple(squares[1, 2 + k] for k in range(d)),
        J_cc=squares[1, 1],
        reference=reference,
    )
