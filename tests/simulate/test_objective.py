"""The GRPO objective on tables against completions one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.simulate.objective import AdvantageMass, expected_batch, grpo_loss, log_policy, sampled_batch
from bayes_grpo.simulate.policies import contextual_bandit, softmax_bandit
from bayes_grpo.simulate.settings import Numbers, Structure

N_PROMPTS, N_ARMS, SIZE = 5, 4, 6


@pytest.fixture
def prompts():
    sizes = {"n_prompts": N_PROMPTS, "n_held_out": 2, "n_arms": N_ARMS, "n_skills": 2, "n_memory": 2}
    rng = np.random.default_rng(0)
    return contextual_bandit(rng, true_positive_rate=0.9, false_positive_rate=0.2, **sizes).train


def scored_completions(rng):
    """Prompt, arm and std-normalised advantage of every completion of a batch of ten groups."""
    prompt = rng.integers(0, N_PROMPTS, 10)
    arm = rng.integers(0, N_ARMS, (10, SIZE))
    reward = rng.integers(0, 2, (10, SIZE)).astype(float)
    std = reward.std(axis=1, keepdims=True)
    advantage = (reward - reward.mean(axis=1, keepdims=True)) / np.where(std > 0, std, 1.0)
    return np.repeat(prompt, SIZE), arm.ravel(), advantage.ravel()


def tables(prompt, arm, advantage):
    def place(values):
        table = np.zeros((N_PROMPTS, N_ARMS))
        np.add.at(table, (prompt, arm), values)
        return jnp.asarray(table / len(values))

    share = np.bincount(prompt, minlength=N_PROMPTS) / len(prompt)
    up, down = np.maximum(advantage, 0), np.minimum(advantage, 0)
    return AdvantageMass(place(up), place(down), place(advantage > 0), place(advantage < 0), jnp.asarray(share))


def per_completion_loss(theta, log_old, prompt, arm, advantage, prompts, clip):
    """The surrogate as trainers write it: min(r A, clip(r) A), averaged over completions."""
    ratio = jnp.exp(log_policy(prompts, theta)[prompt, arm] - log_old[prompt, arm])
    clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
    return -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))


def test_tables_hold_the_clipped_surrogate_and_its_gradient(prompts):
    with jax.enable_x64(True):
        rng = np.random.default_rng(1)
        completions = scored_completions(rng)
        old, new = (jnp.asarray(rng.normal(0, 1.0, 4)) for _ in range(2))
        log_old = log_policy(prompts, old)
        numbers = Numbers(clip_low=0.2, clip_high=0.2)

        def table_loss(theta):
            return grpo_loss(theta, log_old, tables(*completions), prompts, numbers)

        def naive(theta):
            return per_completion_loss(theta, log_old, *completions, prompts, 0.2)

        (loss, metrics), slope = jax.jit(jax.value_and_grad(table_loss, has_aux=True))(new)
        expected_loss, expected_slope = jax.jit(jax.value_and_grad(naive))(new)
        assert float(loss) == pytest.approx(float(expected_loss), abs=1e-12)
        np.testing.assert_allclose(slope, expected_slope, atol=1e-12)
        # The policies are far apart, so that clipping is at work.
        assert 0.1 < float(metrics["clip_ratio"]) < 0.9


@pytest.mark.thorough
def test_stale_gradient_is_reuse_without_importance_ratios(prompts):
    with jax.enable_x64(True):
        rng = np.random.default_rng(2)
        prompt, arm, advantage = scored_completions(rng)
        old, new = (jnp.asarray(rng.normal(0, 1.0, 4)) for _ in range(2))
        log_old = log_policy(prompts, old)
        mass = tables(prompt, arm, advantage)

        def reuse(theta):
            return -jnp.mean(advantage * log_policy(prompts, theta)[prompt, arm])

        stale = jax.grad(lambda theta: grpo_loss(theta, log_old, mass, prompts, Numbers())[0])(old)
        np.testing.assert_allclose(jax.grad(reuse)(new), stale, atol=1e-12)


def drawn(keys, prompts, theta, structure):
    """A batch for each key."""
    log_old = log_policy(prompts, theta)
    return jax.jit(jax.vmap(lambda key: sampled_batch(key, key, prompts, log_old, structure, Numbers())))(keys)


@pytest.mark.thorough
@pytest.mark.parametrize(("advantage", "ddof"), [("std", 1), ("mean", 0)])
def test_sampled_tables_average_to_the_expected_ones(prompts, advantage, ddof):
    structure = Structure(group_size=SIZE, prompts_per_step=32, advantage=advantage, ddof=ddof)
    theta = jnp.array([0.5, -0.3, 0.8, 0.1])
    keys = jax.random.split(jax.random.key(0), 4000)
    mass, metrics = drawn(keys, prompts, theta, structure)
    expected, expected_metrics = expected_batch(prompts, log_policy(prompts, theta), structure, Numbers())
    # Gains and losses apart are split by chance within a group; what drives the update is their sum.
    found = (mass.gain + mass.loss).mean(axis=0)
    error = (mass.gain + mass.loss).std(axis=0) / np.sqrt(len(keys))
    assert (np.abs(found - (expected.gain + expected.loss)) < 4.5 * error + 1e-6).all()
    assert metrics.reward.mean() == pytest.approx(float(expected_metrics.reward), abs=2e-3)
    found = float(metrics.frac_reward_zero_std.mean())
    assert found == pytest.approx(float(expected_metrics.frac_reward_zero_std), abs=3e-3)


def test_entropy_bonus_and_kl_penalty_are_exact():
    with jax.enable_x64(True):
        prompts = softmax_bandit([0.2, 0.5, 0.9], [0.3, -0.1, 0.0]).train
        theta = jnp.array([0.7, -0.4, 0.2])
        numbers = Numbers(kl_weight=0.3, entropy_weight=0.7)

        @jax.jit
        def of_no_batch(theta):
            log_old = log_policy(prompts, theta)
            nothing = jax.tree.map(jnp.zeros_like, expected_batch(prompts, log_old, Structure(), Numbers())[0])
            return grpo_loss(theta, log_old, nothing._replace(prompt_share=jnp.ones(1)), prompts, numbers)

        loss, metrics = of_no_batch(theta)
        logits = np.array([0.3, -0.1, 0.0])
        policy, reference = (np.exp(x) / np.exp(x).sum() for x in (logits + np.asarray(theta), logits))
        kl = (policy * np.log(policy / reference)).sum()
        entropy = -(policy * np.log(policy)).sum()
        assert float(metrics["kl"]) == pytest.approx(kl)
        assert float(metrics["entropy"]) == pytest.approx(entropy)
        assert float(loss) == pytest.approx(0.3 * kl - 0.7 * entropy)
