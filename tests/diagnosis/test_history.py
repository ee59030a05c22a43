"""What would have been said earlier: every cut of a log is a diagnosis of the rows up to it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import diagnose, plot_diagnosis
from bayes_grpo.common.errors import SettingError
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.views.plots.diagnosis import HISTORY_TITLE
from tests.diagnosis.conftest import ROWS
from tests.helpers.command import call
from tests.helpers.runs import evaluated, make_run, steps
from tests.helpers.shown import text_of
from tests.helpers.trends import there


@pytest.fixture(scope="module")
def collapsing(rising):
    """A reward that rises for 50 steps and is lost from there; it still varies, so that no verifier broke."""
    lost = 0.15 + 0.02 * np.random.default_rng(7).standard_normal(ROWS)
    return make_run(steps(ROWS), np.where(steps(ROWS) > 51, lost, rising))


def test_every_cut_is_a_diagnosis_of_the_rows_up_to_it(hacked):
    past = there(diagnose(hacked, history=6).history)
    assert len(past.step) == 6
    for i, step in enumerate(past.step):
        then = diagnose(hacked.until(step))
        for mode in MODES:
            assert past.probability[mode][i] == pytest.approx(then.probability[mode], abs=1e-6)
        assert past.findings[i] in ("", then.top.finding)


def test_the_last_cut_is_the_diagnosis_itself(collapsing):
    found = diagnose(collapsing, history=8)
    past = there(found.history)
    assert {k: p[-1] for k, p in past.probability.items()} == {k: found.probability[k] for k in MODES}
    assert past.step[-1] == ROWS
    assert past.rows.tolist() == [10, 20, 30, 40, 50, 60, 70, 80]


@pytest.mark.thorough
def test_no_cut_sees_what_came_after_it(collapsing):
    other = replace(collapsing, reward=np.where(steps(ROWS) > 50, 0.9, collapsing.reward))
    one, two = (there(diagnose(run, history=8).history) for run in (collapsing, other))
    before = one.step <= 50
    assert before.sum() == 5
    for name in MODES:
        assert one.probability[name][before].tolist() == two.probability[name][before].tolist()
    assert one.probability["dynamical_instability"][-1] > 0.8 > 0.2 > two.probability["dynamical_instability"][-1]


def test_it_says_what_was_said_until_when(collapsing):
    past = there(diagnose(collapsing, history=8).history)
    first = past.step[past.findings.index("dynamical_instability")]
    assert past.sentence.endswith(f"dynamical instability from step {first:g} on")
    assert "no failure until step 50" in past.sentence


def test_short_logs_have_fewer_cuts_or_none():
    at = np.arange(10.0, 60.0, 10.0)
    only_held_out = make_run(steps(50), np.full(50, np.nan), evals=evaluated(at, 0.01 * at))
    past = there(diagnose(only_held_out, history=12).history)
    assert past.rows.tolist() == [3, 4, 5]
    assert past.step.tolist() == [30.0, 40.0, 50.0]
    assert diagnose(make_run(steps(3), [0.1, 0.2, 0.3]), history=12).history is None
    assert diagnose(make_run(steps(2), [0.1, 0.2]), history=12).history is None
    with pytest.raises(SettingError, match="--history"):
        diagnose(make_run(steps(3), [0.1, 0.2, 0.3]), history=-1)


def test_a_panel_and_a_line_show_it(collapsing):
    result = diagnose(collapsing, history=8)
    figure = plot_diagnosis(result)
    panel = next(a for a in figure.axes if a.get_title(loc="left") == HISTORY_TITLE)
    assert len(panel.get_lines()) == len(MODES)
    shown = text_of(result, 300)
    assert f"Diagnosis at earlier steps: {there(result.history).sentence}" in shown


def test_the_command_gives_it_unless_told_not_to(write_trl_log, tmp_path, rising):
    log = write_trl_log(tmp_path / "trainer_state.json", rising)
    content = json.loads(call("diagnose", log, "--json").out)
    past = content["history"]
    assert len(past["step"]) == 12
    assert {k: p[-1] for k, p in past["probability"].items()} == {k: content["probability"][k] for k in MODES}
    assert json.loads(call("diagnose", log, "--json", "--history", 0).out)["history"] is None
    assert call("diagnose", log, "--history", -2).code == 3
