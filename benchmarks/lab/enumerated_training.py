"""Runs whose every completion is listed: the exact mean update without noise, or sampled batches at its cost.

What is seen on the way is the latent reward, the exact mean of the parameters that a run has, which no trainer logs.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from bayes_grpo.simulate.training import OptimizerState, learning_rate, optimizer_step
from benchmarks.lab.enumeration import (
    Listing,
    batch_loss,
    drawn_batch,
    enumerated_reading,
    enumerated_reward,
    log_share,
    mean_batch,
    read_all,
)
from benchmarks.lab.network import Transformer
from benchmarks.lab.rollout import PolicyReading
from benchmarks.lab.settings import LabNumbers, spread_numbers
from benchmarks.lab.training import network_from


class EnumeratedPath(NamedTuple):
    """What runs show and hide, over T steps and T / every looks; a leading axis of runs.

    Attributes:
        reward: Mean reward of a step's batch, shape (runs, T); row t is logged at optimizer step t + 1.
        zero_share: Share of groups without spread, shape (runs, T).
        latent: Exact mean reward after the first ``every`` updates, after the next, …, shape (runs, looks).
        away: Distance of the policy from the centre's, root of the summed squares of the completions' probabilities and
            mean over prompts, shape (runs, looks).
        along: Way of the parameters from the centre, projected on the probes, shape (runs, looks, probes).
        squared_gradient: Mean square of every gradient's entry over the second half of the run, shape (runs,
            parameters).
        final_parameters: Shape (runs, parameters).
    """

    reward: Any
    zero_share: Any
    latent: Any
    away: Any
    along: Any
    squared_gradient: Any
    final_parameters: Any


class Places(NamedTuple):
    """Points of parameter space.

    Attributes:
        reference: Logits of the policy from which the KL penalty counts, as `all_logits` gives them.
        centre: From where distances are measured, shape (parameters,).
        probes: Directions, shape (probes, parameters).
    """

    reference: Any
    centre: ArrayLike
    probes: ArrayLike


class _State(NamedTuple):
    parameters: Array
    optimizer: OptimizerState
    past: Array
    squared: Array


def policy(listing: Listing, theta: Array) -> Transformer:
    """The network with these parameters."""
    return network_from(listing.lab, listing.vocabulary)[1](theta)


def stale_drift(listing: Listing, numbers: LabNumbers, reference: PolicyReading, at: Array, sampling: Array) -> Array:
    """Exact mean of the update's direction.

    Args:
        listing: All completions.
        numbers: Settings, scalars.
        reference: All completions under the reference.
        at: Parameters at which the gradient is taken.
        sampling: Parameters of the policy that writes.

    Returns:
        Minus the gradient of the loss, shape (parameters,).
    """
    before = read_all(policy(listing, sampling), listing, numbers.temperature)
    return -_gradient(listing, numbers, (before, reference), mean_batch(before, listing), at)


def drift(listing: Listing, numbers: LabNumbers, reference: PolicyReading, theta: Array) -> Array:
    """`stale_drift` where the policy that is trained writes."""
    return stale_drift(listing, numbers, reference, theta, theta)


def _gradient(
    listing: Listing, numbers: LabNumbers, readings: tuple[PolicyReading, PolicyReading], batch: Any, at: Array
) -> Array:
    def loss(theta: Array) -> Array:
        now = read_all(policy(listing, theta), listing, numbers.temperature)
        return batch_loss(now, *readings, batch, listing, numbers)

    return jax.grad(loss)(at)


def follow(
    listing: Listing,
    numbers: LabNumbers,
    start: ArrayLike,
    seeds: ArrayLike,
    places: Places,
    *,
    every: int = 1,
    double: bool = False,
) -> EnumeratedPath:
    """Trains a batch of networks with the listed update: each drawn anew, and no reward breaks on the way.

    Args:
        listing: All completions; its structure says whether batches are drawn or their mean is taken.
        numbers: Numeric settings, each a scalar or of shape (runs,).
        start: Parameters at the start, shape (parameters,) or (runs, parameters).
        seeds: Integer seeds, shape (runs,).
        places: Reference, centre and probes, shared.
        every: Steps between looks, a divisor of the steps.
        double: Compute in float64.

    Returns:
        NumPy arrays.
    """
    structure = listing.lab.structure
    seed_array = np.atleast_1d(np.asarray(seeds))
    checked = spread_numbers(numbers, len(seed_array))
    memory = int(np.max(checked.base.refresh_interval)) + 1 if structure.refresh == "delay" else 1
    kind = np.float64 if double else np.float32
    with jax.enable_x64(double):

        def cast(x: Any) -> Array:
            whole = np.issubdtype(np.asarray(x).dtype, np.integer)
            return jnp.asarray(x, np.int32 if whole else kind)

        begin = np.broadcast_to(np.asarray(start), (len(seed_array), np.shape(start)[-1]))
        fixed = jax.tree.map(lambda x: jnp.asarray(x, kind), places)
        scalars = jax.tree.map(cast, checked)
        found = _run(listing, memory, every, scalars, jnp.asarray(begin, kind), jnp.asarray(seed_array), fixed)
        return jax.tree.map(np.asarray, jax.device_get(found))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _run(
    listing: Listing, memory: int, every: int, numbers: Any, start: Array, seeds: Array, places: Places
) -> EnumeratedPath:
    return jax.vmap(partial(_train, listing, memory, every), in_axes=(0, 0, 0, None))(numbers, start, seeds, places)


def _train(
    listing: Listing,
    memory: int,
    every: int,
    numbers: LabNumbers,
    start: Array,
    seed: Array,
    places: Places,
) -> EnumeratedPath:
    """One run: blocks of updates, each followed by a look."""
    reference = enumerated_reading(places.reference, listing, numbers.temperature)
    centre = jnp.exp(log_share(read_all(policy(listing, jnp.asarray(places.centre)), listing, numbers.temperature)))
    structure, key = listing.lab.structure, jax.random.key(seed)
    half = structure.n_steps // 2

    def update(state: _State, t: Array) -> tuple[_State, tuple[Array, Array]]:
        past, sampling = _sampling_policy(structure.refresh, memory, state.past, state.parameters, t, numbers)
        before = read_all(policy(listing, sampling), listing, numbers.temperature)
        if structure.update == "sampled":
            batch, reward, zero = drawn_batch(jax.random.fold_in(key, t), before, listing, numbers)
        else:
            batch, reward, zero = mean_batch(before, listing), enumerated_reward(before, listing), jnp.zeros(())
        at = state.parameters + numbers.base.lag_exposure * (sampling - state.parameters)
        gradient = _gradient(listing, numbers, (before, reference), batch, at)
        rate = learning_rate(t, structure, numbers.base)
        optimizer, change = optimizer_step(state.optimizer, gradient, rate, t, structure, numbers.base)
        squared = state.squared + jnp.where(t >= half, gradient**2, 0.0) / (structure.n_steps - half)
        return _State(state.parameters + change, optimizer, past, squared), (reward, zero)

    def block(state: _State, i: Array) -> tuple[_State, Any]:
        state, rows = jax.lax.scan(update, state, i * every + jnp.arange(every))
        now = read_all(policy(listing, state.parameters), listing, numbers.temperature)
        away = jnp.sqrt(jnp.mean(jnp.sum((jnp.exp(log_share(now)) - centre) ** 2, axis=1)))
        along = jnp.asarray(places.probes) @ (state.parameters - jnp.asarray(places.centre))
        return state, (rows, (enumerated_reward(now, listing), away, along))

    zero = jnp.zeros_like(start)
    first = _State(start, OptimizerState(zero, zero), jnp.broadcast_to(start, (memory, *start.shape)), zero)
    last, (rows, looks) = jax.lax.scan(block, first, jnp.arange(structure.n_steps // every))
    reward, zero_share = (x.reshape(-1) for x in rows)
    latent, away, along = looks
    return EnumeratedPath(reward, zero_share, latent, away, along, last.squared, last.parameters)


def _sampling_policy(
    refresh: str, memory: int, past: Array, theta: Array, t: Array, numbers: LabNumbers
) -> tuple[Array, Array]:
    """Policies to remember and the one that writes: frozen between refreshes, or a fixed number of steps old."""
    interval = numbers.base.refresh_interval
    if refresh == "hold":
        sampling = jnp.where(t % interval == 0, theta, past[0])
        return sampling[None], sampling
    past = past.at[t % memory].set(theta)
    return past, past[(t - interval) % memory]
