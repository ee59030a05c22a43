"""GRPO on a transformer: one compiled program for a batch of whole runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from bayes_grpo.simulate.training import OptimizerState, learning_rate, optimizer_step
from benchmarks.lab.loss import Weights, group_statistics, grpo_loss
from benchmarks.lab.network import Transformer, unflattened
from benchmarks.lab.rollout import Completions, Scores, read, score, write
from benchmarks.lab.settings import REWARDS, Lab, LabNumbers, spread_numbers, written_at
from benchmarks.lab.tasks import Task


class DeepTrajectory(NamedTuple):
    """What one run shows and hides, over T steps and E evaluations; a batch adds a leading axis of runs.

    Row t describes the rollouts and the gradient of update t and is logged at optimizer step t + 1.

    Attributes:
        reward: Mean reward of the completions, shape (T,).
        reward_std: Standard deviation of all rewards of the step, shape (T,).
        reward_std_within: Mean within-group standard deviation, shape (T,).
        frac_reward_zero_std: Share of groups without spread, shape (T,).
        entropy: Mean over tokens, nats, shape (T,).
        kl: Estimate of KL(policy ‖ reference) a token, nats, shape (T,).
        clip_ratio: Share of tokens whose ratio is clipped, shape (T,).
        grad_norm: Euclidean norm of the gradient before it is shortened, shape (T,).
        learning_rate: Of this update, shape (T,).
        loss: Shape (T,).
        components: Mean of every `Scores` field, in the order of `REWARDS`, shape (T, 5). The first is the gold reward.
        mean_length: Tokens of a completion, shape (T,).
        eval_step: Optimizer steps of the evaluations, shape (E,).
        eval_reward: Mean gold reward on held-out prompts, shape (E,).
        eval_scored: Mean of the reward that is trained on, on the same completions, shape (E,).
        final_parameters: After the last update, shape (parameters,).
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
    components: Any
    mean_length: Any
    eval_step: Any
    eval_reward: Any
    eval_scored: Any
    final_parameters: Any


class TaskTables(NamedTuple):
    """A task's prompts and answers on the device."""

    train: Array
    train_answer: Array
    held_out: Array
    held_out_answer: Array


class Policies(NamedTuple):
    """Parameters of the policies that a gradient needs, shape (parameters,) each.

    Attributes:
        at: Where it is taken.
        sampling: What wrote the completions.
        reference: From which the KL penalty counts.
    """

    at: Array
    sampling: Array
    reference: Array


@dataclass(frozen=True)
class Program:
    """What a compiled run is fixed to.

    Attributes:
        lab: Static settings.
        vocabulary: Number of tokens.
        memory: Past policies that are kept.
    """

    lab: Lab
    vocabulary: int
    memory: int = 1

    def network(self, theta: Array) -> Transformer:
        """The policy with these parameters, shape (parameters,)."""
        return network_from(self.lab, self.vocabulary)[1](theta)


class _State(NamedTuple):
    parameters: Array
    optimizer: OptimizerState
    past: Array  # sampling policies: (1, parameters) for hold, a ring of the last ones for delay


def tables_of(task: Task) -> TaskTables:
    """A task's tables."""
    return TaskTables(*(jnp.asarray(x) for x in (task.train, task.train_answer, task.held_out, task.held_out_answer)))


def network_from(lab: Lab, vocabulary: int) -> tuple[int, Any]:
    """Number of parameters of a lab's network, and what makes a `Transformer` of a flat vector of them."""
    return unflattened(lab.network, vocabulary)


def train(
    lab: Lab, numbers: LabNumbers, task: Task, start: ArrayLike, seeds: ArrayLike, reference: ArrayLike | None = None
) -> DeepTrajectory:
    """Trains a batch of transformers with GRPO.

    Args:
        lab: Static settings, shared by the batch.
        numbers: Numeric settings, each a scalar or of shape (n_runs,).
        task: Prompts and answers, shared.
        start: Parameters at the start, shape (parameters,) or (n_runs, parameters).
        seeds: Integer seeds, shape (n_runs,).
        reference: Parameters of the reference policy; those of the start if None.

    Returns:
        NumPy arrays with a leading axis of runs.
    """
    seed_array = np.atleast_1d(np.asarray(seeds))
    n_runs = len(seed_array)
    checked = spread_numbers(numbers, n_runs)
    shape = (n_runs, network_from(lab, task.vocabulary)[0])
    begin = np.broadcast_to(np.asarray(start, np.float32), shape)
    kept = begin if reference is None else np.broadcast_to(np.asarray(reference, np.float32), shape)
    memory = int(np.max(checked.base.refresh_interval)) + 1 if lab.structure.refresh == "delay" else 1
    with jax.enable_x64(False):
        cast = jax.tree.map(
            lambda x: jnp.asarray(x, jnp.int32 if np.issubdtype(np.asarray(x).dtype, np.integer) else jnp.float32),
            checked,
        )
        policies = (jnp.asarray(begin), jnp.asarray(kept))
        program = Program(lab, task.vocabulary, memory)
        found = _run(program, cast, tables_of(task), policies, jnp.asarray(seed_array))
        return jax.tree.map(np.asarray, jax.device_get(found))


@partial(jax.jit, static_argnums=0)
def _run(program: Program, numbers: Any, tables: Any, policies: tuple[Array, Array], seeds: Any) -> DeepTrajectory:
    return jax.vmap(partial(_train, program), in_axes=(0, None, 0, 0))(numbers, tables, policies, seeds)


def _train(
    program: Program, numbers: LabNumbers, tables: TaskTables, policies: tuple[Array, Array], seed: Array
) -> DeepTrajectory:
    """One run: blocks of updates, each followed by an evaluation."""
    lab, structure, (start, reference) = program.lab, program.lab.structure, policies
    every = structure.eval_every or structure.n_steps
    rollout_key, eval_key = jax.random.split(jax.random.key(seed))

    def update(state: _State, t: Array) -> tuple[_State, dict[str, Array]]:
        past, sampling, batch = _sampling_policy(program, state.past, state.parameters, t, numbers)
        key = jax.random.fold_in(rollout_key, batch)
        chosen = prompts_of(lab, len(tables.train), rollout_key, key, batch)
        written = written_at(structure.refresh, numbers.base.refresh_interval, t)
        completions, scores, reward = rollout(lab, program.network(sampling), numbers, tables, chosen, key, written)
        groups = group_statistics(
            reward, structure.group_size, structure.advantage == "std", numbers.base.advantage_epsilon
        )
        # At lag exposure 1 the gradient is taken where the completions were written, as asynchronous gradients are.
        at = state.parameters + numbers.base.lag_exposure * (sampling - state.parameters)
        three = Policies(at, sampling, reference)
        loss, metrics, gradient = step_gradient(program, three, completions, groups.advantage, numbers)
        norm = jnp.sqrt(jnp.sum(gradient**2))
        shortened = gradient * jnp.minimum(1.0, numbers.max_grad_norm / (norm + 1e-6))
        rate = learning_rate(t, structure, numbers.base)
        optimizer, change = optimizer_step(state.optimizer, shortened, rate, t, structure, numbers.base)
        row = {k: v for k, v in groups._asdict().items() if k != "advantage"} | metrics
        row |= {"grad_norm": norm, "learning_rate": rate, "loss": loss}
        row["components"] = jnp.stack([x.mean() for x in scores])
        row["mean_length"] = completions.written.sum(axis=1).mean()
        return _State(state.parameters + change, optimizer, past), row

    def block(state: _State, i: Array) -> tuple[_State, tuple[dict[str, Array], tuple[Array, Array]]]:
        state, rows = jax.lax.scan(update, state, i * every + jnp.arange(every))
        return state, (
            rows,
            evaluate(lab, program.network(state.parameters), tables, numbers, jax.random.fold_in(eval_key, i)),
        )

    zero = jnp.zeros_like(start)
    first = _State(start, OptimizerState(zero, zero), jnp.broadcast_to(start, (program.memory, *start.shape)))
    blocks = structure.n_steps // every
    last, (rows, (gold, scored)) = jax.lax.scan(block, first, jnp.arange(blocks))
    evaluated = blocks if structure.eval_every else 0
    return DeepTrajectory(
        **{k: v.reshape(structure.n_steps, *v.shape[2:]) for k, v in rows.items()},
        eval_step=every * jnp.arange(1, evaluated + 1),
        eval_reward=gold[:evaluated],
        eval_scored=scored[:evaluated],
        final_parameters=last.parameters,
    )


def rollout(
    lab: Lab, policy: Transformer, numbers: LabNumbers, tables: TaskTables, prompts: Array, key: Array, written: Any
) -> tuple[Completions, Scores, Array]:
    """Completions of a step, G of each of B prompts side by side, their scores and their reward, shape (B G,).

    ``written`` is the number of updates made before they are written, when the verifier works or does not.
    """
    token_key = jax.random.split(key)[1]
    chosen = jnp.repeat(prompts, lab.structure.group_size)
    completions = write(policy, tables.train[chosen], lab.limit, token_key, numbers.temperature)
    scores = score(completions, tables.train_answer[chosen])
    return completions, scores, jnp.where(written < numbers.broken_from, scored_reward(scores, numbers), 0.0)


def prompts_of(lab: Lab, many: int, run_key: Array, key: Array, batch: Array) -> Array:
    """Numbers of the prompts of a batch, shape (B,)."""
    size = lab.structure.prompts_per_step
    if lab.order == "drawn":
        return jax.random.randint(jax.random.split(key)[0], (size,), 0, many)
    steps = many // size
    # Keys of passes are counted down from the end, those of batches up from 0.
    order = jax.random.permutation(jax.random.fold_in(run_key, -1 - batch // steps), many)
    return jax.lax.dynamic_slice(order, (batch % steps * size,), (size,))


def scored_reward(scores: Scores, numbers: LabNumbers) -> Array:
    """The reward that is trained on, shape (n,)."""
    return jnp.sum(jnp.stack([getattr(numbers, name) * getattr(scores, name) for name in REWARDS]), axis=0)


def step_gradient(
    program: Program, policies: Policies, completions: Completions, advantage: Array, numbers: LabNumbers
) -> tuple[Array, dict[str, Array], Array]:
    """Loss, metrics and gradient of a step.

    Args:
        program: The network and the kind of loss.
        policies: Where the gradient is taken, what wrote the completions, and the reference.
        completions: The completions.
        advantage: Their advantages, shape (n,).
        numbers: Clip ranges, penalties and temperature, scalars.

    Returns:
        Loss, metrics of `grpo_loss` and gradient, shape (parameters,).
    """
    base = numbers.base
    weights = Weights(base.clip_low, base.clip_high, base.kl_weight, base.entropy_weight)
    network = program.network
    before = read(network(policies.sampling), completions, numbers.temperature).log_probability
    far = read(network(policies.reference), completions, numbers.temperature).log_probability

    def loss_at(theta: Array) -> tuple[Array, dict[str, Array]]:
        now = read(network(theta), completions, numbers.temperature)
        lab, written = program.lab, completions.written
        return grpo_loss(now, before, far, advantage, written, weights, lab.loss, kl_kind=lab.kl)

    (loss, metrics), gradient = jax.value_and_grad(loss_at, has_aux=True)(policies.at)
    return loss, metrics, gradient


def _sampling_policy(
    program: Program, past: Array, theta: Array, t: Array, numbers: LabNumbers
) -> tuple[Array, Array, Array]:
    """Policies to remember, the one that writes this step's completions, and the number of the batch that it writes.

    A rollout serves K_ref optimizer steps: ``epochs`` passes over K_ref / epochs batches. A batch that is trained on
    again is written again by the same policy with the same key, which is the same batch.
    """
    interval = numbers.base.refresh_interval
    if program.lab.structure.refresh == "hold":
        sampling = jnp.where(t % interval == 0, theta, past[0])
        batches = interval // numbers.epochs
        return sampling[None], sampling, (t // interval) * interval + (t % interval) % batches
    past = past.at[t % program.memory].set(theta)
    return past, past[(t - interval) % program.memory], t


def evaluate(lab: Lab, policy: Transformer, tables: TaskTables, numbers: LabNumbers, key: Array) -> tuple[Array, Array]:
    """Gold reward and trained reward on held-out prompts, one completion each."""
    prompt_key, token_key = jax.random.split(key)
    chosen = jax.random.randint(prompt_key, (lab.eval_prompts,), 0, len(tables.held_out))
    completions = write(policy, tables.held_out[chosen], lab.limit, token_key, numbers.temperature)
    scores = score(completions, tables.held_out_answer[chosen])
    return scores.right.mean(), scored_reward(scores, numbers).mean()
