"""One look at a run that goes on: the numbers of forecast and diagnose, findings told once, failures as notes."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.decide import StoppingCosts
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.mode import probabilities_after
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.forecasting.forecast import forecast
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.logs.run import Run
from bayes_grpo.watching import watch as update_module
from bayes_grpo.watching.alarms import alarms_of, earlier
from bayes_grpo.watching.result import Watching
from bayes_grpo.watching.watch import load_memory, save_memory, update_of
from tests.helpers.cases import collapsing
from tests.helpers.paths import not_none
from tests.helpers.runs import evaluated, make_run, rising_run
from tests.references.made import runs_of_orders
from tests.references.test_gather import written

ROWS = 40
"""As many as other tests have: all share the compiled programs of the regimes."""
HORIZON = 60.0
SWIFT = Watching(forecasts=False)
"""A diagnosis alone."""


@pytest.fixture(scope="module")
def run() -> Run:
    return rising_run(ROWS, reward_low=0.0, reward_high=1.0)


@pytest.fixture(scope="module")
def look(run):
    """The second look, with a question."""
    watching = Watching(horizon=HORIZON, costs=StoppingCosts(cost_per_step=1.0, value_per_reward=1000.0))
    _, memory = update_of(run.until(ROWS - 1), watching)
    return update_of(run, watching, memory)[0]


def test_a_look_has_the_numbers_of_forecast_and_diagnosis(run, look):
    ours, theirs = look.outlook, summarize_forecast(forecast(run, HORIZON, nuts=False))
    assert (ours.at_horizon, ours.now, ours.weights) == (theirs.at_horizon, theirs.now, theirs.weights)
    assert (ours.p_gain, ours.threshold) == (theirs.p_gain, theirs.threshold)
    assert ours.sentence == theirs.sentence
    diagnosed = diagnose(run)
    assert (look.probability, look.status.finding) == (diagnosed.probability, diagnosed.status.finding)


def test_a_look_answers_the_question_in_strict_json(look):
    assert ROWS <= look.outlook.stop <= HORIZON
    assert look.outlook.advice in look.sentence
    content = json.loads(json.dumps(look.to_dict(), allow_nan=False))
    assert content["outlook"]["at_horizon"]["level"] == 0.9
    assert content["sentence"].startswith("Step 40, 40 rows. ")


def test_a_run_past_its_horizon_has_no_forecast(run):
    found, _ = update_of(run, Watching(horizon=30.0))
    assert found.outlook is None
    assert found.probability
    assert any(x.startswith("no forecast: horizon: expected a step after the last logged one") for x in found.notes)


@pytest.mark.parametrize("rows", [2, 3, 7])
def test_too_few_rows_are_a_note(rows):
    found, memory = update_of(rising_run(rows))
    assert found.rows == rows
    assert found.outlook is None
    assert any(note.startswith("no forecast: ") for note in found.notes)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["rows"] == rows
    assert memory.references is None


def test_a_part_that_fails_is_a_note(run, monkeypatch):
    def fails(*_, **__):
        raise ValueError("a bug")

    monkeypatch.setattr("bayes_grpo.diagnosis.diagnose.diagnose", fails)
    found, _ = update_of(run, SWIFT)
    assert found.notes == ("no diagnosis: Failed unexpectedly: ValueError: a bug",)
    assert found.sentence == "Step 40, 40 rows. No result yet."
    assert found.reward == run.reward[-1]


def test_a_finding_is_told_once():
    run, told = collapsing(), []
    found, memory = update_of(run.until(45), SWIFT)
    for n in range(48, 81, 4):
        found, memory = update_of(run.until(n), SWIFT, memory)
        told += [(alarm.finding, alarm.rows) for alarm in found.alarms]
    assert len(told) == 1
    mode, rows = told[0]
    assert mode == "dynamical_instability"
    assert 52 <= rows <= 70  # lost from row 50 to row 58: by row 70 it has been so for longer than it has to last
    assert found.alarmed == memory.alarmed == {mode: float(rows)}
    assert "ALARM" not in found.sentence


def test_an_alarm_says_what_to_do():
    found, _ = update_of(collapsing(), SWIFT)
    (alarm,) = found.alarms
    assert alarm.finding == "dynamical_instability"
    assert alarm.probability == found.probability["dynamical_instability"]
    assert alarm.remedies
    assert not_none(alarm.since) == diagnose(collapsing()).onsets[alarm.finding].step
    status, action = not_none(found.status), not_none(alarm.action)
    assert (alarm.status, action) == (status.status, status.action)
    assert action.kind == "go_back"
    assert action.sentence.startswith("stop, and go back to the checkpoint of about step ")
    assert found.sentence.startswith(f"Step 80, 80 rows. {status.sentence} ALARM: {alarm.sentence}")
    assert json.loads(json.dumps(alarm.to_dict(), allow_nan=False))["since"]["median"] == not_none(alarm.since)[0]
    assert "ALARM: dynamical instability. Do now: stop" in found.line
    assert len(found.line) < 400


def test_what_was_told_survives_a_restart_and_not_another_run(tmp_path):
    run = collapsing()
    _, memory = update_of(run, SWIFT)
    save_memory(memory, tmp_path / "state.json")
    kept = load_memory(tmp_path / "state.json")
    assert kept == memory._replace(length=0)
    assert update_of(run, SWIFT, kept)[0].alarms == ()
    assert update_of(run.until(75), SWIFT, kept)[0].alarmed == memory.alarmed  # cut back to a checkpoint
    other = replace(run, reward=np.r_[run.reward[0] + 0.01, run.reward[1:]])
    assert len(update_of(other, SWIFT, kept)[0].alarms) == 1


def test_a_rule_is_one_of_the_log_alone():
    """Whether a finding lasts is seen in the log, so that a watch that starts late finds the same."""
    run = collapsing()
    first = next(n for n in range(51, 81) if alarms_of(run.until(n), diagnose(run.until(n)), SWIFT))
    seen = [probabilities_after(run, n).alarming(SWIFT.alarm) for n in (first, *earlier(first))]
    assert all("dynamical_instability" in found for found in seen)
    before = [probabilities_after(run, n).alarming(SWIFT.alarm) for n in (first - 1, *earlier(first - 1))]
    assert not all("dynamical_instability" in found for found in before)
    assert (earlier(100), earlier(12)) == ((98, 95), (11, 10))  # two rows at least


def test_held_out_rewards_are_rows_where_there_are_no_others():
    run = make_run([1.0, 2.0], [math.nan, math.nan], evals=evaluated(range(10, 60, 10), np.linspace(0.1, 0.5, 5)))
    found, _ = update_of(run, SWIFT)
    assert (found.step, found.rows, found.reward) == (50.0, 5, 0.5)
    assert set(probabilities_after(run, 4).probability) == set(MODES)


@pytest.mark.parametrize("wrong", [{"alarm": 0.0}, {"alarm": 1.0}, {"horizon": math.inf}, {"signal": "loss"}])
def test_impossible_wishes_are_refused(wrong):
    with pytest.raises(SettingError, match="expected"):
        Watching(**wrong)


def test_programs_that_a_log_has_outgrown_are_let_go(monkeypatch):
    forgotten: list[bool] = []
    monkeypatch.setattr(update_module, "forget_programs", lambda: forgotten.append(True))
    _, memory = update_of(rising_run(30), SWIFT)
    update_of(rising_run(31), SWIFT, memory)
    assert not forgotten
    update_of(rising_run(90), SWIFT, memory)
    assert forgotten == [True]


@pytest.mark.thorough
def test_reference_runs_are_read_once(tmp_path):
    runs = runs_of_orders([0] * 6, rows=60, share=0.3, seed=3)
    folder = written(tmp_path, runs[1:])
    watching = Watching(reference_runs=(str(folder),), horizon=90.0)
    first, memory = update_of(runs[0].until(50), watching)
    for log in folder.glob("*.csv"):
        log.unlink()
    second, after = update_of(runs[0], watching, memory)
    assert after.references is memory.references
    for look in (first, second):
        assert any(note.startswith("with 5 reference runs") for note in look.notes)
    gone, _ = update_of(runs[0].until(50), replace(watching, reference_runs=(str(folder / "gone"),)))
    assert gone.outlook is not None  # the forecast goes on without them
    assert sum(note.startswith("no reference runs") for note in gone.notes) == 1
    with pytest.raises(SettingError, match="as a tuple"):
        Watching(reference_runs=str(folder))  # pyright: ignore[reportArgumentType]
