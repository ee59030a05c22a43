"""Which settings to take next."""

import json
import math

import numpy as np
import pytest

from bayes_grpo import plan
from bayes_grpo.common.errors import SettingError
from bayes_grpo.families.basis import basis_of_run
from tests.families.made import relaxing
from tests.helpers.command import call


@pytest.fixture(scope="module")
def slow():
    """A run that is far from its plateau after 60 steps."""
    return relaxing("slow", time=60.0, plateau=0.8, rows=60, learning_rate=1e-6, group_size=8, prompts_per_step=4)


def test_a_run_far_from_its_plateau_should_learn_faster(slow):
    found = plan(slow, 60.0, candidates={"learning_rate": [5e-7, 1e-6, 2e-6]})
    best = found.recommended
    assert best.settings == {"learning_rate": 2e-6}
    assert best.p_better > 0.9
    assert best.p_stable > 0.9
    assert best.prior_share == 1.0
    assert found.present.gain.median == 0.0
    assert found.present.reward.low < 0.8 - 0.6 * math.exp(-1.0) < found.present.reward.high
    assert "Take learning rate 2e-06" in found.sentence
    assert "100% of what the change does is prior" in found.sentence


def test_candidates_spend_the_same_completions(slow):
    found = plan(slow, 60.0, candidates={"group_size": [4, 8, 16], "prompts_per_step": [4, 8]}, cost_per_completion=0.5)
    for c in found.candidates:
        assert c.steps * c.settings["group_size"] * c.settings["prompts_per_step"] == pytest.approx(60.0 * 32)
    assert found.cost == pytest.approx(0.5 * 60.0 * 32)
    useless = {c.settings["group_size"]: c.useless for c in found.candidates}
    assert useless[4] > useless[8] > useless[16]
    p = float(slow.reward[-12:].mean())
    assert useless[8] == pytest.approx(p**8 + (1.0 - p) ** 8)


def test_a_goal_is_reached_earlier_with_a_higher_rate_or_not_at_all(slow):
    found = plan(slow, 60.0, candidates={"learning_rate": [1e-6, 2e-6]}, goal=0.5, cost_per_completion=1.0)
    now, fast = found.candidates
    assert now.reach_steps is not None
    assert fast.reach_steps is not None
    assert fast.reach_steps < now.reach_steps
    assert now.reach_cost == pytest.approx(32 * now.reach_steps)
    never = plan(slow, 60.0, candidates={"learning_rate": [1e-6]}, goal=5.0)
    assert never.candidates[0].reach_steps is None


def test_unstable_settings_are_not_recommended(slow):
    # Rate 1/60 a step at 1e-6: by the rule a thousandfold rate and 8 steps of lag are beyond the threshold.
    found = plan(slow, 60.0, candidates={"learning_rate": [1e-6, 1e-3]}, present={"refresh_interval": 8})
    assert found.candidates[1].p_stable < 0.1
    assert found.recommended.settings == {"learning_rate": 1e-6}
    assert "Keep learning rate 1e-06" in found.sentence


def test_the_exponents_of_one_run_are_theory_with_its_width(slow):
    basis = basis_of_run(slow, {}, "auto", 0)
    assert basis.rate_exponent["learning_rate"].mean() == pytest.approx(1.0, abs=0.03)
    assert basis.rate_exponent["learning_rate"].std() == pytest.approx(0.3, rel=0.1)
    assert basis.rate_exponent["group_size"].mean() == pytest.approx(0.08, abs=0.06)
    assert np.median(basis.rate) == pytest.approx(1 / 60.0, rel=0.6)
    assert set(basis.learned.values()) == {0.0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"until": -1.0}, "until: expected a number above 0"),
        ({"probability": 1.0}, "probability: expected a number between 0 and 1"),
        ({"candidates": {"temperature": [1.0]}}, "expected candidates for group_size"),
        ({"candidates": {"group_size": [0.0]}}, "expected numbers above 0 as candidates"),
        ({"candidates": {"refresh_interval": [2.0]}}, "its present value is not known"),
    ],
)
def test_impossible_questions_are_one_line(slow, options, said):
    with pytest.raises(SettingError) as error:
        plan(slow, **({"until": 60.0} | options))
    assert said in str(error.value)


def test_the_command_prints_candidates_and_json(tmp_path, write_trl_log):
    log = write_trl_log(tmp_path / "log.json", relaxing("x", time=40.0).reward, learning_rate=1e-6)
    words = ("plan", log, "--until", 100, "--now", "group_size=8", "--goal", 0.6)
    said = call(*words)
    assert said.code == 0
    assert "learning_rate" in said.out
    assert "to 0.6" in said.out
    assert "present" in said.out
    content = json.loads(call(*words, "--try", "learning_rate=1e-6,3e-6", "--json").out)
    assert [c["settings"] for c in content["candidates"]] == [{"learning_rate": 1e-6}, {"learning_rate": 3e-6}]
    assert call("plan", log, log, "--until", 100).code == 2
    assert call("plan", log, "--until", 100, "--try", "x").code == 2
