"""Which filter computes a likelihood: a sequential scan on a CPU, an associative one on an accelerator."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from bayes_grpo.common.programs import accelerated
from bayes_grpo.dynamics import kalman
from bayes_grpo.dynamics.state_space import StateSpace


def log_likelihood(space: StateSpace, y: Array) -> Array:
    """Log density of the logged rows under a regime.

    Args:
        space: The regime on the rows.
        y: Logged values, shape (T,); NaN = missing.

    Returns:
        The log density, a scalar.
    """
    if accelerated():
        from bayes_grpo.dynamics import associative

        return associative.log_likelihood(space, jnp.asarray(y))
    return kalman.log_likelihood(space, jnp.asarray(y))
