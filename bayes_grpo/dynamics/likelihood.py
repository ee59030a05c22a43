"""Which filter computes a likelihood: the fastest one that the rows and the machine allow."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from bayes_grpo.dynamics import associative, blocks, kalman
from bayes_grpo.dynamics.state_space import StateSpace


def accelerated() -> bool:
    """Whether JAX computes on an accelerator, where wide programs beat long ones."""
    return jax.default_backend() != "cpu"


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
