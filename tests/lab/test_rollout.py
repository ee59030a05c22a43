"""Completions: drawn from the policy that is said to write them, read alike, and scored by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from benchmarks.lab.network import logits
from benchmarks.lab.rollout import Completions, read, score, write
from benchmarks.lab.tasks import END, PAD

LIMIT, MANY = 5, 4000
LOGITS = jax.jit(logits)
"""Compiled once for a length of text: operation by operation, each would be a program of its own."""


@pytest.fixture(scope="module")
def prompt(sums):
    return jnp.asarray(sums.train[0])


@pytest.fixture(scope="module", params=[1.0, 0.5])
def temperature(request):
    return request.param


@pytest.fixture(scope="module")
def written(policy, prompt, temperature):
    return jax.jit(write, static_argnums=2)(
        policy, jnp.tile(prompt, (MANY, 1)), LIMIT, jax.random.key(0), jnp.asarray(temperature)
    )


def softmax(x):
    x = np.asarray(x, float)
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def test_a_completion_ends_once(written, prompt):
    tokens, counts = np.asarray(written.text[:, len(prompt) :]), np.asarray(written.written)
    assert np.array_equal(np.asarray(written.text[:, : len(prompt)]), np.tile(prompt, (MANY, 1)))
    for row, open_ in zip(tokens[:500].tolist(), counts[:500].tolist(), strict=True):
        size = row.index(END) + 1 if END in row else LIMIT
        assert open_ == [True] * size + [False] * (LIMIT - size)
        assert row[size:] == [PAD] * (LIMIT - size)
    assert 0 < np.mean((tokens == END).any(axis=1)) < 1


def test_tokens_come_as_often_as_the_policy_says(policy, prompt, written, temperature):
    tokens = np.asarray(written.text[:, len(prompt) :])
    first = softmax(LOGITS(policy, prompt)[-1] / temperature)
    assert chisquare(np.bincount(tokens[:, 0], minlength=len(first)), MANY * first).pvalue > 1e-4
    # The second token, after the first one that came most often and did not end the text.
    common = max((x for x in range(len(first)) if x != END), key=lambda x: first[x])
    chosen = tokens[tokens[:, 0] == common, 1]
    second = softmax(LOGITS(policy, jnp.append(prompt, common))[-1] / temperature)
    assert len(chosen) > 300
    assert chisquare(np.bincount(chosen, minlength=len(second)), len(chosen) * second).pvalue > 1e-4


def test_reading_is_what_the_logits_say(policy, prompt, written, temperature):
    few = Completions(written.text[:20], written.written[:20])
    found = read(policy, few, temperature)
    for i in range(20):
        for t in range(LIMIT):
            at = len(prompt) + t
            share = softmax(LOGITS(policy, few.text[i, :at])[-1] / temperature)
            counts = bool(few.written[i, t])
            expected = np.log(share[int(few.text[i, at])]) if counts else 0.0
            assert float(found.log_probability[i, t]) == pytest.approx(expected, abs=2e-5)
            entropy = -np.sum(share * np.log(share)) if counts else 0.0
            assert float(found.entropy[i, t]) == pytest.approx(entropy, abs=2e-5)
            if not counts:
                break


def scored(texts, answers):
    """Scores of completions without prompts, each cut at its end."""
    tokens = jnp.asarray(texts)
    ended = jnp.cumsum(tokens == END, axis=1)
    counts = (ended == 0) | ((tokens == END) & (ended == 1))
    prompts = jnp.full((len(tokens), 2), 9)
    return score(Completions(jnp.hstack([prompts, tokens]), counts), jnp.asarray(answers))


def test_scores_of_answers_of_one_length():
    answer = [2, 3, END]
    texts = {
        "right": [2, 3, END, PAD, PAD],
        "too long": [2, 3, 3, END, PAD],
        "never ends": [2, 3, 4, 4, 4],
        "later": [4, 4, 4, 2, 3],
        "behind one more": [4, 2, 3, END, PAD],
        "silent": [END, PAD, PAD, PAD, PAD],
        "one wrong": [2, 4, END, PAD, PAD],
    }
    found = scored(list(texts.values()), [answer] * len(texts))
    np.testing.assert_allclose(found.right, [1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(found.anywhere, [1, 1, 1, 1, 1, 0, 0])
    np.testing.assert_allclose(found.partial, np.array([3, 2, 2, 0, 0, 0, 2]) / 3, rtol=1e-6)
    np.testing.assert_allclose(found.ended, [1, 1, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(found.length, np.array([3, 4, 5, 5, 4, 1, 3]) / 5, rtol=1e-6)


def test_scores_of_answers_of_unequal_length():
    long, short = [4, 5, 4, END], [5, END, PAD, PAD]
    texts = [[4, 5, 4, END, PAD], [5, END, PAD, PAD, PAD], [4, 4, 4, 4, 5], [5, PAD, END, PAD, PAD], [4, 5, 4, 4, 4]]
    found = scored(texts, [long, short, short, short, short])
    np.testing.assert_allclose(found.right, [1, 1, 0, 0, 0])
    np.testing.assert_allclose(found.anywhere, [1, 1, 1, 1, 1])  # the third in the last place
    np.testing.assert_allclose(found.partial, [1, 1, 0, 0.5, 0], rtol=1e-6)
    # A limit that just holds the longest answer.
    tight = scored([[4, 5, 4, END], [4, 4, 4, 5]], [long, short])
    np.testing.assert_allclose(tight.right, [1, 0])
    np.testing.assert_allclose(tight.anywhere, [1, 1])
