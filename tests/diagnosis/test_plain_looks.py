"""What a log shows where its paths tell little, beside ``samples/plain_looks.txt``: what many seeds or a view show."""

import numpy as np
import pytest

from bayes_grpo import diagnose, view
from bayes_grpo.diagnosis.plausibility import implausible
from bayes_grpo.views.diagnosis import reason
from tests.helpers.runs import evaluated, make_run, steps
from tests.helpers.selection import few


@pytest.mark.parametrize("chance", few([0.03, 0.05, 0.1], 0.05))
def test_rare_rewards_above_the_lowest_are_no_level_that_was_lost(chance):
    """The few rows were taken for outliers and the rest has no range, beside which rounding was a fall."""
    for seed in range(12):
        rare = np.random.default_rng(seed).uniform(size=120) < chance
        found = diagnose(make_run(steps(120), np.where(rare, 0.2, -0.1))).status
        assert found.finding.kind != "lost_reward", seed


def test_a_signal_that_is_nan_in_every_row_is_not_called_unrecognized():
    kl = np.full(40, np.nan)
    found = diagnose(make_run(steps(40), np.linspace(0.2, 0.6, 40), signals={"kl": kl}, written=["kl"]))
    assert found.empty == ("kl",)
    assert "kl" not in found.missing
    assert view(found).unchecked.endswith("kl (NaN in every row)")


def test_a_part_that_never_paid_stands_on_the_first_screen():
    """Once, also where the status is form without the task, whose evidence is the level of the task's parts."""
    form = np.linspace(0.2, 0.9, 40) + 0.02 * np.random.default_rng(3).standard_normal(40)
    for paid, unpaid in (("format_reward", "correctness_reward"), ("correctness_reward", "format_reward")):
        parts = {paid: form, unpaid: np.zeros(40)}
        found = diagnose(make_run(steps(40), form, components=parts, reward_low=0.0, reward_high=2.0))
        assert (found.status.finding.mode == "form_without_task") == (paid == "format_reward")
        assert view(found).why.count(f"o row has any reward from {unpaid}") == 1


def test_evaluations_are_the_reward_where_the_gold_reward_is_the_only_other_one():
    evals = evaluated(steps(60), np.repeat([0.2, 0.6], 30) + 0.01 * np.random.default_rng(9).standard_normal(60))
    gold = np.where(steps(80) > 10, 0.3, np.nan)
    found = diagnose(make_run(steps(80), np.full(80, np.nan), signals={"gold_reward": gold}, evals=evals))
    assert "the reward jumped from 0.2 to 0.59 at step 31" in found.sentence


ROWS = 60


@pytest.fixture
def reward() -> np.ndarray:
    return 0.5 + 0.05 * np.random.default_rng(3).standard_normal(ROWS)


def test_a_measured_log_is_plausible(reward):
    rng = np.random.default_rng(4)
    signals = {"reward_std": 0.4 + 0.02 * rng.standard_normal(ROWS), "entropy": np.zeros(ROWS)}
    assert implausible(make_run(steps(ROWS), reward, signals=signals, group_size=8, prompts_per_step=8)) == ()


@pytest.mark.parametrize(
    ("signals", "words"),
    [
        ({"reward_std": np.full(ROWS, 0.5)}, "reward_std is 0.5 in all 60 rows"),
        ({"completion_length": np.full(ROWS, 96.0)}, "hits the length limit"),
    ],
)
def test_columns_that_were_not_measured_are_told(reward, signals, words):
    (said,) = implausible(make_run(steps(ROWS), reward, signals=signals))
    assert words in said


def test_a_kl_below_zero_by_more_than_its_noise_is_named_on_the_first_screen():
    kl = np.array([0.0, -3.0, -5.4, -4.9, -7.0])
    below = diagnose(make_run(steps(5), [0.5, -0.1, 0.5, 1.3, -0.7], signals={"kl": kl}))
    assert "is below 0 on average (-4.1 over 5 rows), which no KL is" in reason(below)
    for harmless in (0.01 * kl, kl - kl.mean() - 0.2, -kl):  # rounding, its noise, a KL
        assert "negative_kl" not in diagnose(make_run(steps(5), np.arange(5.0), signals={"kl": harmless})).evidence
