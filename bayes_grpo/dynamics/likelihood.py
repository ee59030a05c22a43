"""Which filter computes a likelihood: the fastest one that the rows and the machine allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from bayes_grpo.common.programs import accelerated
from bayes_grpo.dynamics import associative, blocks, kalman
from bayes_grpo.dynamics.state_space import StateSpace


def log_likelihood(space: StateSpace, y: Array, missing_anywhere: bool = False) -> Array:
    """Log density of the logged rows under a law.

    Args:
        space: The law on the rows. The last component of its state is constant.
        y: Logged values, shape (T,); NaN = missing.
        missing_anywhere: Whether rows may be missing anywhere, and not only at the end.

    Returns:
        The log density, a scalar.
    """
    if missing_anywhere:
        return kalman.log_likelihood(space, jnp.asarray(y))  # the blocks take missing rows at the end only
    return (associative if accelerated() else blocks).log_likelihood(space, jnp.asarray(y))


def log_likelihood_of_rows(space: Callable[[Any], StateSpace], rows: Any, y: Array) -> Array:
    """The same for a law whose entries of a row depend on the columns of that row alone.

    Its columns are put side by side in blocks before the law sees them: two or three columns are then transposed, in
    place of a dozen entries and as many derivatives.

    Args:
        space: The law on rows, at most three components.
        rows: Columns of the rows, a tree; those of shape (T,) vary over rows.
        y: Logged values, shape (T,); NaN = missing, at the end only.

    Returns:
        The log density, a scalar.
    """
    if accelerated() or len(y) < blocks.LEAST_ROWS:
        return log_likelihood(space(rows), y)

    count, _ = blocks.block_sizes(len(y), varying=True)

    def moved(column: Any) -> Any:
        return blocks.interleave(jnp.asarray(column), count) if jnp.shape(column) == y.shape else column

    law = space(jax.tree.map(moved, rows))
    if not blocks.varies(law):  # then no column of the rows had a say, and the values alone are put in blocks
        count, _ = blocks.block_sizes(len(y), varying=False)
    return blocks.log_likelihood_side_by_side(law, blocks.interleave(jnp.asarray(y), count, jnp.nan), count)
