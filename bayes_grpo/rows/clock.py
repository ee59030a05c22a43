"""When the rows of a log happen, as columns: with them a row's law needs no row before it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from bayes_grpo.rows.padding import Clock, Rows


def clocked(rows: Rows) -> Rows:
    """The same rows with their clock, so that any part of them knows where in the log it lies.

    Args:
        rows: All rows of the log, or a part of rows that have a clock.

    Returns:
        The rows.
    """
    if rows.clock is not None:
        return rows
    n = rows.y.shape[0]
    steps = (0.0 if rows.window is None else rows.window) + (0.0 if rows.gap is None else rows.gap)
    weighted = steps if rows.rate is None else steps * rows.rate
    return rows._replace(clock=Clock(jnp.arange(n), _running_sum(steps, n), _running_sum(weighted, n)))


def _running_sum(each: Any, n: int) -> Array:
    total = jnp.asarray(each)
    # One length for all rows needs no running sum.
    return total * jnp.arange(1.0, n + 1.0) if total.ndim == 0 else jnp.cumsum(total)
