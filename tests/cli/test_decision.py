"""`forecast` with the flags that ask when to stop."""

import json

import numpy as np
import pytest

from tests.helpers.command import call


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--cost-per-step", 1), "--value-per-reward: found a cost without a value"),
        *(
            (("--backtest", *flag), f"{flag[0]}: a backtest does not take it; leave it or --backtest out")
            for flag in (("--plot", "net.png"), ("--part", "math"), ("--cost-per-step", 1))
        ),
        (("--part", "math", "--reference-runs", "."), "--part: reference runs are compared by the total"),
    ],
)
def test_bad_questions_are_one_sentence(monkeypatch, tmp_path, write_trl_log, curve, flags, said):
    monkeypatch.chdir(tmp_path)
    log = write_trl_log(tmp_path / "trainer_state.json", curve)
    code, out, err = call("forecast", log, *(() if "--backtest" in flags else ("--horizon", 80)), *flags)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.thorough
def test_a_forecast_answers_when_to_stop(tmp_path, write_trl_log, curve):
    log, picture = write_trl_log(tmp_path / "trainer_state.json", curve[:20]), tmp_path / "net.png"
    code, out, err = call(
        "forecast", log, "--horizon", 80, "--total-steps", 80, "--regimes", "exponential",
        "--cost-per-step", 0.5, "--value-per-reward", 400, "--plot", picture, "--json",
    )  # fmt: skip
    assert code == 0, err
    decision = json.loads(out)["decision"]
    assert decision["table"][0]["step"] == 20
    assert decision["table"][-1]["step"] == 80
    # The curve still has a little to gain; 60 steps for 30 are too many, whatever the fit.
    assert 20 <= decision["recommended"] < 80
    assert picture.stat().st_size > 10_000


def test_costs_say_what_to_do_where_the_diagnosis_has_something_else_to_look_at(tmp_path, write_trl_log):
    """A flat reward: more prompts by the diagnosis, and by the costs no step more."""
    reward = 0.4 + 0.03 * np.random.default_rng(0).standard_normal(60)
    log = write_trl_log(tmp_path / "trainer_state.json", reward)
    words = (
        "forecast",
        log,
        "--horizon",
        80,
        "--regimes",
        "exponential,flat",
        "--set",
        "schedule=constant",
        "--draws",
        300,
    )
    by_cost = call(*words, "--cost-per-step", 1, "--value-per-reward", 1).out
    assert "Do now: stop: going on is not expected to pay" in " ".join(by_cost.split())
    assert "Do now: stop" not in call(*words).out
