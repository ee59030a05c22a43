import json

import numpy as np
import pytest
from typer.testing import CliRunner

from bayes_grpo.cli.app import program
from bayes_grpo.common.errors import BayesGrpoError

APP = program(("forecast",))
RUNNER = CliRunner()
QUICK = ["--regimes", "flat,exponential"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "run.csv"
    step = np.arange(1, 41)
    y = 0.8 - 0.6 * np.exp(-step / 12.0) + 0.05 * np.random.default_rng(0).standard_normal(40)
    rows = "\n".join(f"{s},{v:.5f}" for s, v in zip(step, y, strict=True))
    path.write_text(f"step,reward\n{rows}\n")
    return path


def test_forecast_prints_json_and_a_picture(log, tmp_path):
    picture = tmp_path / "fan.png"
    done = RUNNER.invoke(APP, ["forecast", str(log), "--horizon", "80", *QUICK, "--json", "--plot", str(picture)])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["at_horizon"]["low"] < 0.85
    assert found["at_horizon"]["level"] == 0.9
    assert found["until"] == 80
    assert set(found["weights"]) == {"flat", "exponential", "level"}
    assert found["assumed"][0] == "learning rate: constant from now on"
    assert "stays in [0, 1]" in found["assumed"][1]
    assert picture.stat().st_size > 10_000


@pytest.mark.thorough
def test_a_forecast_of_a_run_that_failed_holds_if_nothing_is_changed(log, tmp_path):
    fallen = tmp_path / "fallen.csv"
    header, *rows = log.read_text().splitlines()
    rows[30:] = [f"{s},{0.02 + 0.01 * (s % 3)}" for s in range(31, 41)]
    fallen.write_text("\n".join([header, *rows]))
    for path, sure in ((fallen, True), (log, False)):
        done = RUNNER.invoke(APP, ["forecast", str(path), *QUICK, "--json"])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert found["headline"].startswith("If nothing changes: ") == sure
        assert any(note.startswith("FAILED") for note in found["notes"]) == sure


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--horizon", "20"], "the horizon lies in the past"),
        (["--horizon", "80", "--schedule", "linear", "--total-steps", "30"], "already reaches step 40"),
        (["--horizon", "80", "--schedule", "linear"], 'say when it reaches 0 with total_steps="N"'),
        (["--horizon", "80", "--regimes", "spline"], "expected one of"),
    ],
)
def test_bad_options_are_one_sentence(log, options, message):
    done = RUNNER.invoke(APP, ["forecast", str(log), *options])
    assert isinstance(done.exception, BayesGrpoError)
    assert message in str(done.exception)


def test_backtest_prints_a_table(log):
    done = RUNNER.invoke(APP, ["forecast", "--backtest", str(log), *QUICK])
    assert done.exit_code == 0, done.output
    for word in ("forecast", "last value", "90% coverage", "times its error"):
        assert word in done.output


def test_the_details_score_the_forecast_from_the_middle_of_the_log(log):
    words = ["forecast", str(log), "--horizon", "80", "--reference-runs", "none", *QUICK]
    details = " ".join(RUNNER.invoke(APP, [*words, "--details"]).stdout.split())
    assert "Backtest The forecast " in details
    assert "the last value: " in details
    assert "Backtest" not in RUNNER.invoke(APP, words).stdout
