"""What a log shows where its paths tell little: few rows, flat and noisy ones, parts that are not in the total."""

import numpy as np
import pytest

from bayes_grpo import diagnose, view
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
