"""The training loop against hand-written loops and closed-form flows."""

import jax
import numpy as np
import pytest

from bayes_grpo.dynamics.reduction import critical_gain
from bayes_grpo.simulate.policies import bernoulli_bandit, contextual_bandit, softmax_bandit
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import simulate
from tests.helpers.selection import few

BETA = 0.5


def drift(z):
    """Expected mean-only update of the bandit with a KL penalty to logit 0, G → ∞."""
    p = 1 / (1 + np.exp(-z))
    return p * (1 - p) * (1 - BETA * z)


def logits(structure, environment=None, **numbers):
    """Logit of a noise-free bandit at every step."""
    numbers = Numbers(**({"kl_weight": BETA, "advantage_epsilon": 0.0} | numbers))
    batch = simulate(structure, numbers, environment or bernoulli_bandit(-1.0), [0], double=True)
    return batch.parameters[0, :, 0]


def noise_free(**settings):
    return Structure(**({"n_steps": 60, "advantage": "mean", "update": "infinite_group"} | settings))


@pytest.mark.parametrize("model", few(["hold", "delay"], "hold"))
def test_heavy_ball_with_stale_gradients(model):
    settings = {"learning_rate": 0.4, "momentum": 0.8, "refresh_interval": 3}
    found = logits(noise_free(refresh=model), lag_exposure=1.0, **settings)
    z, v, expected = [-1.0], 0.0, []
    for t in range(60):
        expected.append(z[-1])
        late = z[t - t % 3] if model == "hold" else z[max(t - 3, 0)]
        v = 0.8 * v + drift(late)
        z.append(z[-1] + 0.4 * v)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    half = logits(noise_free(refresh=model), lag_exposure=0.5, **settings)
    assert np.abs(half - found).max() > 0.01


@pytest.mark.parametrize("schedule", few(["constant", "linear", "cosine"], "cosine"))
def test_moving_average_and_schedules(schedule):
    found = logits(noise_free(optimizer="ema", schedule=schedule), learning_rate=0.5, momentum=0.7, warmup_steps=10)
    z, v, expected = -1.0, 0.0, []
    for t in range(60):
        expected.append(z)
        done = (t - 10) / 50
        decay = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + np.cos(np.pi * done)) / 2}[schedule]
        v = 0.7 * v + 0.3 * drift(z)
        z += 0.5 * ((t + 1) / 10 if t < 10 else decay) * v
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.thorough
def test_adam():
    found = logits(noise_free(optimizer="adam"), learning_rate=0.1, momentum=0.9, adam_beta2=0.99)
    z, m, s, expected = -1.0, 0.0, 0.0, []
    for t in range(1, 61):
        expected.append(z)
        g = drift(z)
        m, s = 0.9 * m + 0.1 * g, 0.99 * s + 0.01 * g**2
        z += 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.99**t)) + 1e-8)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.thorough
def test_std_normalised_flow_has_its_closed_form():
    rate, steps = 0.005, 2000
    z = logits(noise_free(advantage="std", n_steps=steps), learning_rate=rate, kl_weight=0.0)
    p = 1 / (1 + np.exp(-z))
    y = (2 * p - 1) / np.sqrt(p * (1 - p))
    # y(t) = y₀ + ηt/2; the Euler step is small.
    np.testing.assert_allclose(y, y[0] + rate * np.arange(steps) / 2, atol=0.01)


@pytest.mark.thorough
def test_importance_ratios_nearly_remove_the_lag():
    structure = noise_free(n_steps=400, refresh="delay")
    p = 1 / (1 + np.exp(-1 / BETA))
    rate = 2.0 * critical_gain(0.5, 8, "delay") / (BETA * p * (1 - p))
    settings = {"learning_rate": rate, "momentum": 0.5, "refresh_interval": 8, "clip_high": np.inf}
    stale = logits(structure, bernoulli_bandit(1.9), lag_exposure=1.0, **settings)
    corrected = logits(structure, bernoulli_bandit(1.9), lag_exposure=0.0, **settings)
    assert np.ptp(stale[-100:]) > 0.5
    assert np.ptp(corrected[-100:]) < 1e-6
    assert jax.numpy.ones(1).dtype == np.float32  # double precision does not leak out


@pytest.mark.thorough
def test_ratios_far_from_one_are_clipped():
    structure = Structure(n_steps=40, group_size=8, refresh="hold")
    numbers = Numbers(learning_rate=0.5, refresh_interval=8, lag_exposure=np.array([0.0, 1.0]))
    batch = simulate(structure, numbers, softmax_bandit([0.1, 0.5, 0.9]), [0])
    assert batch.clip_ratio[0].max() > 0.2
    assert batch.clip_ratio[0, ::8].max() == 0.0
    assert batch.clip_ratio[1].max() == 0.0


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_run_whatever_its_batch():
    structure = Structure(n_steps=50, eval_every=10)
    environment = contextual_bandit(np.random.default_rng(0), n_prompts=8, n_held_out=16)
    numbers = Numbers(learning_rate=np.array([0.1, 0.2, 0.3]), momentum=0.9)
    batch = simulate(structure, numbers, environment, [1, 2, 3])
    again = simulate(structure, numbers, environment, [1, 2, 3])
    alone = simulate(structure, Numbers(learning_rate=0.2, momentum=0.9), environment, [2])
    for one, two, three in zip(batch, again, alone, strict=True):
        np.testing.assert_array_equal(one, two)
        if np.ndim(three) > 1:
            np.testing.assert_allclose(one[1], three[0], atol=2e-5)
    assert np.abs(batch.reward[0] - batch.reward[1]).max() > 0
    # Of one data seed the prompts are the same: where the policy never moves, only completions differ.
    still = Numbers(learning_rate=1e-12, momentum=0.9)
    same, other = (simulate(structure, still, environment, [1, 2], data_seeds=d) for d in ([1], [1, 5]))
    np.testing.assert_array_equal(same.reward[0], simulate(structure, still, environment, [1, 2]).reward[0])
    np.testing.assert_array_equal(same.reward[0], other.reward[0])
    assert np.corrcoef(same.reward)[0, 1] > np.corrcoef(other.reward)[0, 1] + 0.2


@pytest.mark.thorough
def test_shared_features_carry_over_to_held_out_prompts():
    structure = Structure(n_steps=150, eval_every=50)
    environment = contextual_bandit(np.random.default_rng(0), difficulty_mean=0.5)
    batch = simulate(structure, Numbers(learning_rate=0.5), environment, np.arange(4))
    assert batch.eval_step[0].tolist() == [50, 100, 150]
    assert (batch.true_eval_reward[:, -1] > batch.gold_reward[:, 0] + 0.3).all()
    # One completion on each of 64 prompts: within four standard errors.
    assert np.abs(batch.eval_reward - batch.true_eval_reward).max() < 4 * 0.5 / 8
