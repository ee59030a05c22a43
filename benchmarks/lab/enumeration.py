"""Every completion of every prompt: the GRPO update of a network without sampling, and with.

Where completions are so short that all of them can be listed, a batch is a table over (prompt, completion): how
often a completion stands in it and with what advantages. Filled with probabilities the table gives the exact mean of
the update, filled with draws the update of a sampled batch, and the loss that reads it is `grpo_loss` itself. The
cost is that of reading all beginnings once, however many completions are drawn.

The loss must be linear in completions, so it is the sum over tokens divided by the longest length (``"constant"``): a
mean over the batch's tokens divides by a random number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.errors import SettingError
from benchmarks.lab.loss import Weights, group_statistics, grpo_loss
from benchmarks.lab.network import Transformer, remember, step
from benchmarks.lab.rollout import Completions, PolicyReading, score
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.tasks import END, PAD, Task
from benchmarks.lab.training import scored_reward

MOST_COMPLETIONS = 100_000
"""Completions of a prompt beyond which listing them is refused."""


@dataclass(frozen=True, eq=False)
class Listing:
    """All completions of a task's training prompts; N prompts, C completions each, L tokens at most.

    Attributes:
        lab: Static settings.
        vocabulary: Number of tokens.
        prompts: Shape (N, P).
        tokens: Shape (C, L), padded after `END`.
        written: Which tokens count, shape (C, L).
        reward: Of each completion of each prompt, shape (N, C).
    """

    lab: Lab
    vocabulary: int
    prompts: np.ndarray
    tokens: np.ndarray
    written: np.ndarray
    reward: np.ndarray


class Batch(NamedTuple):
    """A batch as tables over (prompt, completion), shape (N, C) each.

    Attributes:
        gain: Sum of positive advantages over the number of completions.
        loss: Sum of negative advantages over the number of completions.
        share: Share of the completions.
    """

    gain: Array
    loss: Array
    share: Array


def list_completions(lab: Lab, task: Task, numbers: LabNumbers) -> Listing:
    """Lists all completions and their rewards.

    Args:
        lab: Static settings; its loss must be "constant".
        task: Prompts and answers.
        numbers: Weights of the rewards.

    Returns:
        The listing.

    Raises:
        SettingError: Another loss, too many completions, or finite groups with a normalised advantage in expectation.
    """
    if lab.loss != "constant":
        raise SettingError(f"loss: only a sum over tokens has a mean over completions, found {lab.loss!r}")
    if task.vocabulary**lab.limit > MOST_COMPLETIONS:
        raise SettingError(
            f"limit: {task.vocabulary} tokens allow {task.vocabulary}^{lab.limit} completions; expected at most "
            f"{MOST_COMPLETIONS}, take a smaller task or a lower limit"
        )
    if lab.structure.update == "expected" and lab.structure.advantage != "mean":
        raise SettingError("update: normalised advantages have an exact mean for infinite groups alone")
    every = np.indices((task.vocabulary,) * lab.limit).reshape(lab.limit, -1).T
    over = np.cumsum(every == END, axis=1) - (every == END) > 0
    tokens = every[~np.any(over & (every != PAD), axis=1)].astype(np.int32)
    written = np.cumsum(tokens == END, axis=1) - (tokens == END) == 0
    n, c = len(task.train), len(tokens)
    text = np.hstack([np.repeat(task.train, c, axis=0), np.tile(tokens, (n, 1))])
    scores = score(Completions(jnp.asarray(text), jnp.tile(written, (n, 1))), np.repeat(task.train_answer, c, axis=0))  # pyright: ignore[reportArgumentType]
    reward = np.asarray(scored_reward(scores, numbers), float).reshape(n, c)
    return Listing(lab, task.vocabulary, np.asarray(task.train), tokens, written, reward)


def all_logits(network: Transformer, listing: Listing) -> tuple[Array, ...]:
    """Logits after every beginning.

    Args:
        network: The policy.
        listing: All completions.

    Returns:
        One array for each length i < L of the beginning, shape (N, V^i, V); a beginning is a number in base V.
    """
    given, vocabulary = listing.prompts.shape[1], listing.vocabulary
    size = given + listing.lab.limit
    logits, memory = jax.vmap(lambda x: remember(network, x, size))(jnp.asarray(listing.prompts))
    found, memory = [logits[:, None]], jax.tree.map(lambda x: x[:, None], memory)
    for i in range(1, listing.lab.limit):
        wide = jax.tree.map(lambda x: jnp.repeat(x, vocabulary, axis=1), memory)
        following = jnp.tile(jnp.arange(vocabulary), found[-1].shape[1])
        place = jnp.asarray(given + i - 1)
        one = jax.vmap(lambda held, token, place=place: step(network, held, token, place))
        logits, memory = jax.vmap(one, in_axes=(0, None))(wide, following)
        found.append(logits)
    return tuple(found)


def enumerated_reading(logits: tuple[Array, ...], listing: Listing, temperature: Any = 1.0) -> PolicyReading:
    """How the policy with these logits (`all_logits`) sees all completions, shape (N, C, L) each."""
    begun, parts = np.zeros(len(listing.tokens), np.int32), []
    for i, level in enumerate(logits):
        scores = jax.nn.log_softmax(level / temperature, axis=-1)
        entropy = -jnp.sum(jnp.exp(scores) * scores, axis=-1)
        token, counts = listing.tokens[:, i], jnp.asarray(listing.written[:, i])
        parts.append([jnp.where(counts, x, 0.0) for x in (scores[:, begun, token], entropy[:, begun])])
        begun = begun * listing.vocabulary + token
    return PolicyReading(*(jnp.stack(x, axis=-1) for x in zip(*parts, strict=True)))


def read_all(network: Transformer, listing: Listing, temperature: Any = 1.0) -> PolicyReading:
    """How a policy sees all completions, shape (N, C, L) each."""
    return enumerated_reading(all_logits(network, listing), listing, temperature)


def log_share(reading: PolicyReading) -> Array:
    """Log-probability of every completion of every prompt, shape (N, C)."""
    return reading.log_probability.sum(axis=-1)


def enumerated_reward(reading: PolicyReading, listing: Listing) -> Array:
    """Exact mean reward of a policy over the training prompts."""
    probability = jnp.exp(log_share(reading))
    return jnp.sum(probability * jnp.asarray(listing.reward, probability.dtype), axis=1).mean()


def mean_batch(sampling: PolicyReading, listing: Listing) -> Batch:
    """The mean of all batches that a policy may write.

    Args:
        sampling: The policy that writes.
        listing: All completions. Its structure's update "infinite_group" is the limit of large groups, "expected" and
            "sampled" the mean over groups of G, which shortens a centred advantage by 1 − 1/G.

    Returns:
        The batch.
    """
    structure = listing.lab.structure
    probability = jnp.exp(log_share(sampling))
    reward = jnp.asarray(listing.reward, probability.dtype)
    away = reward - jnp.sum(probability * reward, axis=1, keepdims=True)
    if structure.advantage == "std":
        spread = jnp.sum(probability * away**2, axis=1, keepdims=True)
        away = away / jnp.sqrt(jnp.maximum(spread, jnp.finfo(away.dtype).tiny))
    elif structure.update != "infinite_group":
        away = away * (1.0 - 1.0 / structure.group_size)
    share = probability / len(listing.prompts)
    return Batch(share * jnp.maximum(away, 0.0), share * jnp.minimum(away, 0.0), share)


def drawn_batch(
    key: Array, sampling: PolicyReading, listing: Listing, numbers: LabNumbers
) -> tuple[Batch, Array, Array]:
    """A batch of B prompts and G completions each.

    Args:
        key: Random key.
        sampling: The policy that writes.
        listing: All completions.
        numbers: For what is added to a group's standard deviation.

    Returns:
        The batch, its mean reward and the share of groups without spread.
    """
    structure = listing.lab.structure
    prompt_key, token_key = jax.random.split(key)
    chosen = jax.random.randint(prompt_key, (structure.prompts_per_step,), 0, len(listing.prompts))
    chosen = jnp.repeat(chosen, structure.group_size)
    drawn = jax.random.categorical(token_key, log_share(sampling)[chosen], axis=-1)
    reward = jnp.asarray(listing.reward, sampling.log_probability.dtype)[chosen, drawn]
    groups = group_statistics(
        reward, structure.group_size, structure.advantage == "std", numbers.base.advantage_epsilon
    )
    zero = jnp.zeros(listing.reward.shape, reward.dtype)
    parts = (jnp.maximum(groups.advantage, 0.0), jnp.minimum(groups.advantage, 0.0), jnp.ones_like(reward))
    tables = (zero.at[chosen, drawn].add(x / len(chosen)) for x in parts)
    return Batch(*tables), groups.reward, groups.frac_reward_zero_std


def batch_loss(
    now: PolicyReading,
    before: PolicyReading,
    reference: PolicyReading,
    batch: Batch,
    listing: Listing,
    numbers: LabNumbers,
) -> Array:
    """`grpo_loss` of a batch of tables.

    Args:
        now: All completions under the policy that is trained.
        before: Under the policy that wrote them.
        reference: Under the reference.
        batch: The batch.
        listing: All completions.
        numbers: Clip ranges and penalties, scalars.

    Returns:
        The loss.
    """
    base = numbers.base
    push = Weights(base.clip_low, base.clip_high, 0.0, 0.0)
    rest = Weights(base.clip_low, base.clip_high, base.kl_weight, 0.0)

    def of(advantage: Any, weights: Weights) -> Array:
        """Loss of each completion as a batch of its own."""

        def one(log_probability: Array, entropy: Array, old: Array, far: Array, a: Array, written: Array) -> Array:
            alone = PolicyReading(log_probability[None], entropy[None])
            return grpo_loss(alone, old[None], far[None], a[None], written[None], weights, "constant")[0]

        each = jax.vmap(jax.vmap(one), in_axes=(0, 0, 0, 0, 0, None))
        logs = (before.log_probability, reference.log_probability)
        return each(now.log_probability, now.entropy, *logs, advantage, jnp.asarray(listing.written))

    # A clipped push is proportional to the advantage on either side of zero; penalties count completions.
    pushed = of(batch.gain, push) + of(batch.loss, push)
    penalised = jnp.sum(pushed + batch.share * of(jnp.zeros_like(batch.share), rest))
    # The entropy bonus is a mean over the tokens of the whole batch.
    tokens = jnp.sum(batch.share * jnp.asarray(listing.written).sum(axis=-1))
    return penalised - base.entropy_weight * jnp.sum(batch.share * now.entropy.sum(axis=-1)) / tokens
