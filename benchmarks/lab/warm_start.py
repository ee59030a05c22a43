"""A policy before reinforcement: supervised training to stated success rates."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.errors import SettingError
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import OptimizerState, optimizer_step
from benchmarks.lab.network import flat, fresh
from benchmarks.lab.rollout import Completions, read, score, write
from benchmarks.lab.settings import Lab
from benchmarks.lab.tasks import PAD, Task
from benchmarks.lab.training import TaskTables, network_from, tables_of

RATE = 3e-3
_BATCH = 64
_EVERY = 5
"""Updates between two looks at the success rate."""
_LOOKS = 160
"""Looks at most."""
MEASURED = 512
"""Completions of a look."""


class Ladder(NamedTuple):
    """Policies on the way of a supervised training.

    Attributes:
        parameters: Shape (looks, parameters).
        success: Share of right completions of training prompts, shape (looks,).
    """

    parameters: np.ndarray
    success: np.ndarray

    def at(self, success: float) -> np.ndarray:
        """Parameters of the first look with at least this success rate, shape (parameters,).

        Raises:
            SettingError: None of them reached it.
        """
        reached = np.flatnonzero(self.success >= success)
        if not len(reached):
            raise SettingError(
                f"warm start: expected a success rate of {success:g}, found {self.success.max():.2f} after "
                f"{_EVERY * len(self.success)} updates; ask for less, or take a larger network"
            )
        return self.parameters[reached[0]]


def warm_start(lab: Lab, task: Task, seed: int, clumsy: float = 0.0) -> Ladder:
    """Trains a fresh network on answers by maximum likelihood.

    Args:
        lab: Network and limit.
        task: Prompts and answers.
        seed: Seed of weights, batches and looks.
        clumsy: Share of the answers that are followed by more tokens, so that the policy explores what comes after.

    Returns:
        The policies on the way.
    """
    with jax.enable_x64(False):
        found = _climb(lab, task.vocabulary, tables_of(task), jnp.asarray(seed), jnp.float32(clumsy))
        return Ladder(*(np.asarray(x) for x in found))


@partial(jax.jit, static_argnums=(0, 1))
def _climb(lab: Lab, vocabulary: int, tables: TaskTables, seed: Array, clumsy: Array) -> tuple[Array, Array]:
    weight_key, key = jax.random.split(jax.random.key(seed))
    _, made = network_from(lab, vocabulary)
    theta = flat(fresh(lab.network, vocabulary, weight_key))
    structure, numbers = Structure(optimizer="adam"), Numbers(learning_rate=RATE, momentum=0.9)
    size = tables.train_answer.shape[1]

    def texts(key: Array) -> Completions:
        which, more, symbol = jax.random.split(key, 3)
        chosen = jax.random.randint(which, (_BATCH,), 0, len(tables.train))
        answer = jnp.pad(tables.train_answer[chosen], ((0, 0), (0, lab.limit - size)))
        noise = jax.random.randint(symbol, answer.shape, 2, vocabulary)
        ramble = jax.random.uniform(more, (_BATCH, 1)) < clumsy
        ended = jnp.cumsum(answer == 1, axis=1) > 0
        answer = jnp.where(ramble & ended, noise, answer)
        return Completions(jnp.concatenate([tables.train[chosen], answer], axis=1), answer != PAD)

    def update(carry: Any, t: Array) -> tuple[Any, None]:
        theta, state = carry
        batch = texts(jax.random.fold_in(key, t))

        def loss(x: Array) -> Array:
            return -jnp.sum(read(made(x), batch).log_probability) / jnp.sum(batch.written)

        state, change = optimizer_step(state, jax.grad(loss)(theta), jnp.asarray(RATE), t, structure, numbers)
        return (theta + change, state), None

    def look(carry: Any, i: Array) -> tuple[Any, tuple[Array, Array]]:
        theta = carry[0]
        which, tokens = jax.random.split(jax.random.fold_in(key, 1_000_000 + i))
        chosen = jax.random.randint(which, (MEASURED,), 0, len(tables.train))
        written = write(made(theta), tables.train[chosen], lab.limit, tokens)
        success = score(written, tables.train_answer[chosen]).right.mean()
        carry, _ = jax.lax.scan(update, carry, i * _EVERY + jnp.arange(_EVERY))
        return carry, (theta, success)

    zero = jnp.zeros_like(theta)
    return jax.lax.scan(look, (theta, OptimizerState(zero, zero)), jnp.arange(_LOOKS))[1]
