"""Definitions on the rows: what they hold for, what they leave alone, and how few rows say nothing."""

from typing import Any

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.diagnosis.logged import Logged
from bayes_grpo.diagnosis.mode import MEASURED, MOST_PROBABLE, all_modes
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import ALARMING, MODES
from bayes_grpo.rows.reward_range import RewardRange
from tests.diagnosis.conftest import ROWS
from tests.helpers.runs import evaluated, make_run, rising_run, steps


def lost(values, **ends):
    return Logged(steps(len(values)), np.asarray(values)).loss(RewardRange(**{"low": 0.0, "high": 1.0, **ends}))


@pytest.mark.parametrize("rows", [3, 4, 6, 8, 10, 15, 20, 30, 50])
@pytest.mark.parametrize("sd", [0.02, 5.0])
def test_noise_about_one_level_is_no_failure(rows, sd):
    for seed in range(5):
        y = 0.4 + sd * np.random.default_rng(seed).standard_normal(rows)
        assert diagnose(make_run(steps(rows), y)).status.status not in ALARMING


@pytest.mark.parametrize("seed", range(5))
def test_few_rows_give_no_certainty(seed):
    y = np.random.default_rng(seed).uniform(0.0, 1.0, 4)
    found = diagnose(make_run(steps(4), y, components={"format_reward": y, "correctness": y[::-1].copy()}))
    assert max(found.probability.values()) <= 0.9
    assert found.status.status == "unclear"
    assert len(found.status.headline.split()) <= 20


def test_a_fall_counts_beyond_noise_range_and_gain():
    noise = 0.02 * np.random.default_rng(0).standard_normal(60)
    up, down = np.linspace(0.2, 0.8, 40), np.full(20, 0.1)
    assert lost(np.concatenate([up, down]) + noise) > 1.0
    assert lost(np.concatenate([up, np.full(20, 0.7)]) + noise) < 1.0
    assert lost(np.concatenate([up, down]) + 20.0 * noise) < 1.0
    assert lost(np.concatenate([up, down[:2]]) + noise[:42]) == 0.0, "a jump of two rows"
    assert lost(np.full(60, 0.5)) == 0.0


def test_a_dip_that_is_over_is_told_with_its_steps_and_is_no_failure():
    y = 0.6 + 0.02 * np.random.default_rng(1).standard_normal(160)
    y[80:95] -= 0.45
    found = diagnose(make_run(steps(160), y))
    assert found.status.status not in ALARMING
    assert "Earlier, now over: the reward fell to 0.1" in found.sentence
    assert "dynamical instability from about step " in found.sentence
    assert diagnose(make_run(steps(160), y).until(93.0)).status.status == "failed"


def test_groups_without_spread_fail_only_without_progress():
    rng = np.random.default_rng(2)
    share, low = {"frac_reward_zero_std": 0.9}, 0.1 + 0.01 * rng.standard_normal(60)
    ends: Any = {"reward_low": 0.0, "reward_high": 1.0}
    assert diagnose(make_run(steps(60), low, signals=share, **ends)).status.status == "failing"
    for y in (np.linspace(0.1, 0.5, 60) + 0.01 * rng.standard_normal(60), 0.85 + 0.01 * rng.standard_normal(60)):
        found = diagnose(make_run(steps(60), y, signals=share, **ends))
        assert found.status.status not in ALARMING
    assert "Mostly solved: the train reward is at 85% of its range; 90% of the groups" in found.status.headline


def test_one_reward_in_every_row_is_measured_and_named_at_ten_rows():
    found = diagnose(make_run(steps(10), np.zeros(10), signals={"reward_std": 0.0}))
    assert (found.status.status, found.status.finding.mode) == ("failing", "advantage_degeneracy")
    assert "every row" in found.status.headline
    assert "verifier" in found.status.action.sentence
    assert diagnose(make_run(steps(5), np.zeros(5), signals={"reward_std": 0.0})).status.status not in ALARMING


def test_hacking_is_a_rise_next_to_nothing_or_to_a_loss(rising, hacked):
    at = np.arange(4.0, ROWS + 1, 4)
    hollow = make_run(steps(ROWS), rising, evals=evaluated(at, np.zeros(len(at))))
    assert diagnose(hollow).status.finding.mode == "reward_hacking"
    assert diagnose(hacked).status.finding.mode == "reward_hacking"


def test_a_gradient_norm_or_a_kl_that_explodes_is_instability(rising):
    norm = np.where(np.arange(ROWS) < 60, 1.0, 500.0)
    assert (
        diagnose(make_run(steps(ROWS), rising, signals={"grad_norm": norm})).status.finding.mode
        == "dynamical_instability"
    )
    kl = np.where(np.arange(ROWS) < 70, 0.01, 30.0)
    assert diagnose(make_run(steps(ROWS), rising, signals={"kl": kl})).probability["dynamical_instability"] > 0.5


def test_entropy_that_is_spent_counts_where_nothing_was_earned():
    entropy = {"entropy": np.geomspace(1.0, 0.01, 60)}
    flat = 0.2 + 0.02 * np.random.default_rng(3).standard_normal(60)
    ends: Any = {"reward_low": 0.0, "reward_high": 1.0}
    assert diagnose(make_run(steps(60), flat, signals=entropy, **ends)).status.finding.mode == "policy_concentration"
    assert diagnose(make_run(steps(60), flat + 0.7, signals=entropy, **ends)).probability["policy_concentration"] < 0.1


@pytest.mark.parametrize("mode", all_modes(), ids=lambda m: m.name)
def test_strength_becomes_a_probability(mode, monkeypatch):
    known, rows = mode.chances, RunSoFar.of(rising_run(40))
    found = []
    for strength in (0.0, 0.5, 1.0, 2.0, 100.0, np.inf):
        monkeypatch.setattr(type(mode), "strength", lambda *_, s=strength: s)
        found.append(mode.look(rows).probability)
        assert mode.look(rows).seen
    assert found[0] == pytest.approx(known.least)
    assert np.all(np.diff(found[:4]) > 0.0)
    assert found[2] == pytest.approx(0.5), "a threshold is where a failure is named"
    assert found[-1] == MOST_PROBABLE
    monkeypatch.setattr(type(mode), "strength", lambda *_: np.nan)
    assert mode.look(rows) == (known.unseen, False)


def test_what_is_measured_needs_rows():
    cut = {"completions_clipped_ratio": 0.9}
    few, enough = (RunSoFar.of(make_run(steps(n), np.linspace(0.1, 0.5, n), signals=cut)) for n in (6, 12))
    mode = next(m for m in all_modes() if m.name == "truncated_completions")
    assert mode.chances is MEASURED
    assert mode.look(few).probability == 0.0
    assert mode.look(enough).probability > 0.9


def test_rows_that_come_later_change_nothing_of_what_was_said():
    run = make_run(
        steps(60), np.where(np.arange(60) < 30, 0.6, 0.1) + 0.02 * np.random.default_rng(4).standard_normal(60)
    )
    past = diagnose(run.until(38.0)).probability
    whole = diagnose(run).timeline
    assert whole is not None
    before = run.until(38.0)
    for mode in MODES:
        then = whole.modes[mode].probability[np.searchsorted(whole.step, before.step[-1], side="right") - 1]
        assert then == pytest.approx(past[mode], abs=0.1)


def test_one_probability_a_mode_wherever_it_stands(hacked):
    found = diagnose(hacked)
    assert found.timeline is not None
    for mode, p in found.probability.items():
        assert found.timeline.modes[mode].under_way == p
    assert found.status.probability == found.probability["reward_hacking"]
