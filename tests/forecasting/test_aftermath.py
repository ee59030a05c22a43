"""What a forecast makes of a reward that has fallen, and that nothing moves once the learning rate has reached zero."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.fitting.window import fit_window
from bayes_grpo.forecasting.events import COLLAPSE, RewardPaths
from bayes_grpo.forecasting.mixture import REGAINED, Mixture, clip_recovery, freeze_after_schedule
from bayes_grpo.signals.loss import fallen_in
from tests.helpers.cases import dipped_then_collapsed
from tests.helpers.paths import not_none
from tests.helpers.runs import rising_run


def fallen():
    run = dipped_then_collapsed()
    return not_none(fallen_in(run, "reward"))


def test_where_a_held_out_score_is_logged_diagnosis_and_decision_go_back_to_its_best():
    run = dipped_then_collapsed()
    score = np.where(np.abs(run.step - 20.0) <= 1.0, 0.9, 0.1) + np.where(run.step == 20.0, 0.05, 0.0)
    scored = replace(run, eval_step=run.step, eval_reward=score)
    found = not_none(fallen_in(scored, "reward"))
    assert found.saved_step == pytest.approx(20.0, abs=1.0)
    assert found.saved_step < found.best_step
    assert (
        f"go back to the checkpoint of about step {found.saved_step:.0f}, the best by evaluation reward"
        in diagnose(scored).status.action.sentence
    )


def test_what_the_diagnosis_calls_lost_is_lost_to_fit_and_forecast():
    """A level that began high and lost more than half of itself."""
    rng = np.random.default_rng(1)
    y = np.concatenate([np.full(24, 0.75), np.full(24, 0.3)]) + 0.03 * rng.standard_normal(48)
    run = rising_run(48)
    run = replace(run, reward=y)
    assert diagnose(run).status.status == "failed"
    assert fallen_in(run, "reward") is not None
    assert fit_window(run).start_step is not None


def test_laws_are_held_within_what_fallen_runs_regain():
    lost = fallen().best - fallen().now
    assert clip_recovery(fallen(), np.array([1e9, -1e9])) == pytest.approx(
        [fallen().now + share * lost for share in REGAINED[::-1]]
    )


def test_where_a_rate_has_ended_a_run_ends_where_it_is():
    """The end under the remaining schedule was the law's own course, and said a gain that no step could bring."""
    course = np.array([[0.5, 0.6, 0.7], [0.5, 0.55, 0.6]])
    mixture = Mixture(
        paths=RewardPaths(course, course, course + 0.1),
        regime=np.array(["exponential"] * 2),
        event=np.array(["", COLLAPSE]),
        fixed=np.array([0.9, 0.1]),
        final=np.array([0.7, 0.1]),
        shares={"exponential": 1.0},
    )
    requested: Any = SimpleNamespace(step=np.array([10.0, 20.0, 30.0]))
    for ends, final in ((10.0, [0.5, 0.1]), (20.0, [0.6, 0.1]), (np.inf, [0.7, 0.1])):
        ahead: Any = SimpleNamespace(ends=ends)
        frozen = freeze_after_schedule(mixture, requested, ahead)
        assert frozen.final == pytest.approx(final)
        assert frozen.paths.rows - frozen.paths.latent == pytest.approx(0.1)
