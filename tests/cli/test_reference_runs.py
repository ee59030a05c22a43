"""Reference runs on the command line: a flag, a file next to the log, else the runs near it."""

from pathlib import Path

import pytest

from bayes_grpo.common.errors import FitError
from bayes_grpo.references.gather import NearbyRuns
from tests.helpers.command import call

ROWS = "\n".join(["step,reward,learning_rate", *(f"{i},{0.5 + 0.01 * (i % 3)},1e-5" for i in range(1, 31))])


def test_reference_runs_come_from_a_flag_a_file_or_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import bayes_grpo as bg

    log, given = tmp_path / "run.csv", []
    log.write_text(ROWS)

    def seen(*_, settings, **__):
        given.append(settings.reference_runs)
        raise FitError("seen")

    monkeypatch.setattr(bg, "analyze", seen, raising=False)
    call("forecast", log, "--reference-runs", tmp_path, "--reference-runs", "other")
    call("forecast", log, "--reference-runs", "none")
    call("forecast", log)
    (tmp_path / "bayes_grpo.toml").write_text('reference_runs = ["others"]\n')
    call("forecast", log)
    assert given == [[str(tmp_path), "other"], None, NearbyRuns(log), [str(tmp_path / "others")]]


def test_a_watch_takes_the_same_ones_as_a_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import bayes_grpo as bg

    log, given = tmp_path / "run.csv", []
    log.write_text(ROWS)

    def seen(_, watching, **__):
        given.append(watching.reference_runs)
        raise FitError("seen")

    monkeypatch.setattr(bg, "watch", seen, raising=False)
    call("watch", log, "--once")
    call("watch", log, "--once", "--reference-runs", "none")
    call("watch", log, "--once", "--reference-runs", "other")
    assert given == [NearbyRuns(log), (), ("other",)]
