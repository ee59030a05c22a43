"""A decoder-only transformer in Llama's form, small enough to train thousands of them.

Root-mean-square norms, rotary positions, gated linear units, no biases (Touvron et al. 2023,
https://doi.org/10.48550/arXiv.2302.13971), so that the same weights can be put into `transformers`' Llama and both
trained side by side. All functions take one text without a batch axis; callers `jax.vmap` them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

ROPE_BASE = 10_000.0
NORM_EPSILON = 1e-6
INITIAL_SD = 0.02
"""Standard deviation of fresh weights, as in `transformers`."""


@dataclass(frozen=True)
class Network:
    """Shape of a transformer.

    Attributes:
        layers: Blocks.
        width: Size of a token's vector.
        heads: Attention heads; each has ``width / heads`` numbers, an even number.
        hidden: Width of the gated unit.
    """

    layers: int = 2
    width: int = 64
    heads: int = 4
    hidden: int = 128


class Block(eqx.Module):
    """Attention and gated unit, each behind a norm and added to what was there."""

    attention_norm: eqx.nn.RMSNorm
    query: eqx.nn.Linear
    key: eqx.nn.Linear
    value: eqx.nn.Linear
    out: eqx.nn.Linear
    unit_norm: eqx.nn.RMSNorm
    gate: eqx.nn.Linear
    up: eqx.nn.Linear
    down: eqx.nn.Linear


class Transformer(eqx.Module):
    """The whole network; `logits` and `step` run it."""

    embedding: eqx.nn.Embedding
    blocks: tuple[Block, ...]
    norm: eqx.nn.RMSNorm
    head: eqx.nn.Linear
    heads: int = eqx.field(static=True)


class KeyValueCache(NamedTuple):
    """Keys and values of the tokens that were read.

    Attributes:
        keys: Shape (layers, heads, length, size).
        values: Shape (layers, heads, length, size).
    """

    keys: Array
    values: Array


def fresh(network: Network, vocabulary: int, key: Array) -> Transformer:
    """A transformer with random weights.

    Args:
        network: Its shape.
        vocabulary: Number of tokens.
        key: Random key.

    Returns:
        The network.
    """
    keys = iter(jax.random.split(key, 2 + 7 * network.layers))
    width, hidden = network.width, network.hidden

    def linear(inside: int, outside: int) -> eqx.nn.Linear:
        made = eqx.nn.Linear(inside, outside, use_bias=False, key=jax.random.key(0))
        weight = INITIAL_SD * jax.random.normal(next(keys), (outside, inside))
        return eqx.tree_at(lambda x: x.weight, made, weight)

    def norm() -> eqx.nn.RMSNorm:
        return eqx.nn.RMSNorm(width, eps=NORM_EPSILON, use_bias=False)

    def block() -> Block:
        attention = [linear(width, width) for _ in range(4)]
        return Block(norm(), *attention, norm(), linear(width, hidden), linear(width, hidden), linear(hidden, width))  # pyright: ignore[reportCallIssue]

    blocks = tuple(block() for _ in range(network.layers))
    table = INITIAL_SD * jax.random.normal(next(keys), (vocabulary, width))
    return Transformer(eqx.nn.Embedding(weight=table), blocks, norm(), linear(width, vocabulary), network.heads)


def flat(network: Transformer) -> Array:
    """All weights of a network side by side, shape (parameters,)."""
    return ravel_pytree(eqx.filter(network, eqx.is_array))[0]


def unflattened(network: Network, vocabulary: int) -> tuple[int, Callable[[Array], Transformer]]:
    """Number of weights of a network of this shape, and what makes it of them side by side."""
    like = eqx.filter_eval_shape(fresh, network, vocabulary, jax.random.key(0))
    zero = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype) if hasattr(x, "dtype") else x, like)
    weights, unravel = ravel_pytree(eqx.filter(zero, eqx.is_array))
    return weights.size, lambda theta: eqx.combine(unravel(theta), zero)


def logits(network: Transformer, tokens: Array) -> Array:
    """Logits of the token after each one.

    Args:
        network: The network.
        tokens: Shape (T,).

    Returns:
        Shape (T, vocabulary).
    """
    return _read(network, tokens)[0]


def remember(network: Transformer, tokens: Array, length: int) -> tuple[Array, KeyValueCache]:
    """Reads the beginning of a text.

    Args:
        network: The network.
        tokens: Shape (P,).
        length: Tokens that the memory will hold in all, at least P.

    Returns:
        Logits of the token after the last one, shape (vocabulary,), and the memory.
    """
    found, (keys, values) = _read(network, tokens)
    room = ((0, 0), (0, 0), (0, length - tokens.shape[0]), (0, 0))
    return found[-1], KeyValueCache(jnp.pad(keys, room), jnp.pad(values, room))


def step(network: Transformer, memory: KeyValueCache, token: Array, position: Array) -> tuple[Array, KeyValueCache]:
    """Reads one token more.

    Args:
        network: The network.
        memory: What was read.
        token: The token, a scalar.
        position: Its place in the text, a scalar.

    Returns:
        Logits of the token after it, shape (vocabulary,), and the memory with it.
    """
    x = network.embedding.weight[token]
    seen = jnp.arange(memory.keys.shape[2]) <= position
    keys, values = memory
    turn = rotation(position[None], x.shape[0] // network.heads)
    for i, block in enumerate(network.blocks):
        inside = block.attention_norm(x)
        query, key, value = (_split(f(inside)[None], network.heads) for f in (block.query, block.key, block.value))
        query, key = rotated(query, turn), rotated(key, turn)
        keys = keys.at[i, :, position].set(key[:, 0])
        values = values.at[i, :, position].set(value[:, 0])
        x = x + block.out(_attend(query, keys[i], values[i], seen[None])[0])
        x = x + _gated(block, block.unit_norm(x))
    return network.head(network.norm(x)), KeyValueCache(keys, values)


def _read(network: Transformer, tokens: Array) -> tuple[Array, tuple[Array, Array]]:
    x = network.embedding.weight[tokens]
    before = jnp.tril(jnp.ones((len(tokens), len(tokens)), bool))
    turn = rotation(jnp.arange(len(tokens)), x.shape[1] // network.heads)
    keys, values = [], []
    for block in network.blocks:
        inside = jax.vmap(block.attention_norm)(x)
        parts = (jax.vmap(f)(inside) for f in (block.query, block.key, block.value))
        query, key, value = (_split(part, network.heads) for part in parts)
        query, key = rotated(query, turn), rotated(key, turn)
        keys.append(key)
        values.append(value)
        x = x + jax.vmap(block.out)(_attend(query, key, value, before))
        x = x + jax.vmap(lambda row, block=block: _gated(block, row))(jax.vmap(block.unit_norm)(x))
    return jax.vmap(network.head)(jax.vmap(network.norm)(x)), (jnp.stack(keys), jnp.stack(values))


def rotation(position: Array, size: int) -> tuple[Array, Array]:
    """Cosine and sine of rotary positions (Su et al. 2021, https://doi.org/10.48550/arXiv.2104.09864).

    Args:
        position: Shape (T,).
        size: Numbers of a head.

    Returns:
        Shape (T, size) each; the second half of the columns repeats the first.
    """
    angle = position[:, None] * ROPE_BASE ** (-jnp.arange(0, size, 2) / size)
    both = jnp.concatenate([angle, angle], axis=-1)
    return jnp.cos(both), jnp.sin(both)


def rotated(x: Array, turn: tuple[Array, Array]) -> Array:
    """Heads of shape (heads, T, size), turned by their positions."""
    first, second = jnp.split(x, 2, axis=-1)
    return x * turn[0] + jnp.concatenate([-second, first], axis=-1) * turn[1]


def _split(x: Array, heads: int) -> Array:
    """(T, width) → (heads, T, size)."""
    return jnp.moveaxis(x.reshape(x.shape[0], heads, -1), 0, 1)


def _attend(query: Array, key: Array, value: Array, seen: Array) -> Array:
    """Scaled dot-product attention; (heads, T, size) → (T, width)."""
    score = query @ jnp.moveaxis(key, 1, 2) / np.sqrt(query.shape[-1])
    weight = jax.nn.softmax(jnp.where(seen, score, -jnp.inf), axis=-1)
    return jnp.moveaxis(weight @ value, 0, 1).reshape(query.shape[1], -1)


def _gated(block: Block, x: Array) -> Array:
    return block.down(jax.nn.silu(block.gate(x)) * block.up(x))
