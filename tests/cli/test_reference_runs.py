"""Reference runs on the command line: a flag, a file next to the log, else the runs near it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bayes_grpo.common.errors import FitError
from bayes_grpo.references.gather import NearbyRuns
from tests.helpers.command import call

ROWS = "\n".join(["step,reward,learning_rate", *(f"{i},{0.5 + 0.01 * (i % 3)},1e-5" for i in range(1, 31))])
FORECAST_ALONE = ("--out", "page.html", "--without", "fit,regimes,check,diagnosis,stability")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "run.csv").write_text(ROWS)
    return tmp_path / "run.csv"


def seen_by(monkeypatch: pytest.MonkeyPatch, name: str, what: Callable[..., Any]) -> list[Any]:
    """What each call gives a function of this name, which does nothing but look."""
    given = []

    def seen(*positional, **named):
        given.append(what(*positional, **named))
        raise FitError("seen")

    monkeypatch.setattr(name, seen, raising=False)
    return given


def test_reference_runs_of_a_forecast_come_from_a_flag_a_file_or_the_folder(log, tmp_path, monkeypatch):
    given = seen_by(monkeypatch, "bayes_grpo.analyze", lambda *_, settings, **__: settings.reference_runs)
    call("forecast", log, "--reference-runs", tmp_path, "--reference-runs", "other")
    call("forecast", log, "--reference-runs", "none")
    call("forecast", log)
    (tmp_path / "bayes_grpo.toml").write_text('reference_runs = ["others"]\n')
    call("forecast", log)
    assert given == [[str(tmp_path), "other"], None, NearbyRuns(log), [str(tmp_path / "others")]]


def test_those_of_a_page_are_those_of_a_forecast(log, tmp_path, monkeypatch):
    forecast = "bayes_grpo.forecasting.forecast.forecast"
    given = seen_by(monkeypatch, forecast, lambda *_, reference_runs, **__: reference_runs)
    monkeypatch.chdir(tmp_path)
    call("report", log, *FORECAST_ALONE, "--reference-runs", tmp_path, "--reference-runs", "other")
    (tmp_path / "bayes_grpo.toml").write_text('reference_runs = ["others"]\n')
    call("report", log, *FORECAST_ALONE)
    assert given == [[str(tmp_path), "other"], [str(tmp_path / "others")]]


def test_those_of_a_watch_are_those_of_a_forecast(log, monkeypatch):
    given = seen_by(monkeypatch, "bayes_grpo.watch", lambda _, watching, **__: watching.reference_runs)
    call("watch", log, "--once")
    call("watch", log, "--once", "--reference-runs", "none")
    call("watch", log, "--once", "--reference-runs", "other")
    assert given == [NearbyRuns(log), (), ("other",)]
