"""Decisions of who keeps checkpoints, against cases that can be solved by hand and simulations."""

from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.checkpoints import Checkpoints, checkpoint_rewards, recalled
from bayes_grpo.decision.decide import StoppingCosts, decide, with_checkpoints
from tests.decision.test_decision import made
from tests.helpers.paths import fit_path, not_none
from tests.helpers.runs import make_run

STEP = np.arange(2.0, 101.0, 2.0)


def ahead(latent, logged, noise=1e-4):
    """A forecast from step 100 on, of a log with these rows."""
    rng = np.random.default_rng(0)
    found = made(latent, latent_now=np.asarray(logged)[-1])
    found.rows = found.latent + noise * rng.standard_normal(found.latent.shape)
    found.logged_step, found.logged = STEP, np.asarray(logged) + noise * rng.standard_normal(len(STEP))
    return found


def test_a_stop_after_a_peak_keeps_the_peak_and_costs_the_steps_alone():
    rises = np.minimum(STEP, 60.0) / 100.0 - np.maximum(STEP - 60.0, 0.0) / 200.0  # 0.6 at step 60, 0.4 now
    falls = np.tile(0.4 - 0.01 * np.arange(1, 11), (200, 1))
    _, reward, choice = recalled(ahead(falls, rises), Checkpoints(np.arange(10.0, 101.0, 10.0), 10.0))
    assert choice.step == 60.0
    assert choice.probability > 0.9
    assert choice.ahead.median == pytest.approx(0.2, abs=0.03)  # the path rounds the kink off
    assert reward == pytest.approx(0.6, abs=0.03)  # whatever comes, the peak can be had
    stopping = decide(ahead(falls, rises), cost_per_step=1.0, value_per_reward=100.0, checkpoints=Checkpoints(
        np.arange(10.0, 101.0, 10.0), 10.0))  # fmt: skip
    assert stopping.stops_now
    assert stopping.net == pytest.approx(-10.0 * np.arange(11), abs=1.0)
    assert "Take the checkpoint of step 60" in stopping.sentence
    last = decide(ahead(falls, rises), cost_per_step=1.0, value_per_reward=100.0)
    assert last.net[-1] == pytest.approx(-100.0 - 10.0)


def test_a_swing_is_worth_its_top_whenever_it_is_stopped():
    t = np.arange(1, 41)
    swing = np.tile(0.5 + 0.2 * np.sin(0.3 * t), (200, 1))
    flat = np.full(len(STEP), 0.5)
    _, reward, _ = recalled(ahead(swing, flat), Checkpoints(np.arange(10.0, 101.0, 10.0), 10.0))
    assert np.all(np.diff(reward[:, 1:], axis=1) > -0.02)
    assert reward[:, -1] == pytest.approx(0.7, abs=0.02)
    _, sparse, _ = recalled(ahead(swing, flat), Checkpoints(np.empty(0)))  # nothing is kept but the policy of the stop
    assert sparse[:, -1] == pytest.approx(swing[:, -1], abs=0.02)


@pytest.mark.thorough
def test_the_best_score_is_too_high_by_chance_and_the_picked_one_is_not():
    rng = np.random.default_rng(1)
    saved, noise, top, mine, optimism = np.arange(10.0, 101.0, 10.0), 0.05, [], [], []
    for _ in range(60):
        true = 0.4 + 0.002 * saved * rng.uniform(0.0, 1.0)
        rows = np.interp(STEP, saved, true) + 0.03 * rng.standard_normal(len(STEP))
        score = true - 0.1 + noise * rng.standard_normal(len(saved))  # the evaluation reward lies lower
        path = fit_path(STEP, rows, seed=1)
        given = Checkpoints(saved, 10.0, saved, score, noise)
        choice = checkpoint_rewards(path, given, 100.0).choice(given)
        best, place = int(np.argmax(score)), int(np.flatnonzero(saved == choice.step)[0])
        top.append(score[best] - (true[best] - 0.1))
        mine.append(choice.reward.median - (true[place] - 0.1))
        optimism.append(choice.optimism)
    assert np.mean(top) > 0.03
    assert abs(np.mean(mine)) < 0.015
    assert np.mean(optimism) == pytest.approx(np.mean(top), abs=0.015)


def test_scores_that_part_from_the_rows_are_believed():
    saved = np.arange(10.0, 101.0, 10.0)
    path = fit_path(STEP, 0.2 + 0.005 * STEP + 0.01 * np.random.default_rng(0).standard_normal(50), seed=1)
    parted = Checkpoints(saved, 10.0, saved, 0.5 - np.abs(saved - 40.0) / 200.0, 0.01)
    assert checkpoint_rewards(path, parted, 100.0).choice(parted).step == 40.0
    unscored = parted._replace(scored=np.empty(0), score=np.empty(0))
    assert checkpoint_rewards(path, unscored, 100.0).choice(parted).step == 100.0
    with pytest.raises(SettingError, match="steps above 0"):
        Checkpoints(saved, 0.0).checked(100.0)


def checkpoints_of(costs=None, source="run", **settings):
    """The checkpoints of a run with a log at some place."""
    run = make_run(STEP, 0.01 * STEP, window=2.0, evals={50.0: 0.3, 100.0: 0.5}, **settings)
    return with_checkpoints(costs or StoppingCosts(), replace(run, source=str(source))).saved


def test_checkpoints_come_from_user_folder_or_settings(tmp_path):
    assert checkpoints_of() is None
    saved = not_none(checkpoints_of(save_steps=30.0))
    assert saved.saved.tolist() == [30.0, 60.0, 90.0]
    assert saved.every == 30.0
    assert saved.score.tolist() == [0.3, 0.5]
    assert checkpoints_of(save_steps=500.0, total_steps=200.0) is None
    for name in ("checkpoint-40", "checkpoint-80", "checkpoint-400", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "log.jsonl").write_text("{}")
    found = not_none(checkpoints_of(StoppingCosts(cost_per_step=1.0, value_per_reward=9.0), tmp_path / "log.jsonl"))
    assert found.saved.tolist() == [40.0, 80.0]
    assert found.every == 40.0
    stated = not_none(checkpoints_of(StoppingCosts(checkpoints=25.0), tmp_path / "log.jsonl"))
    assert stated.saved.tolist() == [25.0, 50.0, 75.0, 100.0]
