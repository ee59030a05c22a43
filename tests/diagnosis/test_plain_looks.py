"""What a log shows where its paths tell little: few rows, flat and noisy ones, parts that are not in the total."""

import numpy as np
import pytest

from bayes_grpo import diagnose, view
from tests.helpers.runs import make_run, steps
from tests.helpers.selection import few

HUMP = np.array([0.3, 0.6, 0.8, 0.4, 0.2])
SPENT = np.array([0.8, 0.5, 0.2, 0.05, 0.01])


@pytest.mark.parametrize(
    ("signals", "clause", "kind"),
    [
        ({"entropy": SPENT}, "the entropy fell from 0.8 to 0.01", "change_setting"),
        ({"frac_reward_zero_std": 1.0 - SPENT}, "99% of the groups of this step have equal rewards", "change_prompts"),
    ],
)
def test_few_rows_that_end_low_say_what_their_last_ones_show(signals, clause, kind):
    found = diagnose(make_run(np.array([1.0, 5.0, 10.0, 15.0, 20.0]), HUMP, signals=signals)).status
    assert (found.status, found.finding.kind) == ("watch", "ends_low")
    assert found.headline.startswith(f"The reward went from 0.3 to 0.2 in 5 rows (best 0.8); {clause}")
    assert found.action.kind == kind


@pytest.mark.parametrize(
    ("reward", "entropy"),
    [(HUMP[:3], SPENT[:3]), (HUMP, SPENT[0] * np.ones(5)), (HUMP[[4, 0, 1, 2, 2]], SPENT)],
    ids=["still high", "entropy holds", "reward rose"],
)
def test_few_rows_are_not_blamed_for_less(reward, entropy):
    found = diagnose(make_run(steps(len(reward)), reward, signals={"entropy": entropy})).status
    assert found.status in ("unclear", "fine")


def test_an_entropy_near_that_of_random_tokens_comes_before_the_length_limit():
    signals = {"entropy": np.array([9.5, 9.4]), "completions_clipped_ratio": np.ones(2)}
    found = diagnose(make_run(steps(2), np.zeros(2), signals=signals)).status
    assert found.headline.startswith("The entropy is 9.4 nats a token, as of a model that writes noise")
    assert (found.action.kind, found.action.subject) == ("look", "weights")
    summed = diagnose(make_run(steps(2), np.zeros(2), signals=signals | {"entropy": np.array([210.0, 200.0])})).status
    assert summed.headline.startswith("All completions of this step hit the length limit")


def test_a_reward_that_ends_at_its_lowest_is_not_told_to_go_on():
    found = diagnose(make_run(steps(5), np.array([0.31, 0.42, 0.38, 0.45, 0.3]))).status
    assert (found.status, found.action.kind) == ("unclear", "wait")


def test_a_reward_that_slips_is_not_told_to_go_on():
    y = [0.96, 0.902, 0.938, 0.92, 0.878, 0.865, 0.792, 0.87, 0.887, 0.857]
    found = diagnose(make_run(np.arange(50.0, 501.0, 50.0), y, reward_low=0.0, reward_high=1.0)).status
    assert (found.status, found.finding.kind, found.action.kind) == ("unclear", "slipped", "wait")
    assert found.headline == "No failure detected, but the reward lies below its start: 0.923, now 0.867."


def test_many_flat_and_noisy_rows_say_what_the_noise_hides():
    rng = np.random.default_rng(3)
    found = diagnose(make_run(steps(40), 18.0 + 0.8 * rng.standard_normal(40))).status
    assert (found.status, found.finding.kind) == ("unclear", "noise_hides")
    assert found.headline.startswith("No failure detected; noise hides whether the reward rises (change ")
    assert found.headline.endswith("in 40 rows).")
    assert found.evidence == "the drawn paths of the reward"


def test_a_high_reward_that_holds_early_in_its_plan_is_no_plateau():
    rng = np.random.default_rng(3)
    y = 0.92 + 0.02 * rng.standard_normal(34)
    found = diagnose(make_run(steps(34), y, reward_low=0.0, reward_high=1.0, total_steps=720)).status
    assert (found.status, found.finding.kind) == ("fine", "holding")
    assert "after 34 of 720 planned rewards" in found.headline


def test_rows_that_mostly_stay_at_the_lowest_reward_ask_for_easier_prompts():
    rng = np.random.default_rng(3)
    y = np.where(rng.uniform(size=120) < 0.05, 0.2, -0.1)
    found = diagnose(make_run(steps(120), y)).status
    assert (found.finding.kind, found.action.kind, found.action.subject) == ("flat", "change_prompts", "easier")


@pytest.mark.parametrize("chance", few([0.03, 0.05, 0.1], 0.05))
def test_rare_rewards_above_the_lowest_are_no_level_that_was_lost(chance):
    """The few rows were taken for outliers and the rest has no range, beside which rounding was a fall."""
    for seed in range(12):
        rare = np.random.default_rng(seed).uniform(size=120) < chance
        found = diagnose(make_run(steps(120), np.where(rare, 0.2, -0.1))).status
        assert found.finding.kind != "lost_reward", seed


def test_a_part_that_is_not_in_the_total_has_no_part_in_its_gain():
    task = np.linspace(0.02, 0.2, 40) + 0.005 * np.random.default_rng(4).standard_normal(40)
    form = np.linspace(0.15, 0.7, 40)
    assert diagnose(make_run(steps(40), task, components={"answer": task, "format": form})).status.status == "fine"
    summed = diagnose(make_run(steps(40), task + form, components={"answer": task, "format": form}))
    assert summed.status.finding.kind == "apparent_gain"


def test_a_rise_of_one_learning_rate_that_ended_is_named_by_its_levels():
    reward = [0.33, 0.24, 0.67, 0.76, 0.58, 0.83, 0.81, 0.85, 0.80, 0.46, 0.87, 0.82, 0.82, 0.80]
    rate = np.r_[0.0, np.linspace(5e-6, 2e-8, 13)]
    at = np.r_[1.0, 10.0, np.arange(25.0, 301.0, 25.0)]
    found = diagnose(make_run(at, reward, signals={"learning_rate": rate})).status
    assert (found.status, found.finding.kind) == ("done", "ended")
    assert "the reward rose from 0.3" in found.headline


def test_a_signal_that_is_nan_in_every_row_is_not_called_unrecognized():
    kl = np.full(40, np.nan)
    found = diagnose(make_run(steps(40), np.linspace(0.2, 0.6, 40), signals={"kl": kl}, written=["kl"]))
    assert found.empty == ("kl",)
    assert "kl" not in found.missing
    assert view(found).unchecked.endswith("kl (NaN in every row)")
