"""The filter in blocks of rows, side by side: the fastest likelihood on a CPU for the sampler's many evaluations.

The rows are cut into B blocks. Inside a block the filter starts from a state known exactly, so that every prediction
is affine in that state; all blocks advance together as one vector. A block then says two things: where the state after
it lies given the state before it, and a quadratic log likelihood of the state before it. B small updates join them.

The last component of the state is constant (the fixed point). It is no part of the recursions: everything is affine in
it, and it is integrated out at the end (the augmented filter of de Jong 1991, https://doi.org/10.1214/aos/1176348139).

Where the law's coefficients are the same for all rows, covariances and gains are the same in every block and are
computed once. Where they differ, the gradient has a rule of its own (`bayes_grpo.dynamics.block_gradient`).

Why they are worth their lines beside a plain filter that is always right: a whole `fit` of 2,000 rows takes half of
the processor time with them under a constant learning rate, and three fifths under one that falls
(`benchmarks/blocks.py` measures both). Where neither is halved any more, they are to go.

Accuracy beside the plain filter: 1e-9 relatively on the test laws. Where the measurement noise is thousands of times
smaller than the rows' spread, the blocks' quadratics are so narrow that digits are lost, 1e-5 in the log density.

Missing values may stand at the end only; `bayes_grpo.dynamics.kalman` takes them anywhere.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics import kalman
from bayes_grpo.dynamics.block_elements import (
    Coefficients,
    Elements,
    InitialState,
    advance_cov,
    full,
    reference_of,
    symmetric,
    upper,
    without_constant,
)
from bayes_grpo.dynamics.block_gradient import log_likelihood_of_blocks
from bayes_grpo.dynamics.block_joints import filter_blocks, integrate_constant
from bayes_grpo.dynamics.state_space import LOG_2PI, StateSpace, Vector, dot, matvec, plus, times

LEAST_ROWS = 32
"""Fewer rows take the plain filter."""


def block_sizes(rows: int, varying: bool) -> tuple[int, int]:
    """Number of blocks and rows a block.

    Rows with coefficients of their own are passed over three times, the joints of the blocks twice, so that more and
    shorter blocks are faster for them; measured from 64 to 4,000 rows.

    Args:
        rows: Number of rows.
        varying: Whether the law's coefficients differ from row to row.
    """
    blocks = 2 ** round(math.log2(math.sqrt(rows)) + varying)
    return blocks, -(-rows // blocks)


def varies(model: Any) -> bool:
    """Whether coefficients, which are numbers and arrays, differ from row to row."""
    return any(getattr(x, "ndim", 0) for x in jax.tree.leaves(model))


def interleave(column: Array, blocks: int, fill: Any = None) -> Array:
    """A column of the rows with the blocks side by side: first the first row of every block, then the second.

    Args:
        column: Shape (T,).
        blocks: Number of blocks.
        fill: What completes the last block; the last row's value if None.

    Returns:
        Shape (rows a block × blocks,).
    """
    length = -(-len(column) // blocks)
    missing = blocks * length - len(column)
    if missing:
        rest = jnp.broadcast_to(column[-1] if fill is None else jnp.asarray(fill), (missing,))
        column = jnp.concatenate([column, rest])
    return column.reshape(blocks, length).T.ravel()


def log_likelihood(space: StateSpace, y: Array) -> Array:
    """Log density of the logged rows under the model.

    Args:
        space: The law on the rows; its last component constant. More than three components take the plain filter.
        y: Logged rewards, shape (T,); NaN at the end only.

    Returns:
        The log density, a scalar, equal to `bayes_grpo.dynamics.kalman.log_likelihood` up to rounding.
    """
    if space.size > 3 or len(y) < LEAST_ROWS:
        return kalman.log_likelihood(space, y)
    blocks, _ = block_sizes(len(y), varies(space))
    space = jax.tree.map(lambda entry: interleave(entry, blocks) if getattr(entry, "ndim", 0) == 1 else entry, space)
    return log_likelihood_side_by_side(space, interleave(y, blocks, jnp.nan), blocks)


def log_likelihood_side_by_side(space: StateSpace, y: Array, blocks: int) -> Array:
    """The same for rows that stand side by side already (`interleave`), which spares their transposition.

    Args:
        space: The law on the rows, up to three components, the last one constant.
        y: Logged rewards; NaN at the end of the log only.
        blocks: Number of blocks.

    Returns:
        The log density, a scalar.
    """

    def columns(entry: Any) -> Any:
        """Rows as (length, blocks); an entry that holds for every row stays as it is."""
        return entry if getattr(entry, "ndim", 0) == 0 else entry.reshape(-1, blocks)

    model = jax.tree.map(columns, without_constant(space))
    values = y.reshape(-1, blocks)
    present = jnp.isfinite(values)
    values = jnp.where(present, values, 0.0)
    start = InitialState.of(space)
    if varies(model):
        return log_likelihood_of_blocks(model, values, present.astype(float), start)
    return integrate_constant(
        filter_blocks(_shared_elements(model, values, present, start.level), start)[0], start.level_var
    )


def _shared_elements(model: Coefficients, values: Array, present: Array, level: Array) -> Elements:
    """What the blocks say where coefficients are the same for all rows; only the mean differs from block to block."""
    d = len(model.observation)
    zero, one = jnp.zeros(()), jnp.ones(())
    cov = tuple((zero,) * d for _ in range(d))
    # A_c and the columns of A: how the state moves with the constant, and with each component before the block.
    columns = ((zero,) * d, *(tuple(one if i == k else zero for i in range(d)) for k in range(d)))

    def shared(carry: Any, _: None) -> tuple[Any, Any]:
        cov, columns = carry
        cov, (_seen, weight, gain, _moved) = advance_cov(model, cov)
        misses = [plus(dot(model.observation, columns[0]), model.constant_seen)]
        misses = [-jnp.asarray(x) for x in (*misses, *(dot(model.observation, column) for column in columns[1:]))]
        moved = [
            tuple(plus(m, times(k, miss)) for m, k in zip(matvec(model.transition, column), gain, strict=True))
            for column, miss in zip(columns, misses, strict=True)
        ]
        moved[0] = tuple(plus(m, f) for m, f in zip(moved[0], model.from_constant, strict=True))
        return full((cov, tuple(moved)), zero), full((weight, gain, tuple(misses)), zero)

    (cov, columns), (weight, gain, misses) = lax.scan(shared, (cov, columns), None, length=len(values))
    reference = reference_of(values, present, level, d)

    def own(mean: Vector, row: Any) -> tuple[Any, Array]:
        value, gain = row
        seen = plus(plus(dot(model.observation, mean), times(model.constant_seen, level)), model.offset)
        error = value - seen
        moved = matvec(model.transition, mean)
        moved = tuple(plus(m, times(f, level)) for m, f in zip(moved, model.from_constant, strict=True))
        return full(tuple(plus(m, times(k, error)) for m, k in zip(moved, gain, strict=True)), value), error

    mean, error = lax.scan(own, reference, (values, gain))
    weight = present * weight[:, None]
    slopes = [jnp.sum(weight * error * miss[:, None], axis=0) for miss in misses]
    information = {
        (i, k): jnp.sum(weight * (misses[i] * misses[k])[:, None], axis=0)
        for i in range(d + 1)
        for k in range(i, d + 1)
    }
    constant = -0.5 * jnp.sum(weight * error**2 - jnp.log(jnp.where(present, weight, 1.0)) + present * LOG_2PI, axis=0)
    return Elements(
        A=full(tuple(tuple(columns[1 + k][i] for k in range(d)) for i in range(d)), slopes[0]),
        A_c=full(columns[0], slopes[0]),
        b=mean,
        C=full(cov, slopes[0]),
        log_density=constant,
        eta=tuple(-s for s in slopes[1:]),
        J=symmetric({(i, k): information[1 + i, 1 + k] for i, k in upper(d)}, d),
        eta_c=-slopes[0],
        J_xc=tuple(information[0, 1 + k] for k in range(d)),
        J_cc=information[0, 0],
        reference=reference,
    )
