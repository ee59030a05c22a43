"""Findings that a logged quantity defines: lost values, one-sided groups, idle steps, engines that part."""

import numpy as np
import pytest

from bayes_grpo import diagnose, view
from tests.helpers.runs import evaluated, make_run, steps

ROWS = 40
RISING = 0.8 - 0.6 * np.exp(-steps(ROWS) / 15.0) + 0.02 * np.random.default_rng(0).standard_normal(ROWS)


def test_nan_counts_from_the_first_value_on_and_throughout_without_one():
    loss = np.where(steps(ROWS) > 6, 0.1, np.nan)  # a buffer fills first
    for values, failed in ((loss, False), (np.full(ROWS, np.nan), True)):
        found = diagnose(make_run(steps(ROWS), RISING, signals={"loss": values}, written=["loss"]))
        assert ("lost_values" in found.probability) == failed == ("NaN" in found.sentence)


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


def test_a_log_of_evaluations_alone_has_its_jumps_and_its_own_reward():
    noise = 0.01 * np.random.default_rng(9).standard_normal(60)
    evals = evaluated(steps(60), np.repeat([0.2, 0.6], 30) + noise)
    gold = np.where(steps(80) > 10, 0.3, np.nan)
    for run in (
        make_run([], [], evals=evals),
        make_run(steps(80), np.full(80, np.nan), signals={"gold_reward": gold}, evals=evals),
    ):
        assert "the reward jumped from 0.2 to 0.59 at step 31" in diagnose(run).sentence
