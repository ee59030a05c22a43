"""Training loops: real GRPO updates as one compiled scan over steps, batched over runs."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.common.errors import SettingError
from bayes_grpo.simulate.objective import (
    expected_batch,
    grpo_loss,
    log_policy,
    mean_reward,
    sampled_batch,
)
from bayes_grpo.simulate.optimizers import OptimizerState, learning_rate, optimizer_step
from bayes_grpo.simulate.policies import Environment, PromptSet
from bayes_grpo.simulate.settings import Numbers, Structure, check_numbers


class Trajectory(NamedTuple):
    """Everything one training run shows and hides, over T steps and E evaluations.

    A batch adds a leading axis of runs. Row ``t`` describes the rollouts and the gradient of update ``t`` and
    is logged at optimizer step ``t + 1``; true rewards and parameters are those *before* that update.

    Attributes:
        reward: Mean sampled training reward, shape (T,).
        reward_std: Standard deviation of all rewards of the step, shape (T,).
        reward_std_within: Mean within-group standard deviation, shape (T,).
        frac_reward_zero_std: Share of groups without spread, shape (T,).
        entropy: Nats, shape (T,).
        kl: Exact KL(policy ‖ reference), nats, shape (T,).
        clip_ratio: Share of completions whose ratio is clipped, shape (T,).
        grad_norm: Euclidean norm of the gradient, shape (T,).
        learning_rate: Of this update, shape (T,).
        loss: Surrogate loss with penalties, shape (T,).
        true_reward: Exact mean training reward of the current policy on all training prompts, shape (T,).
        gold_reward: Exact mean gold reward on all training prompts, shape (T,).
        parameters: θ before the update, shape (T, parameters).
        eval_step: Optimizer steps of the evaluations, shape (E,).
        eval_reward: Sampled mean gold reward on the held-out prompts, one completion a prompt, shape (E,).
        true_eval_reward: Its expectation, shape (E,).
        final_parameters: θ after the last update, shape (parameters,).
        final_second_moment: Adam's second moment after the last update, shape (parameters,).
    """

    reward: Any
    reward_std: Any
    reward_std_within: Any
    frac_reward_zero_std: Any
    entropy: Any
    kl: Any
    clip_ratio: Any
    grad_norm: Any
    learning_rate: Any
    loss: Any
    true_reward: Any
    gold_reward: Any
    parameters: Any
    eval_step: Any
    eval_reward: Any
    true_eval_reward: Any
    final_parameters: Any
    final_second_moment: Any


class _State(NamedTuple):
    parameters: jax.Array
    optimizer: OptimizerState
    past: jax.Array  # sampling policies: (1, parameters) for hold, a ring of the last ones for delay


def simulate(
    structure: Structure,
    numbers: Numbers,
    environment: Environment,
    seeds: ArrayLike,
    *,
    data_seeds: ArrayLike | None = None,
    double: bool = False,
) -> Trajectory:
    """Trains a batch of policies with GRPO.

    Args:
        structure: Static settings, shared by the batch.
        numbers: Numeric settings, each a scalar or of shape (n_runs,).
        environment: Prompts and start, shared, or with a leading axis of n_runs on every leaf.
        seeds: Integer seeds, shape (n_runs,). The same seed and settings give the same run.
        data_seeds: Seeds of the order of prompts, shape (n_runs,): runs of one of them see the same prompts at the same
            steps, as runs of a trainer with one data seed do. None for ``seeds``.
        double: Compute in float64 (thresholds and fixed points need it).

    Returns:
        NumPy arrays with a leading axis of runs.

    Raises:
        SettingError: A setting is out of range or the batch sizes differ.
    """
    checked = check_numbers(numbers)
    seed_array = np.atleast_1d(np.asarray(seeds))
    n_runs = _batch_size(seed_array, checked, environment)
    if seed_array.shape[0] != n_runs:
        seed_array = np.broadcast_to(seed_array, (n_runs,))
    data = seed_array if data_seeds is None else np.atleast_1d(np.asarray(data_seeds))
    if data.shape not in ((1,), (n_runs,)):
        raise SettingError(f"data_seeds: expected one or {n_runs}, one a run, found an array of shape {data.shape}")
    data = np.broadcast_to(data, (n_runs,))
    memory = int(np.max(checked.refresh_interval)) + 1 if structure.refresh == "delay" else 1
    with jax.enable_x64(double):
        dtype = np.float64 if double else np.float32
        cast = partial(jax.tree.map, lambda x: _cast(x, dtype))
        trajectory = _simulate(
            structure, memory, cast(checked), cast(environment), jnp.asarray(seed_array), jnp.asarray(data)
        )
        return jax.tree.map(np.asarray, jax.device_get(trajectory))


@partial(jax.jit, static_argnums=(0, 1))
def _simulate(
    structure: Structure,
    memory: int,
    numbers: Numbers,
    environment: Environment,
    seeds: jax.Array,
    data_seeds: jax.Array,
) -> Trajectory:
    batched = environment.initial_parameters.ndim == 2
    axes = (Numbers(*(0 if value.ndim else None for value in numbers)), 0 if batched else None, 0, 0)
    return jax.vmap(partial(_train, structure, memory), in_axes=axes)(numbers, environment, seeds, data_seeds)


def _train(
    structure: Structure,
    memory: int,
    numbers: Numbers,
    environment: Environment,
    seed: jax.Array,
    data_seed: jax.Array,
) -> Trajectory:
    """One run: a scan over optimizer steps, then the held-out evaluations."""
    prompts = environment.train
    start = environment.initial_parameters
    step_key, eval_key = jax.random.split(jax.random.key(seed))
    data_key, _ = jax.random.split(jax.random.key(data_seed))

    def update(state: _State, step: jax.Array) -> tuple[_State, dict[str, jax.Array]]:
        theta = state.parameters
        past, sampling = _sampling_policy(state.past, theta, step, structure, memory, numbers)
        log_sampling = log_policy(prompts, sampling)
        if structure.update == "sampled":
            data, own = (jax.random.fold_in(key, step) for key in (data_key, step_key))
            mass, rewards = sampled_batch(data, own, prompts, log_sampling, structure, numbers)
        else:
            mass, rewards = expected_batch(prompts, log_sampling, structure, numbers)
        # At lag exposure 1 the gradient is taken where the batch was drawn: ratios are 1, nothing is clipped.
        # For a log-linear policy this *is* reuse without importance ratios, because advantages sum to zero.
        at = theta + numbers.lag_exposure * (sampling - theta)
        (loss, metrics), gradient = jax.value_and_grad(grpo_loss, has_aux=True)(
            at, log_sampling, mass, prompts, numbers
        )
        rate = learning_rate(step, structure, numbers)
        optimizer, change = optimizer_step(state.optimizer, gradient, rate, step, structure, numbers)
        row = rewards._asdict() | metrics
        row |= {
            "grad_norm": jnp.sqrt(jnp.sum(gradient**2)),
            "learning_rate": rate,
            "loss": loss,
            "true_reward": mean_reward(prompts, theta),
            "gold_reward": mean_reward(prompts, theta, gold=True),
            "parameters": theta,
        }
        return _State(theta + change, optimizer, past), row

    zero = jnp.zeros_like(start)
    first = _State(start, OptimizerState(zero, zero), jnp.broadcast_to(start, (memory, *start.shape)))
    last, rows = jax.lax.scan(update, first, jnp.arange(structure.n_steps))
    after = jnp.concatenate([rows["parameters"][1:], last.parameters[None]])
    return Trajectory(
        **rows,
        **_evaluate(eval_key, environment.held_out, after, structure),
        final_parameters=last.parameters,
        final_second_moment=last.optimizer.second_moment,
    )


def _sampling_policy(
    past: jax.Array,
    theta: jax.Array,
    step: jax.Array,
    structure: Structure,
    memory: int,
    numbers: Numbers,
) -> tuple[jax.Array, jax.Array]:
    """The policy that draws this step's completions, and the policies to remember.

    Each step draws fresh completions, as slices of one large generation batch would be.
    """
    interval = numbers.refresh_interval
    if structure.refresh == "hold":
        sampling = jnp.where(step % interval == 0, theta, past[0])
        return sampling[None], sampling
    past = past.at[step % memory].set(theta)
    return past, past[(step - interval) % memory]


def _evaluate(key: jax.Array, held_out: PromptSet, after: jax.Array, structure: Structure) -> dict[str, jax.Array]:
    """Held-out gold reward after every ``eval_every`` updates: exact, and with one completion a prompt."""
    every = structure.eval_every or structure.n_steps + 1
    policies = after[every - 1 :: every]
    if policies.shape[0] == 0:
        empty = jnp.zeros(0, after.dtype)
        return {"eval_step": jnp.zeros(0, jnp.int32), "eval_reward": empty, "true_eval_reward": empty}
    probability = jax.vmap(lambda theta: jnp.exp(log_policy(held_out, theta)))(policies)
    right = jnp.sum(probability * held_out.gold_probability, axis=-1)
    u = jax.random.uniform(key, right.shape, dtype=right.dtype)
    return {
        "eval_step": every * jnp.arange(1, policies.shape[0] + 1),
        "eval_reward": jnp.mean(u < right, axis=-1, dtype=right.dtype),
        "true_eval_reward": jnp.mean(right, axis=-1),
    }


def _batch_size(seeds: np.ndarray, numbers: Numbers, environment: Environment) -> int:
    """Common number of runs of seeds, settings and environment.

    Raises:
        SettingError: Two of them differ.
    """
    sizes = {"seeds": seeds.shape[0]}
    sizes |= {name: len(value) for name, value in numbers._asdict().items() if np.ndim(value)}
    if np.ndim(environment.initial_parameters) == 2:
        sizes["environment"] = np.shape(environment.initial_parameters)[0]
    n_runs = max(sizes.values())
    wrong = {name: n for name, n in sizes.items() if n not in ((1, n_runs) if name == "seeds" else (n_runs,))}
    if wrong or seeds.ndim != 1:
        raise SettingError(f"simulate: expected one number of runs, found {sizes}")
    return n_runs


def _cast(value: np.ndarray, dtype: type) -> jax.Array:
    array = np.asarray(value)
    return jnp.asarray(array, dtype if np.issubdtype(array.dtype, np.floating) else array.dtype)
