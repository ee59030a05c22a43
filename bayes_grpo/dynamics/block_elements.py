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


class Law(NamedTuple):
    """A law without its constant component: d moving components, and the constant's way into them and into the row."""

    transition: Matrix
    from_constant: Vector
    noise_cov: Matrix
    observation: Vector
    constant_seen: Entry
    cross_cov: Vector
    variance: Entry
    offset: Entry


class Start(NamedTuple):
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
    def of(cls, space: StateSpace) -> Start:
        """The start of a law whose last component is constant."""
        *mean, level = (jnp.asarray(m, float) for m in space.initial_mean)
        cov = [[jnp.asarray(c, float) for c in row] for row in space.initial_cov]
        d, var = len(mean), cov[-1][-1]
        known = jnp.where(var > 0, var, 1.0)
        slope = tuple(cov[i][d] / known for i in range(d))
        given = tuple(tuple(cov[i][k] - slope[i] * cov[k][d] for k in range(d)) for i in range(d))
        return cls(tuple(mean), slope, given, level, var)


class Elements(NamedTuple):
    """What blocks say, arrays of shape (B,).

    The log density of a block's rows is a quadratic in the state before it (from ``reference``) and in the constant
    (from its prior mean).

    Attributes:
        way: State after the block per state before it, d × d.
        from_constant: The same per constant, d.
        mean: State after the block if it began at the reference, d.
        cov: Covariance of the state after the block, d × d.
        value: Log density at the reference.
        slope: Its derivative in the state before the block, d.
        bend: Minus its second derivative, d × d.
        constant_slope: Its derivative in the constant.
        mixed_bend: Minus its derivative in both, d.
        constant_bend: Minus its second derivative in the constant.
        reference: State before the block about which all this is said, d.
    """

    way: Matrix
    from_constant: Vector
    mean: Vector
    cov: Matrix
    value: Array
    slope: Vector
    bend: Matrix
    constant_slope: Array
    mixed_bend: Vector
    constant_bend: Array
    reference: Vector


def without_constant(space: StateSpace) -> Law:
    """The law with its constant component apart."""
    d = space.size - 1
    return Law(
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


def advance_cov(law: Law, cov: Matrix) -> tuple[Matrix, tuple[Vector, Entry, Vector, Matrix]]:
    """One row: covariance after it; and covariance × observation, 1/variance, gain, transition × covariance."""
    d = len(law.observation)
    seen = matvec(cov, law.observation)
    weight = 1.0 / plus(dot(law.observation, seen), law.variance)
    moved = product(law.transition, cov)
    cross = tuple(plus(c, s) for c, s in zip(matvec(law.transition, seen), law.cross_cov, strict=True))
    gain = tuple(times(c, weight) for c in cross)
    after = {
        (i, k): plus(plus(dot(law.transition[k], moved[i]), law.noise_cov[i][k]), -times(cross[i], gain[k]))
        for i, k in upper(d)
    }
    return symmetric(after, d), (seen, weight, gain, moved)


def over_rows(law: Law, step: Callable[..., Any], carry: Any, *columns: Any, reverse: bool = False) -> tuple[Any, Any]:
    """Scans ``step(law of the row, carry, *columns of the row)`` over the rows, all blocks at once.

    Args:
        law: Entries over the rows of shape (length, B), or one for all rows.
        step: The step.
        carry: What is carried from row to row.
        *columns: Trees of arrays with a leading axis of rows.
        reverse: Whether to begin with the last row.

    Returns:
        What was carried past the last row, and what every row gave.
    """
    leaves, treedef = jax.tree.flatten(law)
    varying = [x for x in leaves if getattr(x, "ndim", 0) == 2]

    def body(carry: Any, row: Any) -> Any:
        entries = iter(row[0])
        own = jax.tree.unflatten(treedef, [next(entries) if getattr(x, "ndim", 0) == 2 else x for x in leaves])
        return step(own, carry, *row[1:])

    return lax.scan(body, carry, (varying, *columns), reverse=reverse)


def beside(entry: Entry) -> Entry:
    """An entry of shape (B,) beside columns of shape (C, B)."""
    return entry[None] if getattr(entry, "ndim", 0) else entry  # pyright: ignore[reportIndexIssue]


def mark(size: int, place: int) -> Any:
    """1 in one place of a column of columns, shape (size, 1)."""
    out = np.zeros((size, 1))
    out[place] = 1.0
    return out


def advance_columns(law: Law, columns: Vector, gain: Vector, value: Array, level: Array) -> tuple[Vector, Array]:
    """One row: columns of the state and their residuals.

    Args:
        law: The law of the row.
        columns: d arrays (C, B): the mean, its slope in the constant, its slopes in the state before the block.
        gain: Gain of the row, d entries.
        value: Its values, shape (B,).
        level: The constant.

    Returns:
        The columns after the row, and its residuals of shape (C, B): that of the mean, then their slopes.
    """
    size = jnp.shape(columns[0])[0]
    is_mean, is_slope = mark(size, 0), mark(size, 1)
    known = value - plus(times(law.constant_seen, level), law.offset)
    residual = beside(known) * is_mean - times(beside(law.constant_seen), is_slope)
    residual = residual - dot(tuple(beside(h) for h in law.observation), columns)
    moved = matvec(tuple(tuple(beside(x) for x in row) for row in law.transition), columns)
    pushed = tuple(
        plus(m, times(beside(f), level * is_mean + is_slope)) for m, f in zip(moved, law.from_constant, strict=True)
    )
    return tuple(plus(m, beside(k) * residual) for m, k in zip(pushed, gain, strict=True)), residual


def elements_of_rows(law: Law, values: Array, present: Array, level: Array) -> Elements:
    """What the blocks say where every row has coefficients of its own.

    Args:
        law: The law, entries of shape (length, B) or one for all rows.
        values: Rows, shape (length, B); anything where missing.
        present: 1 where logged, 0 where missing.
        level: Prior mean of the constant.

    Returns:
        The elements.
    """
    blocks, d = values.shape[1], len(law.observation)
    size, zero = d + 2, jnp.zeros(blocks)
    reference = reference_of(values, present, level, d)
    columns = tuple(
        reference[k] * mark(size, 0) + jnp.broadcast_to(mark(size, 2 + k), (size, blocks)) for k in range(d)
    )

    def step(own: Law, carry: Any, value: Array, here: Array) -> tuple[Any, Array]:
        cov, columns, squares = carry
        cov, (_, weight, gain, _) = advance_cov(own, whole(cov, d))
        columns, residual = advance_columns(own, columns, gain, value, level)
        scaled = residual * beside(jnp.sqrt(weight) * here)
        return (full(half(cov), zero), columns, squares + scaled[:, None] * scaled[None]), full(weight, zero)

    start = ((zero,) * len(upper(d)), columns, jnp.zeros((size, size, blocks)))
    (cov, columns, squares), weight = over_rows(law, step, start, values, present)
    weight = jnp.where(present > 0, weight, 1.0)
    together = jnp.concatenate([weight, jnp.ones((-len(weight) % _LOGS_TOGETHER, blocks))])
    logs = jnp.log(jnp.prod(together.reshape(-1, _LOGS_TOGETHER, blocks), axis=1))
    return Elements(
        way=tuple(tuple(columns[i][2 + k] for k in range(d)) for i in range(d)),
        from_constant=tuple(x[1] for x in columns),
        mean=tuple(x[0] for x in columns),
        cov=whole(cov, d),
        value=0.5 * (jnp.sum(logs, axis=0) - LOG_2PI * jnp.sum(present, axis=0) - squares[0, 0]),
        slope=tuple(-squares[0, 2 + k] for k in range(d)),
        bend=symmetric({(i, k): squares[2 + i, 2 + k] for i, k in upper(d)}, d),
        constant_slope=-squares[0, 1],
        mixed_bend=tuple(squares[1, 2 + k] for k in range(d)),
        constant_bend=squares[1, 1],
        reference=reference,
    )
