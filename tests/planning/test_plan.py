"""From a run to the next run's settings."""

import inspect
import json
import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bayes_grpo import plan, read_log, save_plot
from bayes_grpo.analysis.conditional import given_status
from bayes_grpo.cli.plan import plan as plan_command
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import percent
from bayes_grpo.diagnosis.records import Action, Finding
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.settings import Provenance, Setting
from bayes_grpo.planning.outcomes import UNKNOWN_RATE, grid_of
from bayes_grpo.planning.outlook import (
    LEAST_SD,
    Base,
    Exponents,
    RewardScale,
    expected_reward,
    exponent_draws,
    learned_exponents,
    reward_of_one_run,
)
from bayes_grpo.planning.planned import Candidate, Plan
from bayes_grpo.planning.stability import stability
from bayes_grpo.risk.failure import failure_risk
from bayes_grpo.risk.threshold import Change
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.views.plots.runs import plot_plan
from bayes_grpo.views.view import view
from tests.families.made import relaxing
from tests.helpers.command import call

SHARE = RewardScale(RewardRange(0.0, 1.0), 0.1, 50.0)
SETTINGS: dict[str, Any] = {"group_size": 8, "prompts_per_step": 4, "momentum": 0.9, "momentum_convention": "ema"}


def slow(**more):
    """A run that is a third of the way when its log ends."""
    return relaxing("slow", time=150.0, plateau=0.9, rows=60, learning_rate=1e-6, **SETTINGS, **more)


@pytest.fixture(scope="module")
def found():
    return plan(slow(), seed=1)


def test_more_rate_at_the_same_cost_is_recommended_while_the_reward_still_rises(found):
    best, kept = found.recommended, found.kept
    assert found.present == {"group_size": 8.0, "prompts_per_step": 4.0, "learning_rate": 1e-6}
    assert len(found.candidates) == 36  # the rung between the present rate and twice that too
    assert best.settings["learning_rate"] > 1e-6
    assert best.expected > kept.expected
    assert kept.expected_gain == 0.0
    assert kept.p_better == 0.5
    assert f"learning rate {best.settings['learning_rate']:g} (now 1e-06)" in found.sentence
    assert f": {percent(best.failure_risk)} risk of failure." in found.sentence
    assert best.failure_risk <= found.risk
    assert all(c.failure_risk > 0.0 for c in found.candidates)
    half = at(found, group_size=4.0)
    assert (half.steps, kept.steps) == (pytest.approx(120.0), pytest.approx(60.0))


def test_a_run_that_has_settled_keeps_its_settings():
    done = plan(relaxing("done", time=6.0, rows=120, learning_rate=1e-6, noise=0.02, **SETTINGS))
    assert done.verdict == "keep"
    assert done.recommended is done.kept
    assert done.answer == "For the next run, no candidate is clearly better than the present settings."


def at(found: Plan, **settings: float) -> Candidate:
    return next(c for c in found.candidates if c.settings == dict(found.present) | settings)


def test_a_candidate_that_probably_fails_is_not_recommended():
    light: dict[str, Any] = SETTINGS | {"momentum": 0.5}
    fast = plan(
        relaxing("fast", time=3.0, rows=60, learning_rate=1e-5, **light),
        refresh_interval=[1, 64],
        group_size=[8],
        prompts_per_step=[4],
    )
    late = at(fast, refresh_interval=64.0, learning_rate=2e-5)
    assert not late.tried
    assert late.failure_risk > 0.4
    assert "no public run changed the refresh interval this far" in late.evidence
    assert fast.recommended.failure_risk <= fast.risk
    assert late.expected < fast.kept.expected


def test_far_rates_and_longer_refreshes_fail_more_often_are_wider_and_are_not_recommended():
    """From a run of 1e-6 to a hundred times that: not at once."""
    wide = plan(slow(refresh_interval=8), learning_rate=[1e-4], group_size=[8], prompts_per_step=[4])
    assert sorted({c.settings["refresh_interval"] for c in wide.candidates}) == [4.0, 8.0, 16.0]
    p = [at(wide, refresh_interval=x).failure_risk for x in (4.0, 8.0, 16.0)]
    assert (np.diff(p) > 0.0).all()
    assert at(wide, learning_rate=1e-4).failure_risk > 0.3
    assert 1e-6 < wide.recommended.settings["learning_rate"] < 1e-5
    assert wide.recommended.failure_risk <= wide.risk
    rungs = sorted({c.settings["learning_rate"] for c in wide.candidates})
    width = [at(wide, learning_rate=x).next_run for x in (rungs[0], rungs[2], rungs[5])]
    assert np.diff([x.high - x.low for x in width]).min() > 0.0


def test_a_run_that_failed_itself_is_not_taken_for_one_that_worked():
    whole = slow()
    fallen = replace(whole, reward=np.where(np.arange(60) < 40, whole.reward, 0.02 * (np.arange(60) % 3)))
    found = plan(fallen, group_size=[8], prompts_per_step=[4])
    assert found.kept.failure_risk == failure_risk(Change(), rate=1e-6, failed=True).p
    assert at(found, learning_rate=5e-7).failure_risk < found.kept.failure_risk
    assert any("has probably failed" in c for c in found.cautions)
    top = Status("failed", Finding(kind="dynamical_instability", probability=0.9), Action(kind="stop"))
    assert found.answer in given_status(view(found), top).why
    assert "priors" in view(found).unchecked


def test_plan_and_stability_use_one_probability(found):
    twice = failure_risk(Change(learning_rate=math.log(2.0)), rate=1e-6)
    assert at(found, learning_rate=2e-6).failure_risk == twice.p
    report = stability(2e-6, 0.9, "ema", 1.0, curvature=3.0, source="low_lag_run", changed=twice.change)
    assert report.failure_risk.p == twice.p
    assert f"{1.0 - twice.p:.0%}" in report.sentence
    assert f"Stable with probability {1.0 - twice.p:.0%}" in view(report).answer


def test_the_result_is_strict_json_a_table_and_a_picture(found, tmp_path):
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert content["recommended"]["settings"] == dict(found.recommended.settings)
    frame = found.to_frame()
    assert list(frame.index.names) == ["group_size", "prompts_per_step", "learning_rate"]
    assert frame["p_better"].iloc[0] == found.recommended.p_better
    assert save_plot(plot_plan(found), tmp_path / "plan.png").stat().st_size > 10_000


def test_levels_saturate_at_the_ends_of_the_reward_and_nowhere_else():
    level, shift = np.array([0.02, 0.5, 0.98]), np.full(3, 5.0)
    moved = SHARE.moved(level, shift)
    assert (moved < 1.01).all()
    assert moved[1] > 0.99
    np.testing.assert_allclose(SHARE.moved(level, 0.0 * shift), level)
    np.testing.assert_allclose(SHARE._replace(range=RewardRange()).moved(level, shift), level + 0.5)


def test_settings_move_rate_and_level_as_their_exponents_say():
    n = np.ones(5)
    base = Base(0.1 * n, 0.8 * n, 0.2 * n, 0.03 * n, 0 * n, 0.5 * n)
    exponents = {"learning_rate": Exponents(1.0 * n, 0.1 * n), "group_size": Exponents(0.0 * n, 0.05 * n)}
    ratio = {"learning_rate": math.log(2), "group_size": math.log(4)}
    mean = expected_reward(base, exponents, ratio, 5.0, SHARE)
    law = 0.8 + (0.2 - 0.8) * math.exp(-1.0)
    odds = law / (1.0 - law) * 2.0 ** ((0.1 + 2.0 * 0.05) * (1.0 - math.exp(-1.0)))  # in log-odds, over 5 steps
    np.testing.assert_allclose(mean, odds / (1.0 + odds))
    np.testing.assert_allclose(reward_of_one_run(base, mean, 0.7, SHARE), mean + 0.03)
    far = expected_reward(base, exponents, {}, 100.0, SHARE)  # twice the run's length
    law = 0.8 - 0.6 * math.exp(-10.0)
    odds = law / (1.0 - law) * 2.0**0.5
    np.testing.assert_allclose(far, odds / (1.0 + odds))


def test_exponents_are_as_wide_as_simulated_decisions_need_and_know_what_adam_does():
    known = learned_exponents()
    assert all(known.rate[name].sd >= least for name, least in LEAST_SD.items())
    assert known.rate["learning_rate"].sd < min(LEAST_SD.values())
    adam, plain = (exponent_draws(["group_size"], 4000, x, 0)["group_size"].rate.mean() for x in (True, False))
    assert adam - plain == pytest.approx(known.rate["group_size"].centre)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group_size": [1.5]}, "group_size: expected whole numbers of at least 2, found 1.5"),
        ({"learning_rate": [0.0]}, "learning_rate: expected numbers above 0, found 0"),
        ({"budget": -1.0}, "budget: expected a finite number above 0"),
        ({"group_size": range(2, 300), "prompts_per_step": range(1, 300)}, "expected at most 5000 candidates"),
    ],
)
def test_impossible_options_are_one_line(options, words):
    with pytest.raises(SettingError, match=words):
        plan(slow(), **options)


def test_a_setting_that_no_log_states_comes_from_a_flag_or_a_file(tmp_path, write_trl_log):
    path = write_trl_log(tmp_path / "run.json", slow().reward, learning_rate=None)

    def table(**settings):
        return grid_of(r := read_log(path, settings=settings), rows_of(r), {"learning_rate": [2e-6]})

    for name, wanted in (("learning_rate", 1e-6), ("prompts_per_step", 8)):
        options: dict[str, Any] = {name: [wanted], "read": {"settings": {"group_size": 8}}}
        with pytest.raises(SettingError, match=rf"{name}: not known of run run.*give --set {name}=… or a line in"):
            plan(path, **options)
    flagged = table(group_size=8, learning_rate=1e-6).present
    assert flagged["learning_rate"] == 1e-6
    (tmp_path / "bayes_grpo.toml").write_text("[settings]\nlearning_rate = 1e-6\ngroup_size = 8\n")
    assert table().present == flagged


def test_a_refusal_fits_nothing_and_imports_nothing_that_takes_long(tmp_path, write_trl_log):
    path = write_trl_log(tmp_path / "run.json", slow().reward, learning_rate=None)
    code = (
        "import sys, bayes_grpo as bg\n"
        f"try: bg.plan({str(path)!r}, learning_rate=[1e-6])\n"
        "except bg.BayesGrpoError as error: print(error)\n"
        "print(sorted({'jax', 'numpyro', 'arviz', 'matplotlib'} & set(sys.modules)))\n"
    )
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].startswith("learning_rate: not known")
    assert lines[1] == "[]"


def test_the_command_line(tmp_path, write_trl_log):
    path, picture = write_trl_log(tmp_path / "run.json", slow().reward, learning_rate=1e-6), tmp_path / "plan.png"
    words = ("plan", path, "--set", "group_size=8", "--learning-rate", "1e-6,2e-6")
    content = json.loads(call(*words, "--json", "--plot", picture).out)
    assert picture.exists()
    assert content["present"]["group_size"] == 8
    assert content["risk"] == THRESHOLDS.safe  # that of the advice to raise a learning rate
    assert content["reference_runs"] is None  # none lies near this log, and none was named
    wrong = call("plan", path, "--prompts-per-step", "8")
    assert (wrong.code, wrong.err.count("\n")) == (3, 1)
    for usage in (("plan",), ("plan", path, "--learning-rate", "fast")):
        assert call(*usage).code == 2


@pytest.mark.thorough
def test_a_plan_by_a_hacked_reward_says_so_first(found):
    """A higher rate is expected to bring more of the same: the plan knows nothing of what the reward stands for."""
    run = slow()
    gold = np.linspace(0.3, 0.05, 60) + 0.01 * np.random.default_rng(1).standard_normal(60)
    parted = replace(run, signals=dict(run.signals) | {"gold_reward": gold}, reward=run.reward + 0.004 * run.step)
    hacked = plan(parted, group_size=[8], prompts_per_step=[4], learning_rate=[1e-6, 2e-6], seed=1)
    assert hacked.present_hacked > 0.5
    assert hacked.sentence.startswith("The present reward is being hacked (")
    assert found.present_hacked == 0.0
    assert "hacked" not in found.sentence
    assert "hacked (70%); fix it" in replace(found, present_hacked=0.7).sentence


def test_an_unknown_rate_and_a_default_are_no_present_settings(found):
    best = replace(found.recommended, settings={"learning_rate": 2.0, "prompts_per_step": 2048.0})
    unknown = replace(found, present={"learning_rate": UNKNOWN_RATE, "prompts_per_step": 1024.0}, rate_known=False)
    assert unknown.changes(best) == "2 times the present learning rate and prompts a step 2048 (now 1024)"
    assert replace(unknown, rate_known=True).changes(best).startswith("learning rate 2 (now 1)")  # there are such runs
    long = replace(best, settings={"learning_rate": 1.99956e-05})
    assert replace(found, present={"learning_rate": 9.99779e-06}).changes(long) == "learning rate 2e-05 (now 1e-05)"
    run = slow()
    default = Setting(4, Provenance.ASSUMED, "the documented default of a trainer")
    assumed = replace(run, settings=replace(run.settings, prompts_per_step=default))
    guessed = grid_of(assumed, rows_of(assumed), {})
    assert guessed.cautions[0].startswith("prompts_per_step: 4 is the documented default of a trainer, so it is not")
    assert "prompts_per_step" not in guessed.present
    assert grid_of(run, rows_of(run), {}).cautions == ()


def test_no_reward_beyond_what_the_run_has_shown_is_expected_where_no_end_is_known(tmp_path):
    """A curve that still rises in points, whose plateau a regime puts far above its rows."""
    rng = np.random.default_rng(3)
    rising = replace(slow(), reward=10.0 * np.linspace(0.1, 0.6, 60) + 0.2 * rng.standard_normal(60))
    found = plan(rising, learning_rate=[4e-6], group_size=[8], prompts_per_step=[4])
    best, level = found.recommended, f"above {found.shown:.3g}"
    assert 5.0 < found.shown < rising.reward.max()
    assert not any(c.expected > found.shown for c in found.candidates)
    assert math.isnan(best.expected)
    assert best.p_better > 0.8
    assert found.kept.expected_gain == 0.0
    assert f"Its expected reward is {level}, the highest level of this run; " in found.why
    assert "the highest level of this run" in view(found).unchecked
    shown = view(found).table
    assert shown is not None
    assert [cell.text for cell in shown.rows[0]][2:4] == [level, "not shown"]
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["recommended"]["expected"] is None
    assert save_plot(plot_plan(found), tmp_path / "plan.png").stat().st_size > 10_000
    settings = replace(rising.settings, reward_high=Setting(50.0, Provenance.USER))
    stated = plan(replace(rising, settings=settings), learning_rate=[4e-6], group_size=[8], prompts_per_step=[4])
    assert max(c.expected for c in stated.candidates) > found.shown
    assert not any("expected rewards are capped" in c for c in stated.cautions)


def test_plan_and_advice_call_the_same_risk_too_high():
    """The advice of a diagnosis raises no learning rate above it."""
    assert inspect.signature(plan).parameters["risk"].default == THRESHOLDS.safe
    assert inspect.signature(plan_command).parameters["risk"].default == THRESHOLDS.safe
