"""Completions: sampled from a policy, read again for their log-probabilities, and scored."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from benchmarks.lab.network import Transformer, logits, remember, step
from benchmarks.lab.tasks import END, PAD


class Completions(NamedTuple):
    """Texts that a policy wrote, n of them.

    Attributes:
        text: Prompt and completion, padded after `END`, shape (n, P + L).
        written: Whether a token of the completion belongs to it, its `END` included, shape (n, L).
    """

    text: Array
    written: Array


class Scores(NamedTuple):
    """What can be rewarded in a completion; shape (n,) each.

    Attributes:
        right: 1 where it is the answer and nothing else: the gold reward.
        anywhere: 1 where the answer occurs anywhere in it: what a careless verifier looks for.
        partial: Share of the answer's tokens, its end included, that stand in their places.
        ended: 1 where it ends within the limit.
        length: Its tokens over the limit.
    """

    right: Array
    anywhere: Array
    partial: Array
    ended: Array
    length: Array


class PolicyReading(NamedTuple):
    """How a policy sees completions; shape (n, L) each.

    Attributes:
        log_probability: Of every written token.
        entropy: Of the policy before every token, nats.
    """

    log_probability: Array
    entropy: Array


def write(network: Transformer, prompts: Array, limit: int, key: Array, temperature: Any = 1.0) -> Completions:
    """Samples a completion of every prompt.

    Args:
        network: The policy.
        prompts: Shape (n, P).
        limit: Tokens of a completion, L at most.
        key: Random key.
        temperature: Of the sampling; towards 0 the likeliest token is taken.

    Returns:
        The completions.
    """
    n, given = prompts.shape
    first, memory = jax.vmap(lambda x: remember(network, x, given + limit))(prompts)

    def write_one(carry: Any, at: Any) -> tuple[Any, tuple[Array, Array]]:
        score, memory, open_ = carry
        position, key = at
        drawn = jax.random.categorical(key, score / temperature, axis=-1)
        token = jnp.where(open_, drawn, PAD)
        score, memory = jax.vmap(step, in_axes=(None, 0, 0, None))(network, memory, token, position)
        return (score, memory, open_ & (token != END)), (token, open_)

    at = (given + jnp.arange(limit), jax.random.split(key, limit))
    _, (tokens, written) = lax.scan(write_one, (first, memory, jnp.ones(n, bool)), at)
    return Completions(jnp.concatenate([prompts, tokens.T], axis=1), written.T)


def read(network: Transformer, completions: Completions, temperature: Any = 1.0) -> PolicyReading:
    """Log-probabilities of completions under a policy, and its entropy at their tokens.

    Args:
        network: The policy.
        completions: The texts.
        temperature: As in `write`.

    Returns:
        What the policy says of every token of the completions; 0 where none was written.
    """
    limit = completions.written.shape[1]
    given = completions.text.shape[1] - limit
    score = jax.vmap(logits, in_axes=(None, 0))(network, completions.text[:, :-1])[:, given - 1 :] / temperature
    log_probability = jax.nn.log_softmax(score, axis=-1)
    chosen = jnp.take_along_axis(log_probability, completions.text[:, given:, None], axis=-1)[..., 0]
    entropy = -jnp.sum(jnp.exp(log_probability) * log_probability, axis=-1)
    return PolicyReading(jnp.where(completions.written, chosen, 0.0), jnp.where(completions.written, entropy, 0.0))


def score(completions: Completions, answers: Array) -> Scores:
    """What can be rewarded.

    Args:
        completions: The texts.
        answers: Answers, ended by `END` and padded, shape (n, A) with A no longer than the limit.

    Returns:
        The scores.
    """
    limit, size = completions.written.shape[1], answers.shape[1]
    tokens = completions.text[:, -limit:]
    asked = answers != PAD
    in_place = (tokens[:, :size] == answers) & asked
    symbols = asked & (answers != END)
    # A short answer may begin later than the longest one could: padding, which is no symbol, stands behind the limit.
    beyond = jnp.pad(tokens, ((0, 0), (0, size)), constant_values=PAD)
    windows = jnp.stack([beyond[:, i : i + size - 1] for i in range(limit)], axis=1)
    found = jnp.all((windows == answers[:, None, :-1]) | ~symbols[:, None, :-1], axis=-1)
    ended = jnp.any(tokens == END, axis=1)
    return Scores(
        right=jnp.all(in_place | ~asked, axis=1).astype(float),
        anywhere=jnp.any(found, axis=1).astype(float),
        partial=in_place.sum(axis=1) / asked.sum(axis=1),
        ended=ended.astype(float),
        length=completions.written.mean(axis=1),
    )
