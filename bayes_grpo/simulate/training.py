"""Training loops: real GRPO updates as one compiled scan over steps, batched over runs."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from bayes_grpo.simulate.objective import expected_batch, grpo_loss, log_policy, mean_reward, sampled_batch
from bayes_grpo.simulate.policies import Environment, PromptSet
from bayes_grpo.simulate.settings import Numbers, Structure


class Trajectory(NamedTuple):
    """Everything one training run shows and hides, over T steps and E evaluations.

    A batch adds a leading axis of runs. Row ``t`` describes the rollouts and the gradient of update ``t`` and
    is logged at optimizer step ``t + 1``; true rewards and parameters are those *before* that update.

    Attributes:
        reward: Mean sampled training reward, shape (T,).
        reward_std: Standard deviation of all rewards of the step, shape (T,).
        frac_reward_zero_std: Share of zero-variance groups, shape (T,).
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
        eval_reward: Sampled mean gold reward on the evaluation prompts, one completion a prompt, shape (E,).
        true_eval_reward: Its expectation, shape (E,).
        final_parameters: θ after the last update, shape (parameters,).
        final_second_moment: Adam's second moment after the last update, shape (parameters,).
    """

    reward: Any
    reward_std: Any
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


class OptimizerState(NamedTuple):
    """First and second moment of the gradient, each of shape (parameters,)."""

    velocity: jax.Array
    second_moment: jax.Array


def learning_rate(step: jax.Array, structure: Structure, numbers: Numbers) -> jax.Array:
    """Learning rate of update ``step`` (0-based): linear warm-up, then the schedule's decay to zero."""
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
    """One step of descent by the gradient of a loss: the moments after it, and the change of the parameters."""
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
    """
    n_runs = max(np.size(seeds), *map(np.size, numbers))
    if np.ndim(environment.initial_parameters) == 2:
        n_runs = len(environment.initial_parameters)
    seeds, data = (np.broadcast_to(x, (n_runs,)) for x in (seeds, seeds if data_seeds is None else data_seeds))
    memory = int(np.max(numbers.refresh_interval)) + 1 if structure.refresh == "delay" else 1
    with jax.enable_x64(double):
        dtype = np.float64 if double else np.float32
        whole = ("refresh_interval", "warmup_steps")
        typed = Numbers(*(jnp.asarray(v, np.int32 if k in whole else dtype) for k, v in numbers._asdict().items()))
        place = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), environment)
        trajectory = _simulate(structure, memory, typed, place, jnp.asarray(seeds), jnp.asarray(data))
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
    """One run: a scan over optimizer steps, then the evaluations."""
    prompts = environment.train
    start = environment.initial_parameters
    step_key, eval_key = jax.random.split(jax.random.key(seed))
    data_key, _ = jax.random.split(jax.random.key(data_seed))

    def update(state: _State, step: jax.Array) -> tuple[_State, dict[str, jax.Array]]:
        theta = state.parameters
        # Each step draws fresh completions, as slices of one large generation batch would be.
        if structure.refresh == "hold":
            sampling = jnp.where(step % numbers.refresh_interval == 0, theta, state.past[0])
            past = sampling[None]
        else:
            past = state.past.at[step % memory].set(theta)
            sampling = past[(step - numbers.refresh_interval) % memory]
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


def _evaluate(key: jax.Array, held_out: PromptSet, after: jax.Array, structure: Structure) -> dict[str, jax.Array]:
    """Evaluation gold reward after every ``eval_every`` updates: exact, and with one completion a prompt."""
    every = structure.eval_every or structure.n_steps + 1
    policies = after[every - 1 :: every]
    probability = jax.vmap(lambda theta: jnp.exp(log_policy(held_out, theta)))(policies)
    right = jnp.sum(probability * held_out.gold_probability, axis=-1)
    u = jax.random.uniform(key, right.shape, dtype=right.dtype)
    return {
        "eval_step": every * jnp.arange(1, policies.shape[0] + 1),
        "eval_reward": jnp.mean(u < right, axis=-1, dtype=right.dtype),
        "true_eval_reward": jnp.mean(right, axis=-1),
    }
