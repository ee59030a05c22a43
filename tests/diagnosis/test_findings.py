"""Findings that a logged quantity defines: lost values, one-sided groups, idle steps, engines that part."""

from typing import Any

import numpy as np
import pytest

from bayes_grpo import diagnose, view
from bayes_grpo.diagnosis.modes.one_sided_groups import sides_of
from tests.helpers.runs import evaluated, make_run, rising_run, steps

ROWS = 40
RISING = 0.8 - 0.6 * np.exp(-steps(ROWS) / 15.0) + 0.02 * np.random.default_rng(0).standard_normal(ROWS)


def test_values_that_are_nan_at_the_end_lead_and_others_are_over():
    at_end, before = np.ones(ROWS), np.ones(ROWS)
    at_end[-8:], before[[20, 21]] = np.nan, np.nan
    dead = np.where(np.isnan(at_end), 0.0, RISING)
    found = diagnose(make_run(steps(ROWS), dead, signals={"grad_norm": at_end}, written=["grad_norm"]))
    assert (found.status.status, found.status.finding.mode) == ("failed", "lost_values")
    assert found.status.headline == "Grad norm is NaN since about step 33."
    assert "NaN cannot be recovered" in found.status.action.sentence
    over = diagnose(make_run(steps(ROWS), RISING, signals={"grad_norm": before}, written=["grad_norm"]))
    assert over.status.status == "fine"
    assert "Earlier, now over: NaN or infinite values" in over.sentence


def test_a_nan_in_the_last_row_alone_leads_to_its_batch():
    loss = np.where(steps(ROWS) == ROWS, np.nan, 0.1)
    top = diagnose(make_run(steps(ROWS), RISING, signals={"loss": loss}, written=["loss"])).status
    assert (top.status, top.finding.mode) == ("watch", "lost_values")
    assert top.action.sentence.startswith("check the batch that caused it")


@pytest.mark.parametrize("kept", [steps(ROWS) > 3, steps(ROWS) < ROWS - 10, np.arange(ROWS) % 10 == 0])
def test_a_value_that_was_not_logged_is_no_nan(kept):
    signal = np.where(kept, 1.0, np.nan)
    assert "lost_values" not in diagnose(make_run(steps(ROWS), RISING, signals={"grad_norm": signal})).probability


def test_nan_counts_from_the_first_value_on_and_throughout_without_one():
    loss = np.where(steps(ROWS) > 6, 0.1, np.nan)  # a buffer fills first
    for values, failed in ((loss, False), (np.full(ROWS, np.nan), True)):
        found = diagnose(make_run(steps(ROWS), RISING, signals={"loss": values}, written=["loss"]))
        assert ("lost_values" in found.probability) == failed == ("NaN" in found.sentence)


@pytest.mark.parametrize(("level", "word", "prompts"), [(0.85, "all correct", "harder"), (0.12, "all wrong", "easier")])
def test_one_sided_groups_need_opposite_prompts(level, word, prompts):
    reward = level + 0.02 * np.random.default_rng(1).standard_normal(ROWS)
    run = make_run(
        steps(ROWS),
        reward,
        signals={"frac_reward_zero_std": np.full(ROWS, 0.8)},
        reward_low=0.0,
        reward_high=1.0,
        group_size=8,
    )
    found = diagnose(run)
    assert found.probability["one_sided_groups"] > 0.8
    assert word in found.evidence["one_sided_groups"]
    assert prompts in found.remedies["one_sided_groups"][0].sentence


def test_both_kinds_of_groups_add_up_to_those_without_spread():
    share = np.array([0.3, 0.6])
    (right, wrong), (right_of_hard, wrong_of_hard) = sides_of(share, 0.9, 8), sides_of(share, 0.1, 8)
    assert right + wrong == pytest.approx(share)
    assert right == pytest.approx(wrong_of_hard)
    assert wrong == pytest.approx(right_of_hard)
    assert np.all(right > 5.0 * wrong)


def test_idle_steps_say_what_they_cost():
    share = np.where(np.arange(ROWS) % 2 == 0, 1.0, 0.3)
    run = make_run(
        steps(ROWS), RISING, signals={"frac_reward_zero_std": share, "step_time": np.full(ROWS, 360.0)},
        reward_low=0.0, reward_high=1.0,
    )  # fmt: skip
    found = diagnose(run)
    assert found.probability["idle_steps"] > 0.5
    assert "20 of 40 rows have no reward variance; they took 2 of the run's 4 hours" in (found.evidence["idle_steps"])
    assert "idle_steps" not in diagnose(rising_run(ROWS, reward_low=0.0, reward_high=1.0)).remedies


def test_a_loss_of_0_above_a_gradient_is_no_idle_step():
    loss = np.where(np.arange(ROWS) % 10 == 0, 0.02, 0.0)  # rounded to 0, as centered advantages average to
    norms = np.full(ROWS, 1.5), np.where(loss > 0.0, 1.5, 0.0)
    runs = [make_run(steps(ROWS), RISING, signals={"loss": loss, "grad_norm": norm}) for norm in norms]
    assert [diagnose(run).probability["idle_steps"] > 0.5 for run in runs] == [False, True]


def test_bursts_of_single_rows_are_no_instability():
    rng = np.random.default_rng(5)
    norm, kl = np.full(80, 1.0), np.full(80, 0.08)
    norm[[3, 16, 26, 32, 71]], kl[[25, 27, 68]] = 3000.0, 20.0
    reward = 0.7 - 0.55 * np.exp(-steps(80) / 15.0) + 0.04 * rng.standard_normal(80)
    reward[-10:] -= 0.03  # a little below its best
    found = diagnose(make_run(steps(80), reward, signals={"grad_norm": norm, "kl": kl}))
    assert not found.status.alarming
    assert found.probability["dynamical_instability"] < 0.3
    kl[-20:] = 20.0
    high = diagnose(make_run(steps(80), reward, signals={"kl": kl})).status
    assert (high.status, high.finding.kind) == ("watch", "instability_signs")


def test_a_few_noisy_rows_show_no_ceiling():
    settings: dict[str, Any] = {"reward_low": 0.0, "reward_high": 1.0}
    few = np.array([0, 0.75, 0.625, 0.75, 0.625, 1, 0.5, 1, 0.875, 0.75, 1, 1, 0.875])
    whole = {"frac_reward_zero_std": np.isin(few, (0.0, 1.0)).astype(float)}  # one group a row
    for signals in ({}, whole):
        top = diagnose(make_run(steps(13), few, signals=signals, **settings)).status
        assert top.status in ("unclear", "fine")
    many = 0.98 + 0.02 * np.sin(np.arange(40.0))
    assert diagnose(make_run(steps(40), many, **settings)).status.status == "done"


def test_steps_without_variance_at_the_beginning_are_no_growth_of_the_gradient_norm():
    """Where rewards are equal the norm is near 0: 0.6 in all late rows and in a third of the early ones is calm."""
    n = 80
    norm = np.where((np.arange(n) < 20) & (np.arange(n) % 3 > 0), 0.006, 0.6)
    calm = diagnose(make_run(steps(n), 0.3 + 0.005 * steps(n), signals={"grad_norm": norm})).status
    assert (calm.status, "norm" in calm.headline) == ("fine", False)
    grown = diagnose(
        make_run(steps(n), 0.3 + 0.005 * steps(n), signals={"grad_norm": np.geomspace(0.1, 9.0, n)})
    ).status
    assert "gradient norm grew" in grown.headline


def test_the_last_checkpoint_is_nothing_to_go_back_to():
    """A gradient norm that grew a hundredfold while both rewards are at their best: nothing is lost."""
    n = 60
    reward, norm = 0.1 + 0.008 * steps(n), np.geomspace(0.05, 30.0, n)
    found = diagnose(
        make_run(
            steps(n),
            reward,
            signals={"grad_norm": norm},
            evals=evaluated(np.arange(10.0, n + 1, 10), 0.1 + 0.008 * np.arange(10, n + 1, 10)),
        )
    )
    assert not found.status.alarming
    assert "go back" not in " ".join(x.sentence for x in (found.status.action, *found.status.actions))


def test_what_to_wait_for_fits_the_plan():
    reward = np.array([0.3, 0.32, 0.31])
    coarse = diagnose(make_run([10, 20, 30], reward, window=10.0, total_steps=43)).status
    assert "log more often: at its planned end the log has 4 rewards" in coarse.action.sentence
    assert (
        "28 rewards"
        in diagnose(
            make_run(steps(20)[:18], 0.3 + 0.1 * np.sin(np.arange(18.0)), total_steps=28)
        ).status.action.sentence
    )
    passed = diagnose(make_run(steps(30), 0.3 + 0.01 * steps(30), total_steps=7)).status
    assert passed.status == "fine"


def test_nearly_all_completions_truncated_is_measured_in_a_few_rows():
    signals = {"completions_clipped_ratio": np.array([0.3, 0.97, 0.995])}
    top = diagnose(make_run([10, 20, 30], np.array([1.9, 0.5, 0.9]), signals=signals)).status
    assert (top.status, top.finding.mode) == ("watch", "truncated_completions")
    assert "length limit" in top.action.sentence
    signals = {"completions_clipped_ratio": np.full(30, 0.9)}
    always = diagnose(make_run(10.0 * steps(30), np.linspace(0.0, 0.1, 30), signals=signals)).status
    assert "since about step 10:" in always.headline


def test_two_evaluations_are_a_held_out_score_that_is_logged():
    run = make_run(steps(20), 0.02 + 0.008 * steps(20), evals=evaluated(np.array([10.0, 20.0]), np.array([0.04, 0.15])))
    assert not any("evaluation" in x for x in diagnose(run).missing)


def test_a_run_that_is_over_is_not_to_be_watched():
    """Gradient norms that grew by ten while the learning rate went to 0: nothing is left to check again."""
    n = 60
    signals = {"grad_norm": np.geomspace(0.5, 30.0, n), "learning_rate": 1e-5 * (1.0 - steps(n) / n)}
    run = make_run(steps(n), 0.1 + 0.008 * steps(n), signals=signals, schedule="logged")
    top = diagnose(run).status
    assert "gradient norm" in top.headline
    assert "check again" not in top.action.sentence


def test_steps_from_0_are_over_one_step_before_their_number():
    reward = 0.2 + 0.02 * np.arange(30.0)
    assert diagnose(make_run(np.arange(30.0), reward, total_steps=30)).status.status == "done"
    assert diagnose(make_run(steps(29), reward[:29], total_steps=30)).status.status == "fine"


def test_a_loss_of_0_with_a_gradient_is_normal():
    run = make_run(steps(ROWS), RISING, signals={"loss": 0.0, "clip_ratio": 0.0, "grad_norm": 0.2, "reward_std": 0.3})
    found = diagnose(run)
    assert found.evidence["zero_loss"] == (
        "the loss is 0 in 40 of 40 rows and the clip ratio is 0 in 40 of 40 rows. That is normal with one update a "
        "rollout: centered advantages average to 0 and every ratio is 1. The gradient norm is not 0 (median 0.2)"
    )
    assert "That is normal" in view(found).why
    assert found.probability["lost_gradient"] < 0.01
    several = make_run(steps(ROWS), RISING, signals={"clip_ratio": 0.0, "grad_norm": 0.2}, refresh_interval=4)
    assert "no ratio leaves the clip range" in diagnose(several).evidence["zero_loss"]
    unknown = make_run(steps(ROWS), RISING, signals={"loss": 1e-9})
    assert diagnose(unknown).evidence["zero_loss"].endswith("Log the gradient norm: it should be above 0")


@pytest.mark.parametrize(("reward", "why"), [(RISING, "reported wrongly"), (RISING[0] + 0 * RISING, "update is lost")])
def test_a_gradient_of_0_in_groups_with_spread_is_a_finding(reward, why):
    """The rows of a public report: loss and gradient norm 0, a reward std of 0.44 and no group without spread."""
    noisy = reward + 0.02 * np.random.default_rng(2).standard_normal(ROWS)
    signals = {"loss": 0.0, "grad_norm": 0.0, "reward_std": 0.44, "frac_reward_zero_std": 0.0, "kl": 0.0}
    found = diagnose(make_run(steps(ROWS), noisy, signals=signals))
    assert (found.status.status, found.status.finding.mode) == ("watch", "lost_gradient")
    assert why in found.status.headline
    assert "40 of 40 rows with reward variance have a gradient norm of exactly 0" in found.status.headline
    assert found.status.action.sentence.startswith("upgrade DeepSpeed")
    assert "zero_loss" not in found.evidence


@pytest.mark.parametrize(
    "signals",
    [
        {"grad_norm": 0.0, "reward_std": 0.0},  # no group has spread, so the gradient is 0
        {"grad_norm": 0.0, "reward_std": 0.3, "learning_rate": 0.0},
        {"grad_norm": np.where(np.arange(ROWS) % 8 == 0, 0.0, 1.0), "reward_std": 0.3},
    ],
)
def test_a_gradient_of_0_that_has_a_reason_is_none(signals):
    assert diagnose(make_run(steps(ROWS), RISING, signals=signals)).probability.get("lost_gradient", 0.0) < 0.01


@pytest.mark.parametrize(
    ("late", "middle"),
    [(0.0, 0.0), (0.002, 0.0), (0.0, 0.01)],
    ids=["no score differs", "the last score is the best", "noise about 0"],
)
def test_a_hacked_run_without_a_better_checkpoint_is_to_stop(late, middle):
    at = np.arange(4.0, ROWS + 1, 4)
    scores = np.linspace(0.0, late, len(at))
    scores[len(at) // 2] += middle
    found = diagnose(make_run(steps(ROWS), np.linspace(0.2, 0.8, ROWS), evals=evaluated(at, scores)))
    assert (found.status.status, found.status.finding.mode) == ("failing", "reward_hacking")
    assert found.status.action.sentence.startswith("stop, and start over with a corrected reward")
    assert "go back to" not in found.status.action.sentence.partition(":")[0]
    scores[2:5] = 0.04, 0.045, 0.04
    better = diagnose(make_run(steps(ROWS), np.linspace(0.2, 0.8, ROWS), evals=evaluated(at, scores)))
    lines = [x.sentence for x in (better.status.action, *better.status.actions)]
    assert better.status.action.sentence.startswith("stop, and go back to the checkpoint")
    assert not any("start over" in x for x in lines)


def test_few_rows_that_fell_are_not_called_calm():
    fell = diagnose(make_run(steps(6), np.array([0.77, 0.94, 0.59, 0.26, 0.43, 0.31]))).status
    assert (fell.status, fell.finding.kind) == ("watch", "falls_early")
    assert (
        fell.action.sentence
        == "check again when the log has 12 rewards; if it still falls, stop and lower the learning rate."
    )
    mixed = diagnose(make_run(steps(6), np.array([0.77, 0.3, 0.59, 0.26, 0.43, 0.31]))).status
    assert "fell" not in mixed.sentence


def test_more_rows_are_not_asked_of_a_log_of_every_step():
    plan = diagnose(make_run(steps(6), 0.3 + 0.1 * np.sin(np.arange(6.0)), total_steps=9)).status
    assert "plan more steps: at its planned end the log has 9 rewards" in plan.action.sentence


def test_a_spent_learning_rate_ends_a_run_whose_plan_is_unknown():
    rate = np.maximum(np.linspace(1.0, -0.2, 40), 0.0) * 1e-5
    over = diagnose(make_run(steps(40), np.linspace(0.2, 0.6, 40), signals={"learning_rate": rate})).status
    assert over.status == "done"
    assert over.headline.startswith("The learning rate reached zero at step 34; the reward rose from 0.2")
    rate = np.linspace(1.0, 0.008, 40) * 1e-5
    low = diagnose(make_run(steps(40), np.linspace(0.2, 0.6, 40), signals={"learning_rate": rate})).status
    assert low.status == "done"
    assert low.headline.startswith("The learning rate is at 0.8% of its peak; the reward rose from 0.2")


def test_a_log_of_evaluations_alone_has_its_jumps_and_its_own_reward():
    noise = 0.01 * np.random.default_rng(9).standard_normal(60)
    evals = evaluated(steps(60), np.repeat([0.2, 0.6], 30) + noise)
    gold = np.where(steps(80) > 10, 0.3, np.nan)
    for run in (
        make_run([], [], evals=evals),
        make_run(steps(80), np.full(80, np.nan), signals={"gold_reward": gold}, evals=evals),
    ):
        assert "the reward jumped from 0.2 to 0.59 at step 31" in diagnose(run).sentence


def test_a_score_has_the_name_of_what_is_logged_more_often():
    at, gold = np.arange(4.0, 121.0, 4.0), np.full(120, np.nan)
    gold[::50] = 0.3
    evals = evaluated(at, np.interp(at, [4.0, 62.0, 120.0], [0.15, 0.25, 0.2]))
    run = make_run(steps(120), np.linspace(0.2, 0.35, 120), signals={"gold_reward": gold}, evals=evals, reward_high=1.0)
    assert diagnose(run).status.headline.startswith("The evaluation reward fell")


@pytest.mark.parametrize(
    ("late", "words", "first"),
    [
        (
            0.5,
            "The reward fell to 0 at step 71 and stays there, while the evaluation reward is at 0.5",
            "test the verifier",
        ),
        (0.0, "The reward fell from 0.6 to 0 since about step 71", "stop, and go back"),
    ],
)
def test_a_reward_stuck_at_0_is_the_verifier_where_the_evaluation_holds(late, words, first):
    noise = 0.03 * np.random.default_rng(4).standard_normal(100)
    y = np.where(np.arange(100) < 70, 0.6 + noise, 0.0)
    at = np.arange(5.0, 100.0, 5.0)
    found = diagnose(make_run(steps(100), y, evals=evaluated(at, np.where(at < 71, 0.5, late) + 0.01 * np.cos(at))))
    assert found.status.headline.startswith(words)
    assert found.status.action.sentence.startswith(first)
    assert found.onsets["dynamical_instability"].step.median == 71.0
