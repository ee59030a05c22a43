"""Fixed points, curvature and noise against closed forms and enumeration."""

import itertools

import numpy as np
import pytest

from bayes_grpo.simulate.policies import bernoulli_bandit, contextual_bandit, softmax_bandit
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import simulate
from benchmarks.lab.fixed_points import find_fixed_point, linearized
from benchmarks.lab.measure import bernoulli_group_noise
from tests.helpers.paths import not_none


def test_std_normalised_bandit_with_kl_penalty():
    structure = Structure(update="infinite_group")
    numbers = Numbers(kl_weight=2.0, advantage_epsilon=0.0)
    point = not_none(find_fixed_point(structure, numbers, bernoulli_bandit()))
    assert point.parameters[0] == pytest.approx(1.1788, abs=5e-5)
    assert point.curvature == pytest.approx(0.24755, abs=5e-6)
    z = point.parameters[0]
    p = 1 / (1 + np.exp(-z))
    closed = 2.0 * p * (1 - p) - (2 * p - 1) * np.sqrt(p * (1 - p)) / 2
    assert point.curvature == pytest.approx(closed, rel=1e-7)


@pytest.mark.parametrize(
    ("update", "numbers", "reference", "z"),
    [
        ("infinite_group", Numbers(kl_weight=0.4), -1.0, -1.0 + 1 / 0.4),
        ("infinite_group", Numbers(kl_weight=1.5), 0.3, 0.3 + 1 / 1.5),
        ("sampled", Numbers(kl_weight=0.5), 0.0, (1 - 1 / 4) / 0.5),  # finite groups shift it
        ("infinite_group", Numbers(entropy_weight=0.5), 0.0, 1 / 0.5),
    ],
)
def test_mean_only_bandit_is_held_where_the_penalty_says(update, numbers, reference, z):
    structure = Structure(advantage="mean", update=update, group_size=4)
    point = not_none(find_fixed_point(structure, numbers, bernoulli_bandit(-0.5, reference)))
    p = 1 / (1 + np.exp(-z))
    assert point.parameters[0] == pytest.approx(z - reference, rel=1e-8)
    assert point.reward == pytest.approx(p, rel=1e-8)
    if update == "infinite_group" and numbers.kl_weight:
        assert point.curvature == pytest.approx(numbers.kl_weight * p * (1 - p), rel=1e-7)
        assert point.reward_share == 1.0


def test_no_stiffness_without_a_restoring_force():
    assert find_fixed_point(Structure(), Numbers(), bernoulli_bandit()) is None


def test_softmax_has_one_flat_direction_and_its_boltzmann_fixed_point():
    reward = np.array([0.1, 0.5, 0.9])
    start = np.array([1.0, 1.0, -2.0])
    structure = Structure(advantage="mean", update="infinite_group")
    point = not_none(find_fixed_point(structure, Numbers(kl_weight=0.3), softmax_bandit(reward, start)))
    boltzmann = np.exp(start + reward / 0.3)
    assert point.reward == pytest.approx(reward @ boltzmann / boltzmann.sum(), rel=1e-7)
    spectrum = np.array(point.spectrum)
    assert np.count_nonzero(np.abs(spectrum) < 1e-8) == 1
    assert (spectrum > -1e-8).all()


def test_curvature_is_the_decay_rate_of_a_simulated_run():
    structure = Structure(n_steps=800, advantage="mean", update="expected", group_size=4)
    environment = contextual_bandit(np.random.default_rng(0), n_prompts=8, n_skills=1, n_memory=0)
    numbers = Numbers(learning_rate=0.2, kl_weight=0.5)
    point = not_none(find_fixed_point(structure, numbers, environment))
    batch = simulate(structure, numbers, environment, [0], double=True)
    away = np.abs(batch.true_reward[0] - point.reward)
    rate = np.log(away[500] / away[700]) / 200
    assert -np.log1p(-0.2 * point.curvature) == pytest.approx(rate, rel=1e-3)


def test_adam_curvature_is_preconditioned():
    structure = Structure(n_steps=200, advantage="mean", optimizer="adam")
    numbers = Numbers(learning_rate=0.02, momentum=0.9, kl_weight=0.5)
    batch = simulate(structure, numbers, bernoulli_bandit(-1.0), [0])
    run = batch._replace(**{name: value[0] for name, value in batch._asdict().items()})
    plain = not_none(find_fixed_point(structure, numbers, bernoulli_bandit(-1.0)))
    near = not_none(linearized(run, structure, numbers, bernoulli_bandit(-1.0)))
    scale = 1 / (np.sqrt(run.final_second_moment[0] / (1 - 0.999**200)) + 1e-8)
    assert near.point.curvature == pytest.approx(plain.curvature * scale, rel=1e-4)
    assert near.gain == pytest.approx(0.1 * 0.02 * near.point.curvature)


@pytest.mark.parametrize("advantage", ["std", "mean"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_group_noise_is_the_sum_over_every_group(advantage, ddof):
    p, tpr, fpr, size = 0.6, 0.8, 0.3, 3
    outcomes = []
    for group in itertools.product([(1, 1), (1, 0), (0, 1), (0, 0)], repeat=size):
        right, reward = np.array(group).T
        rate = np.where(right == 1, tpr, fpr)
        chance = np.prod(np.where(right == 1, p, 1 - p) * np.where(reward == 1, rate, 1 - rate))
        centred = reward - reward.mean()
        std = reward.std(ddof=ddof)
        scale = 1.0 if advantage == "mean" else (1 / std if std > 0 else 0.0)
        outcomes.append((chance, np.mean(centred * scale * (right - p))))
    chance, gradient = np.array(outcomes).T
    mean = chance @ gradient
    found = bernoulli_group_noise(p, size, advantage, ddof, tpr, fpr)
    assert found == pytest.approx((mean, chance @ gradient**2 - mean**2), rel=1e-10)
