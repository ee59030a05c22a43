"""`forecast` with the flags that ask when to stop."""

import json

import pytest

from tests.helpers.command import call


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--cost-per-step", 1), "found a cost without a value"),
        (("--value-per-reward", 1), "without a cost"),
        (("--cost-per-step", -1, "--value-per-reward", 1), "--cost-per-step: expected a finite number"),
        (("--cost-per-step", 1, "--gpu-hours-per-step", 1, "--value-per-reward", 1), "found both"),
        (("--probability", 0.5), "without --gain"),
        (("--backtest", "--plot", "net.png"), "--plot: draws a forecast"),
    ],
)
def test_bad_questions_are_one_sentence(monkeypatch, tmp_path, write_trl_log, curve, flags, said):
    monkeypatch.chdir(tmp_path)
    log = write_trl_log(tmp_path / "trainer_state.json", curve)
    code, out, err = call("forecast", log, "--until", 80, *flags)
    assert (code, out) == (3, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_forecast_answers_when_to_stop(tmp_path, write_trl_log, curve):
    log, picture = write_trl_log(tmp_path / "trainer_state.json", curve[:20]), tmp_path / "net.png"
    code, out, err = call(
        "forecast", log, "--until", 80, "--total-steps", 80, "--regimes", "exponential",
        "--gpu-hours-per-step", 0.5, "--value-per-reward", 400, "--gain", 0.02, "--plot", picture, "--json",
    )  # fmt: skip
    assert code == 0, err
    decision = json.loads(out)["decision"]
    stopping = decision["stopping"]
    assert stopping["unit"] == "GPU hours"
    assert stopping["table"][0]["step"] == 20
    assert stopping["table"][-1]["step"] == 80
    # The curve still has a little to gain; 60 steps for 30 GPU hours are too many, whatever the fit.
    assert 20 <= stopping["recommended"] < 80
    assert decision["budget"]["gain"] == 0.02
    assert picture.stat().st_size > 10_000


def test_the_log_tells_what_a_step_costs(tmp_path, write_trl_log, curve):
    log = write_trl_log(tmp_path / "trainer_state.json", curve[:20])
    content = json.loads(log.read_text())
    for row in content["log_history"]:
        row["step_time"] = 90.0
    log.write_text(json.dumps(content))
    asked = ("forecast", log, "--until", 40, "--regimes", "exponential", "--value-per-reward", 400)
    code, out, err = call(*asked)
    assert (code, out) == (3, "")
    assert "or --gpus: the log has the time of a step" in err
    code, out, err = call(*asked, "--gpus", 8, "--details")
    assert code == 0, err
    assert "Cost from the log: 90 s a step" in out
    assert "0.2 a step" in out
