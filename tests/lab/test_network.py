"""The transformer: two ways to read a text agree, nothing looks ahead, and it is what plain loops compute."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.lab.network import (
    Network,
    flat,
    logits,
    remember,
    step,
    unflattened,
)
from tests.lab.conftest import large_weights

NETWORK = Network(layers=2, width=16, heads=2, hidden=24)
VOCABULARY = 7
TEXT = jnp.asarray([3, 0, 6, 2, 2, 5, 1, 4])


@pytest.fixture(scope="module")
def network():
    size, made = unflattened(NETWORK, VOCABULARY)
    weights = large_weights(NETWORK, VOCABULARY, 0)
    assert weights.shape == (size,)
    return made(weights)


def plain_logits(network, tokens):
    """The same network by loops over positions and heads, in NumPy."""
    weight = jax.tree.map(lambda x: np.asarray(x, float), network)
    x = weight.embedding.weight[tokens]

    def norm(rows, gain):
        return rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + 1e-6) * gain

    def turned(vector, position):
        half, out = len(vector) // 2, np.empty(len(vector))
        for i in range(half):
            angle = position / 10_000 ** (i / half)
            out[i] = vector[i] * np.cos(angle) - vector[i + half] * np.sin(angle)
            out[i + half] = vector[i + half] * np.cos(angle) + vector[i] * np.sin(angle)
        return out

    for block in weight.blocks:
        inside, found = norm(x, block.attention_norm.weight), np.zeros_like(x)
        query, key, value = (inside @ part.weight.T for part in (block.query, block.key, block.value))
        size = x.shape[1] // network.heads
        for head in range(network.heads):
            at = slice(head * size, (head + 1) * size)
            for t in range(len(tokens)):
                scores = [turned(query[t, at], t) @ turned(key[s, at], s) / np.sqrt(size) for s in range(t + 1)]
                share = np.exp(scores) / np.exp(scores).sum()
                found[t, at] = share @ value[: t + 1, at]
        x = x + found @ block.out.weight.T
        inside = norm(x, block.unit_norm.weight)
        gate = inside @ block.gate.weight.T
        x = x + (gate / (1 + np.exp(-gate)) * (inside @ block.up.weight.T)) @ block.down.weight.T
    return norm(x, weight.norm.weight) @ weight.head.weight.T


def test_logits_are_those_of_plain_loops(network):
    found = logits(network, TEXT)
    assert float(jnp.std(found)) > 0.3
    np.testing.assert_allclose(found, plain_logits(network, np.asarray(TEXT)), atol=2e-5)


def test_reading_token_by_token_is_reading_at_once(network):
    whole = logits(network, TEXT)
    found, memory = remember(network, TEXT[:3], len(TEXT))
    np.testing.assert_allclose(found, whole[2], atol=1e-5)
    for t in range(3, len(TEXT)):
        found, memory = step(network, memory, TEXT[t], jnp.asarray(t))
        np.testing.assert_allclose(found, whole[t], atol=1e-5)


def test_weights_survive_being_laid_side_by_side(network):
    again = unflattened(NETWORK, VOCABULARY)[1](flat(network))
    assert all(jnp.all(a == b) for a, b in zip(jax.tree.leaves(network), jax.tree.leaves(again), strict=True))
    assert again.heads == NETWORK.heads
