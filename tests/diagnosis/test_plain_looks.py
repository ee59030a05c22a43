"""What a log shows where its paths tell little: few or noisy rows, parts not in the total, columns not measured."""

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


def test_groups_without_variance_stand_on_the_first_screen_of_an_open_verdict_and_of_a_rise():
    """Only --details had them, where the reward neither rose nor rested; a failed run has one thing to say."""
    rng = np.random.default_rng(5)
    flat = 0.2 + 0.08 * rng.standard_normal(16)
    share = np.where(np.arange(16) % 4, 0.875, 0.75)
    risen = np.linspace(0.2, 0.6, 40) + 0.02 * rng.standard_normal(40)
    dead = np.where(np.arange(40) % 3, 0.0, 0.3)
    for y, signal, said in (
        (flat, {"frac_reward_zero_std": share}, "86% of the groups have zero reward variance, so 14% of each batch"),
        (risen, {"reward_std": dead}, "13 of the last 20 rows have no reward variance"),
    ):
        found = diagnose(make_run(steps(len(y)), y, signals=signal))
        assert found.status.status in ("unclear", "fine")
        assert said in view(found).why
        assert said in found.status.sentence
        assert [x["sentence"] for x in found.to_dict()["status"]["looks"]] == [x.sentence for x in found.status.looks]
    lost = np.repeat([0.6, 0.1], 20) + 0.02 * rng.standard_normal(40)
    assert diagnose(make_run(steps(40), lost, signals={"reward_std": dead})).status.looks == ()


def test_an_accuracy_that_falls_while_the_reward_rises_is_a_look_and_one_that_rises_too_is_none():
    """The reward rose to its end, and nothing was said of the accuracy, which had been best in the middle."""
    step = np.arange(100.0, 1000.0, 100.0)
    reward = np.array([0.8, 1.05, 1.15, 1.2, 1.24, 1.26, 1.3, 1.42, 1.5])
    parted = np.array([0.5, 0.74, 0.81, 0.85, 0.88, 0.88, 0.84, 0.81, 0.85])
    shared = np.array([0.5, 0.6, 0.65, 0.68, 0.72, 0.74, 0.76, 0.81, 0.85])
    found = diagnose(make_run(step, reward, signals={"accuracy": parted})).status
    assert (found.status, found.finding.kind, found.finding.signals) == ("watch", "goal_parts", ("accuracy",))
    assert found.finding.numbers["fell"] > 0.5
    assert found.headline.startswith("The train reward rose from 1.3 to 1.5 since about step 600 while the accuracy")
    assert found.action.kind == "look"
    assert diagnose(make_run(step, reward, signals={"accuracy": shared})).status.status == "fine"
    cut = np.full(9, 0.9)
    other = diagnose(make_run(step, reward, signals={"accuracy": parted, "completions_clipped_ratio": cut})).status
    assert other.finding.kind == "truncated_completions"
    assert [x.kind for x in other.looks] == ["goal_parts"]
    solved = np.array([0.5, 0.9, 0.97, 0.98, 0.99, 0.985, 0.99, 0.985, 0.99])
    assert diagnose(make_run(step, reward, signals={"accuracy": solved})).status.status == "fine"


def test_a_task_that_falls_under_a_total_that_another_part_raises_is_a_look():
    rng = np.random.default_rng(8)
    half = np.repeat([0.0, 1.0], 40) * np.linspace(-1.0, 1.0, 80)
    task = 0.6 - 0.15 * half + 0.02 * rng.standard_normal(80)
    form = 0.2 + 0.5 * np.linspace(0.0, 1.0, 80) + 0.02 * rng.standard_normal(80)
    parts = {"correctness_reward": task, "novelty_reward": form}
    found = diagnose(make_run(steps(80), task + form, components=parts)).status
    assert (found.status, found.finding.kind, found.finding.signals) == ("watch", "goal_parts", ("correctness_reward",))


def test_a_kl_that_is_far_is_said_next_to_a_rise_and_raises_no_alarm():
    rng = np.random.default_rng(6)
    reward = np.linspace(-2.0, -0.2, 90) + 0.1 * rng.standard_normal(90)
    for kl, said in (
        (4.0, "The KL to the reference is 4 nats, which is far."),
        (0.6, "The KL to the reference is 0.6 nats, more than in most runs."),
        (0.05, ""),
    ):
        found = diagnose(make_run(steps(90), reward, signals={"kl": np.full(90, kl)})).status
        assert found.status == "fine"
        assert [x.sentence for x in found.looks] == [said] * bool(said)


@pytest.mark.parametrize("rows", [4, 12])
def test_a_reward_of_length_whose_completions_all_end_at_the_limit_names_the_limit_first(rows):
    signals = {"completion_length": 256.0, "reward_std": 0.0}
    found = diagnose(make_run(steps(rows), np.full(rows, -236.0), signals=signals)).status
    assert found.action.setting == "max_completion_length"
    assert f"The completion length is 256 in all {rows} rows" in found.sentence
    free = signals | {"completion_length": 200.0 + steps(rows)}
    assert diagnose(make_run(steps(rows), np.full(rows, -236.0), signals=free)).status.action.setting == ""


def test_a_score_that_nearly_all_rows_share_is_the_scorer_s_and_calls_for_no_easier_prompts():
    same = np.full(30, 0.5)
    same[4] = 0.557
    found = diagnose(make_run(steps(30), same)).status
    assert "The reward is 0.5 in 29 of 30 rows, as of a scorer that hardly separates answers." in found.sentence
    assert (found.action.kind, found.action.subject) == ("look", "scorer")
    assert not any(x.kind == "change_prompts" and x.subject == "easier" for x in found.actions)
    sparse = diagnose(make_run(steps(30), np.where(np.arange(30) == 4, 0.5, 0.0))).status
    apart = diagnose(make_run(steps(30), same, signals={"reward_std": 0.2})).status
    assert "scorer" not in sparse.sentence + apart.sentence
