"""The commands for before a run: simulate and stability."""

import json

import pytest

from tests.helpers.command import call

SAME_RATE = [
    "stability",
    "--learning-rate",
    "1e-6",
    "--learning-time",
    200,
    "--fit-learning-rate",
    "1e-6",
    "--refresh",
    8,
]
"""A bound asked for at the learning rate that the learning time was measured at."""


def test_simulated_runs_are_read_like_any_log(tmp_path):
    place = tmp_path / "runs"
    code, out, _ = call("simulate", "oscillatory", "--out", place, "--n", 2, "--seed", 3, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["headline"].startswith("2 runs of oscillatory in ")
    truths = found["runs"]
    assert len(truths) == 2
    assert truths[0]["failure_mode"] is None
    code, out, _ = call("inspect", place / "run-000", "--json")
    assert code == 0
    settings = json.loads(out)["settings"]
    assert settings["refresh_interval"]["value"] == truths[0]["settings"]["refresh_interval"]
    assert settings["refresh_interval"]["provenance"] == "config"


def test_existing_directory_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    code, _, err = call("simulate", "plateau", "--out", tmp_path)
    assert code == 3
    assert "expected a new directory" in err
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--momentum", 1, "--curvature", 1], "momentum"),
        (["--refresh", 0, "--curvature", 1], "at least 1"),
        ([], "exactly one of"),
        (["--curvature", 1, "--learning-time", 5], "exactly one of"),
        (["--curvature", -1], "positive"),
        (["--curvature", 1, "--fit-learning-rate", 1e-6], "--fit-learning-rate"),
        (["absent.nc"], "absent.nc: no such file"),
        (["--learning-time", 50], "found no learning rate that it was measured at"),
    ],
)
def test_impossible_settings(words, message):
    code, out, err = call("stability", "--learning-rate", "1e-6", *words)
    assert code == 3
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_stability_names_its_models_and_margins():
    """(1 − μ)/K_ref over g = (1 − μ)/τ is τ/K_ref, whatever the momentum."""
    code, out, _ = call(*SAME_RATE, "--json")
    assert code == 0
    report = json.loads(out)
    assert report["rule"]["margin"]["median"] == pytest.approx(200 / 8)
    assert report["hold"]["margin"]["median"] > report["delay"]["margin"]["median"] > 25
    assert "EMA (Adam)" in report["sentence"]


def test_a_log_gives_learning_time_and_rate(tmp_path):
    """The rate at which the time was measured is the log's, so that ten times it is riskier than the log's own."""
    rate, steps = 1e-5, range(1, 41)
    rows = [f"{s},{0.2 + 0.5 * (1 - 2.7 ** (-s / 10)) + 0.02 * (-1) ** s},{rate}" for s in steps]
    log = tmp_path / "a.csv"
    log.write_text("\n".join(["step,reward,learning_rate", *rows]))
    same, more = (
        json.loads(call("stability", log, *words, "--json")[1]) for words in ([], ["--learning-rate", 10 * rate])
    )
    assert more["gain"]["median"] == pytest.approx(10.0 * same["gain"]["median"])
    assert [x["rate"] for x in (same, more)] == pytest.approx([rate, rate])
    assert more["failing"]["p"] > same["failing"]["p"]
    log.write_text("\n".join(["step,reward", *(row.removesuffix(f",{rate}") for row in rows)]))
    code, _, err = call("stability", log, "--learning-rate", rate)
    assert (code, "--fit-learning-rate" in err) == (3, True)
