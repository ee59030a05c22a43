"""Whole runs on a network: what repeats, what a stale policy does, and what the settings mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.simulate.settings import Numbers, Structure
from benchmarks.lab.settings import Lab, LabNumbers
from benchmarks.lab.training import DeepTrajectory, prompts_of, train
from tests.lab.conftest import NETWORK

STEPS = 40
NUMBERS = Numbers._fields
# Compiling takes seconds and training takes none, so one batch has a run of everything.
RUNS = {
    "plain": {},
    "again": {},
    "other seed": {"seed": 1},
    "fast": {"learning_rate": 0.03},
    "still": {"learning_rate": 1e-9},
    "held": {"refresh_interval": 4},
    "held twice": {"refresh_interval": 4, "epochs": 2},
    "clipped": {"refresh_interval": 4, "learning_rate": 0.03, "clip_low": 0.02, "clip_high": 0.02},
    "at the old": {"refresh_interval": 4, "lag_exposure": 1.0, "clip_low": 1e-3, "clip_high": 1e-3},
    "broken": {"broken_from": 7},
    "broken while held": {"broken_from": 6, "refresh_interval": 4, "epochs": 2},
    "shortened": {"max_grad_norm": 1e-3},
}


def lab(**structure):
    fixed = {"n_steps": STEPS, "group_size": 4, "prompts_per_step": 6, "optimizer": "ema", "eval_every": 10}
    return Lab(Structure(**(fixed | structure)), NETWORK, limit=4, eval_prompts=16)


def numbers(**settings):
    # The share of right places is a reward that a network without training gets often enough to learn from.
    more = {"learning_rate": 0.3, "right": 0.0, "partial": 1.0} | settings
    base = Numbers(**{k: v for k, v in more.items() if k in NUMBERS})
    return LabNumbers(base=base, **{k: v for k, v in more.items() if k not in NUMBERS})


def batch(task, start, runs=RUNS, **structure):
    """The runs as one batch, by their names."""
    defaults = numbers().base._asdict() | numbers()._asdict()
    names = {k for run in runs.values() for k in run if k != "seed"}
    settings = {k: np.array([run.get(k, defaults[k]) for run in runs.values()]) for k in names}
    seeds = [run.get("seed", 0) for run in runs.values()]
    found = train(lab(**structure), numbers(**settings), task, start, seeds)
    return {name: DeepTrajectory(*(x[i] for x in found)) for i, name in enumerate(runs)}


@pytest.fixture(scope="module")
def start(parameters):
    return np.asarray(parameters)


@pytest.fixture(scope="module")
def runs(sums, start):
    return batch(sums, start)


def test_the_same_seed_is_the_same_run(runs):
    assert all(np.array_equal(a, b) for a, b in zip(runs["plain"], runs["again"], strict=True))
    assert not np.array_equal(runs["plain"].reward, runs["other seed"].reward)


def test_a_run_of_a_batch_is_the_run_alone_also_among_doubles(sums, start, runs):
    with jax.enable_x64(True):
        alone = batch(sums, start, {"fast": RUNS["fast"]})["fast"]
    np.testing.assert_allclose(alone.learning_rate, 0.03, rtol=1e-6)
    np.testing.assert_allclose(alone.reward, runs["fast"].reward, atol=1e-6)
    np.testing.assert_allclose(alone.final_parameters, runs["fast"].final_parameters, atol=1e-4)
    assert alone.final_parameters.dtype == np.float32


def test_rows_of_a_run_that_learns_agree_with_each_other(runs):
    run = runs["plain"]
    np.testing.assert_allclose(run.components[:, 2], run.reward, atol=1e-6)
    np.testing.assert_allclose(run.mean_length / 4, run.components[:, 4], atol=1e-6)
    assert np.all(run.entropy > 0)
    assert np.array_equal(run.grad_norm == 0, run.frac_reward_zero_std == 1)
    assert np.all(run.clip_ratio == 0)  # every step writes anew, so ratios are 1
    assert run.kl[0] == pytest.approx(0.0, abs=1e-6)
    assert run.kl[-1] > 1e-3
    assert run.reward[-10:].mean() > run.reward[:5].mean() + 0.1
    assert run.eval_step.tolist() == [10, 20, 30, 40]
    assert run.eval_reward.shape == run.eval_scored.shape == (4,)
    assert np.all(run.eval_scored >= run.eval_reward)


def test_a_rollout_is_trained_on_again(runs):
    held, twice = runs["held"], runs["held twice"]
    # Four batches one after another, against two batches twice and then two new ones.
    for name in ("reward", "reward_std", "components", "mean_length"):
        rows = getattr(twice, name)[:36].reshape(9, 4, -1)
        np.testing.assert_array_equal(rows[:, :2], rows[:, 2:], err_msg=name)
    assert len({row.tobytes() for row in held.components[:4]}) == 4
    assert len({row.tobytes() for row in twice.components[:4]}) == 2
    assert np.array_equal(held.components[:2], twice.components[:2])
    assert not np.array_equal(twice.components[4], twice.components[0])


def test_clipping_counts_once_the_policy_has_moved(runs):
    clipped = runs["clipped"].clip_ratio.reshape(-1, 4)
    assert np.all(clipped[:, 0] == 0)
    assert np.all(clipped.max(axis=0)[1:] > 0)
    assert np.all(runs["at the old"].clip_ratio == 0)  # at the policy that wrote, ratios are 1


def test_a_broken_reward_teaches_nothing(runs):
    run = runs["broken"]
    for name in ("reward", "reward_std", "reward_std_within", "grad_norm"):
        assert np.mean(getattr(run, name)[:7] > 0) > 0.5, name
        assert np.all(getattr(run, name)[7:] == 0), name
    assert np.all(run.frac_reward_zero_std[7:] == 1)
    assert np.all(run.components[7:, 2] > 0)  # what stands in its place does not change
    assert np.array_equal(run.reward[:7], runs["plain"].reward[:7])


def test_a_rollout_written_before_the_verifier_broke_keeps_its_reward(runs):
    run, whole = runs["broken while held"], runs["held twice"]
    # Written at steps 0, 4, 8, …: what is trained on in steps 4 to 7 was scored at step 4.
    assert np.array_equal(run.reward[:8], whole.reward[:8])
    assert run.reward[6:8].max() > 0
    assert np.all(run.reward[8:] == 0)
    assert np.all(run.grad_norm[8:] == 0)


def test_long_gradients_are_shortened(start, runs):
    run = runs["shortened"]
    assert np.all((run.grad_norm == 0) | (run.grad_norm > 0.01))
    # A step of the greatest length wherever there is a gradient; a random walk uses a part of them.
    moved, longest = np.linalg.norm(run.final_parameters - start), np.sum(run.grad_norm > 0) * 0.3 * 1e-3
    assert 0.1 * longest < moved < 1.01 * longest
    assert np.linalg.norm(runs["plain"].final_parameters - start) > 20 * moved


def test_a_delayed_policy_writes_with_old_weights(sums, start, runs):
    ages = (1, 3, STEPS)
    cases = {str(k): {"refresh_interval": k} for k in ages} | {"broken": {"refresh_interval": 3, "broken_from": 7}}
    found = batch(sums, start, cases, refresh="delay", eval_every=0)
    late, broken = {k: found[str(k)] for k in ages}, found["broken"]
    # What is trained on before update t was written three updates before.
    assert np.array_equal(broken.reward[:10], late[3].reward[:10])
    assert broken.reward[7:10].max() > 0
    assert np.all(broken.reward[10:] == 0)
    # The weights of k steps ago: nobody sees an update before step k, and what is seen then is its first.
    for k, run in late.items():
        same = np.all(run.components == runs["still"].components, axis=1)
        assert np.all(same[: k + 1]), k
        assert k == STEPS or not np.all(same[k + 1 :]), k
        assert run.components[0].tolist() == runs["plain"].components[0].tolist()
    assert late[3].eval_step.shape == late[3].eval_reward.shape == (0,)
    assert late[3].reward[-10:].mean() > late[STEPS].reward[-10:].mean() + 0.1


def test_start_and_reference_may_differ(sums, start, runs):
    found = train(lab(), numbers(learning_rate=np.array([0.03])), sums, 1.2 * start[None], [0], reference=start)
    assert found.kl[0, 0] > 1e-3
    assert not np.array_equal(found.components[0], runs["fast"].components)


@pytest.mark.parametrize("size", [3, 5])
def test_shuffled_prompts_are_gone_through_in_passes(size):
    many, key = 12, jax.random.key(0)
    fixed = Lab(Structure(prompts_per_step=size), NETWORK, order="shuffled")
    found = [prompts_of(fixed, many, key, key, jnp.asarray(i)).tolist() for i in range(2 * (many // size))]
    first, second = found[: many // size], found[many // size :]
    for batches in (first, second):
        assert len({x for row in batches for x in row}) == many // size * size
    assert first != second
    assert prompts_of(fixed, many, key, key, jnp.asarray(1)).tolist() == found[1]
