"""The filter in blocks of rows, side by side: the fastest likelihood on a CPU for the sampler's many evaluations.

The rows are cut into B blocks. Inside a block the filter starts from a state known exactly, so that every prediction
is affine in that state; all blocks advance together as one vector. A block then says two things: where the state after
it lies given the state before it, and a quadratic log likelihood of the state before it. B small updates combine them.
Where the law's coefficients are the same for all rows, covariances and gains are the same in every block and are
computed once.

Accuracy beside the plain filter: 1e-9 relatively on the test laws. Where the measurement noise is thousands of times
smaller than the rows' spread, the blocks' quadratics are so narrow that digits are lost, 1e-5 in the log density.

The last component of the state must be constant (the fixed point), and missing values may stand at the end only;
`bayes_grpo.dynamics.kalman` has neither restriction.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics import kalman
from bayes_grpo.dynamics.state_space import (
    LOG_2PI,
    Entry,
    Matrix,
    StateSpace,
    Vector,
    dot,
    matvec,
    plus,
    symmetric_product,
    times,
)


class _Law(NamedTuple):
    """A law without its constant component: d moving components, and the constant's way into them and the row."""

    transition: Matrix
    from_constant: Vector
    noise_cov: Matrix
    observation: Vector
    constant_seen: Entry
    cross_cov: Vector
    variance: Entry
    offset: Entry


class _Block(NamedTuple):
    """What a block says, arrays with a leading axis of blocks.

    Attributes:
        a: State after the block is ``a @ (before - reference) + b`` plus noise of covariance ``c``; shape (B, n, n).
        b: Shape (B, n).
        c: Shape (B, n, n).
        j: Minus the second derivative of the block's log likelihood in the state before it, shape (B, n, n).
        eta: Its first derivative at the reference, shape (B, n).
        constant: Its value at the reference, shape (B,).
    """

    a: Array
    b: Array
    c: Array
    j: Array
    eta: Array
    constant: Array


def log_likelihood(space: StateSpace, y: Array) -> Array:
    """Log density of the logged rows under the law.

    Args:
        space: The law on the rows; its last component constant. More than three components take the plain filter.
        y: Logged rewards, shape (T,); NaN at the end only.

    Returns:
        The log density, a scalar, equal to `bayes_grpo.dynamics.kalman.log_likelihood` up to rounding.
    """
    rows = y.shape[0]
    if space.size > 3 or rows < 32:
        return kalman.log_likelihood(space, y)
    blocks = 2 ** round(math.log2(math.sqrt(rows)))
    length = -(-rows // blocks)
    missing = blocks * length - rows

    def columns(entry: Any) -> Any:
        """Rows as (length, blocks); an entry that holds for every row stays as it is."""
        if getattr(entry, "ndim", 0) == 0:
            return entry
        return jnp.concatenate([entry, jnp.broadcast_to(entry[-1], (missing,))]).reshape(blocks, length).T

    regime = jax.tree.map(columns, _without_constant(space))
    values = jnp.concatenate([y, jnp.full(missing, jnp.nan)]).reshape(blocks, length).T
    level = jnp.asarray(space.initial_mean[-1], float)
    first = jnp.where(jnp.isfinite(values[0]), values[0], level)
    # Near the state where the block begins: from 0, small noise would leave little of a difference of large squares.
    reference = jnp.stack([first - level, *[jnp.zeros(blocks)] * (space.size - 2), jnp.full(blocks, level)], axis=-1)
    return _combine(space, _blocks(regime, values, reference), reference)


def _without_constant(space: StateSpace) -> _Law:
    d = space.size - 1
    return _Law(
        transition=tuple(row[:d] for row in space.transition[:d]),
        from_constant=tuple(row[d] for row in space.transition[:d]),
        noise_cov=tuple(row[:d] for row in space.noise_cov[:d]),
        observation=space.observation[:d],
        constant_seen=space.observation[d],
        cross_cov=space.cross_cov[:d],
        variance=plus(space.observation_var, space.measurement_var),
        offset=space.offset,
    )


def _advance_cov(regime: _Law, cov: Matrix, ways: Matrix) -> tuple[Matrix, Matrix, tuple[Entry, Vector, Vector]]:
    """One row: covariance, and the state's ways from the state before the block (d rows, n columns)."""
    d = len(ways)
    ph = matvec(cov, regime.observation)
    var = plus(dot(regime.observation, ph), regime.variance)
    cross = tuple(plus(c, s) for c, s in zip(matvec(regime.transition, ph), regime.cross_cov, strict=True))
    gain = tuple(times(c, 1.0 / var) for c in cross)
    columns = tuple(tuple(row[j] for row in ways) for j in range(d + 1))
    seen = [dot(regime.observation, column) for column in columns]
    seen[d] = plus(seen[d], regime.constant_seen)
    moved = [list(matvec(regime.transition, column)) for column in columns]
    moved[d] = [plus(m, f) for m, f in zip(moved[d], regime.from_constant, strict=True)]
    ways = tuple(tuple(plus(moved[j][i], -times(gain[i], seen[j])) for j in range(d + 1)) for i in range(d))
    spread = symmetric_product(regime.transition, cov)
    cov = tuple(
        tuple(
            plus(plus(spread[i][j], regime.noise_cov[i][j]), -times(cross[min(i, j)], gain[max(i, j)]))
            for j in range(d)
        )
        for i in range(d)
    )
    return cov, ways, (var, gain, tuple(seen))


def _advance_mean(regime: _Law, mean: Vector, level: Array, gain: Vector, value: Array) -> tuple[Vector, Array]:
    """One row: the state's mean if the block began at its reference, and the row's innovation."""
    error = value - plus(plus(dot(regime.observation, mean), times(regime.constant_seen, level)), regime.offset)
    moved = matvec(regime.transition, mean)
    moved = tuple(plus(m, times(f, level)) for m, f in zip(moved, regime.from_constant, strict=True))
    return tuple(plus(m, times(k, error)) for m, k in zip(moved, gain, strict=True)), error


def _blocks(regime: _Law, values: Array, reference: Array) -> _Block:
    """Runs all blocks side by side; ``values`` has shape (length, blocks), ``reference`` (blocks, n)."""
    length, blocks = values.shape
    d = len(regime.transition)
    present = jnp.isfinite(values)
    y = jnp.where(present, values, 0.0)
    leaves, treedef = jax.tree.flatten(regime)
    varying = [leaf for leaf in leaves if getattr(leaf, "ndim", 0) == 2]

    def at(row: list[Array]) -> _Law:
        own = iter(row)
        return jax.tree.unflatten(treedef, [next(own) if getattr(x, "ndim", 0) == 2 else x for x in leaves])

    shape = (blocks,) if varying else ()
    zero, one = jnp.zeros(shape), jnp.ones(shape)
    cov: Matrix = tuple(tuple(zero for _ in range(d)) for _ in range(d))
    ways: Matrix = tuple(tuple(one if i == j else zero for j in range(d + 1)) for i in range(d))
    mean: Vector = tuple(reference[:, i] for i in range(d))
    level = reference[:, d]

    def full(tree: Any, like: Array) -> Any:
        return jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x, float), like.shape), tree)

    if varying:

        def step(carry: Any, row: Any) -> tuple[Any, Any]:
            cov, ways, mean = carry
            value, entries = row
            own = at(entries)
            cov, ways, (var, gain, seen) = _advance_cov(own, cov, ways)
            mean, error = _advance_mean(own, mean, level, gain, value)
            return full((cov, ways, mean), zero), (*full((var, seen), zero), error)

        (cov, ways, mean), (var, seen, error) = lax.scan(step, (cov, ways, mean), (y, varying))
    else:

        def shared(carry: Any, _: None) -> tuple[Any, Any]:
            cov, ways, out = _advance_cov(regime, *carry)
            return full((cov, ways), zero), full(out, zero)

        def own_mean(mean: Vector, row: Any) -> tuple[Any, Array]:
            value, gain = row
            mean, error = _advance_mean(regime, mean, level, gain, value)
            return full(mean, value), error

        (cov, ways), (var, gain, seen) = lax.scan(shared, (cov, ways), None, length=length)
        mean, error = lax.scan(own_mean, mean, (y, gain))
        var, seen = var[:, None], tuple(s[:, None] for s in seen)
    return _quadratic(present, var, seen, error, cov, ways, (*mean, level))


def _quadratic(
    present: Array, var: Array, seen: Vector, error: Array, cov: Matrix, ways: Matrix, mean: Vector
) -> _Block:
    """Sums the rows of every block into a quadratic in the state before it."""
    blocks, d = error.shape[1], len(ways)
    weight = present / var
    constant = -0.5 * jnp.sum(present * (jnp.log(var) + LOG_2PI) + weight * error**2, axis=0)
    eta = jnp.stack([jnp.sum(weight * error * s, axis=0) for s in seen], axis=-1)
    upper = {(i, k): jnp.sum(weight * (seen[i] * seen[k]), axis=0) for i in range(d + 1) for k in range(i, d + 1)}
    j = _matrix([[upper[min(i, k), max(i, k)] for k in range(d + 1)] for i in range(d + 1)], blocks)
    constant_row = [0.0] * d
    return _Block(
        a=_matrix([*(list(row) for row in ways), [*constant_row, 1.0]], blocks),
        b=_matrix([list(mean)], blocks)[:, 0],
        c=_matrix([*([*row, 0.0] for row in cov), [*constant_row, 0.0]], blocks),
        j=j,
        eta=eta,
        constant=constant,
    )


def _matrix(entries: list[list[Any]], blocks: int) -> Array:
    """Entries, each a number, a scalar or of shape (blocks,), as an array of shape (blocks, rows, columns)."""
    return jnp.stack(
        [jnp.stack([jnp.broadcast_to(jnp.asarray(x, float), (blocks,)) for x in row], -1) for row in entries], -2
    )


def _combine(space: StateSpace, blocks: _Block, references: Array) -> Array:
    """Runs over the blocks: each updates the state before it by its quadratic and moves it on."""
    mean = jnp.stack([jnp.asarray(m, float) for m in space.initial_mean])
    cov = jnp.stack([jnp.stack([jnp.asarray(c, float) for c in row]) for row in space.initial_cov])
    eye = jnp.eye(space.size)

    def step(carry: Any, row: tuple[_Block, Array]) -> tuple[Any, None]:
        mean, cov, total = carry
        block, reference = row
        away = mean - reference
        inverse, determinant = _inverse(eye + cov @ block.j)
        pull = block.eta - block.j @ away
        narrowed = inverse @ cov
        total = total + block.constant + block.eta @ away - 0.5 * away @ (block.j @ away)
        total = total + 0.5 * pull @ (narrowed @ pull) - 0.5 * jnp.log(determinant)
        away = away + narrowed @ pull
        return (block.a @ away + block.b, block.a @ narrowed @ block.a.T + block.c, total), None

    return lax.scan(step, (mean, cov, jnp.zeros(())), (blocks, references))[0][2]


def _inverse(m: Array) -> tuple[Array, Array]:
    """Inverse and determinant of a 2 × 2 or 3 × 3 matrix by cofactors; here 1 plus a product of covariances."""
    if m.shape[0] == 2:
        a, b, c, d = m[0, 0], m[0, 1], m[1, 0], m[1, 1]
        determinant = a * d - b * c
        return jnp.stack([jnp.stack([d, -b]), jnp.stack([-c, a])]) / determinant, determinant

    def cofactor(i: int, j: int) -> Array:
        # Cyclic indices carry the sign.
        r, s, u, v = (i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3
        return m[r, u] * m[s, v] - m[r, v] * m[s, u]

    adjugate = jnp.stack([jnp.stack([cofactor(j, i) for j in range(3)]) for i in range(3)])
    determinant = m[0] @ adjugate[:, 0]
    return adjugate / determinant, determinant
