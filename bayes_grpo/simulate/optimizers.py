"""Momentum and learning-rate schedules as pure functions of a small state."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from bayes_grpo.simulate.settings import Numbers, Structure


class OptimizerState(NamedTuple):
    """First and second moment of the gradient, each of shape (parameters,)."""

    velocity: jax.Array
    second_moment: jax.Array


def learning_rate(step: jax.Array, structure: Structure, numbers: Numbers) -> jax.Array:
    """Learning rate of update ``step`` (0-based): linear warm-up, then the schedule's decay to zero.

    Args:
        step: Number of updates already made.
        structure: The schedule and the planned length.
        numbers: Peak learning rate and warm-up.

    Returns:
        η(step), a scalar.
    """
    warmup = jnp.asarray(numbers.warmup_steps)
    rise = (step + 1) / jnp.maximum(warmup, 1)
    done = jnp.clip((step - warmup) / jnp.maximum(structure.n_steps - warmup, 1), 0.0, 1.0)
    decay = {
        "constant": jnp.ones_like(done),
        "linear": 1.0 - done,
        "cosine": 0.5 * (1.0 + jnp.cos(jnp.pi * done)),
    }[structure.schedule]
    return numbers.learning_rate * jnp.where(step < warmup, rise, decay)


def optimizer_step(
    state: OptimizerState,
    gradient: jax.Array,
    rate: jax.Array,
    step: jax.Array,
    structure: Structure,
    numbers: Numbers,
) -> tuple[OptimizerState, jax.Array]:
    """One step of descent.

    Args:
        state: Moments before the step.
        gradient: Gradient of the loss, shape (parameters,).
        rate: Learning rate of this step.
        step: Number of updates already made (for Adam's bias correction).
        structure: The optimizer.
        numbers: Momentum and Adam's constants.

    Returns:
        The moments after the step, and the change of the parameters.
    """
    mu = numbers.momentum
    if structure.optimizer == "heavy_ball":
        velocity = mu * state.velocity + gradient
        return OptimizerState(velocity, state.second_moment), -rate * velocity
    velocity = mu * state.velocity + (1.0 - mu) * gradient
    if structure.optimizer == "ema":
        return OptimizerState(velocity, state.second_moment), -rate * velocity
    second = numbers.adam_beta2 * state.second_moment + (1.0 - numbers.adam_beta2) * gradient**2
    count = step + 1
    unbiased = velocity / (1.0 - jnp.power(mu, count))
    spread = jnp.sqrt(second / (1.0 - jnp.power(numbers.adam_beta2, count)))
    return OptimizerState(velocity, second), -rate * unbiased / (spread + numbers.adam_epsilon)
