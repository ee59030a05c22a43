"""The command line as a user meets it: what it prints, what it writes, how it fails."""

import json
import math
import os
import re
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from bayes_grpo import load_fit
from tests.helpers.command import Outcome, call
from tests.helpers.pages import EXAMPLE
from tests.helpers.selection import few

OK, USAGE, BAD_INPUT, NOT_CONVERGED = 0, 2, 3, 4
# Too short to converge, so that exit code 4 is certain; every test shares the program compiled for it.
SHORT = ("--regime", "exponential", "--num-chains", "2", "--num-warmup", "50", "--num-samples", "100")
# What converges on the synthetic curve, whose learning rate did not decay as TRL's would by default.
LONG = ("--regime", "exponential", "--set", "schedule=constant")

WriteLog = Callable[..., Path]


def strict_json(text: str) -> Any:
    """Parses JSON and refuses NaN and Infinity, which are not JSON."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in JSON")

    return json.loads(text, parse_constant=refuse)


def names_in(directory: Path) -> list[str]:
    """Everything in a directory, hidden files too."""
    return sorted(os.listdir(directory))


def check_refusal(outcome: Outcome, *parts: str, code: int = BAD_INPUT) -> None:
    """One line on standard error with all parts, nothing on standard output."""
    assert outcome.code == code, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("bayes-grpo: ")
    assert outcome.err.endswith("\n")
    assert outcome.err.count("\n") == 1, outcome.err
    assert "Traceback" not in outcome.err
    for part in parts:
        assert part in outcome.err, f"{part!r} is not in {outcome.err!r}"


class Session(NamedTuple):
    """One converged fit of the synthetic curve with everything that it wrote."""

    outcome: Outcome
    log: Path
    saved: Path
    plot: Path

    @property
    def result(self) -> Any:
        return strict_json(self.outcome.out)


@pytest.fixture(scope="module")
def converged(tmp_path_factory: pytest.TempPathFactory, curve: np.ndarray, write_trl_log: WriteLog) -> Session:
    folder = tmp_path_factory.mktemp("converged")
    log = write_trl_log(folder / "trainer_state.json", curve)
    saved, plot = folder / "fit.nc", folder / "fit.png"
    outcome = call("fit", log, *LONG, "--json", "--quiet", "--out", saved, "--plot", plot)
    return Session(outcome, log, saved, plot)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, curve: np.ndarray, write_trl_log: WriteLog) -> Path:
    return write_trl_log(tmp_path_factory.mktemp("log") / "run.json", curve)


def by_name(result: Any) -> dict[str, Any]:
    return {row["name"]: row for row in result["rows"]}


# ---- what a fit prints and writes


def test_converged_fit_exits_with_0_and_recovers_the_curve(converged: Session):
    assert converged.outcome.code == OK, converged.outcome
    assert converged.outcome.err == ""
    rows = by_name(converged.result)
    truth = {"fixed_point": 0.8, "relaxation_time": 2.0 * 1.5 / 0.3}
    for name, true in truth.items():
        posterior = rows[name]["posterior"]
        assert posterior["low"] <= true <= posterior["high"], (name, posterior)
    assert converged.result["r2"] > 0.95


def test_files_are_whole_and_alone(converged: Session):
    assert names_in(converged.saved.parent) == ["fit.nc", "fit.png", "trainer_state.json"]
    assert converged.plot.read_bytes().startswith(b"\x89PNG")
    assert converged.plot.read_bytes().rstrip().endswith(b"IEND\xaeB`\x82")


def test_saved_fit_loads_with_the_same_numbers(converged: Session):
    fit = load_fit(converged.saved)
    rows = by_name(converged.result)
    assert (fit.regime.name, fit.signal) == ("exponential", "reward")
    for name in ("relaxation_time", "fixed_point"):
        draws = fit.draws(name)
        assert draws.shape in ((4, 500), (4, 1500))  # the retry keeps three runs
        assert np.median(draws) == pytest.approx(rows[name]["posterior"]["median"], rel=1e-12)
    assert fit.convergence.passed
    assert fit.data["log_likelihood"]["y"].dims == ("chain", "draw", "step")
    np.testing.assert_array_equal(fit.step(), np.arange(1.0, 41.0))


def test_not_converged_is_exit_code_4_replaces_an_older_file_whole_and_the_seed_decides(log: Path, tmp_path: Path):
    (tmp_path / "f.nc").write_bytes(b"an older file")
    outcome = call("fit", log, *SHORT, "--json", "--out", tmp_path / "f.nc", "--plot", tmp_path / "f.pdf")
    assert outcome.code == NOT_CONVERGED
    again, other = (call("fit", log, *SHORT, "--json", "--seed", s).out for s in (0, 4))
    assert outcome.out == again
    assert by_name(strict_json(again))["fixed_point"] != by_name(strict_json(other))["fixed_point"]
    result = strict_json(outcome.out)
    assert result["convergence"]["passed"] is False
    assert result["convergence"]["retried"] is True
    assert result["convergence"]["reasons"]
    assert result["verdict"].startswith("The sampler did not converge")
    assert names_in(tmp_path) == ["f.nc", "f.pdf"]
    assert not load_fit(tmp_path / "f.nc").convergence.passed


def test_a_full_disk_leaves_the_older_file_and_no_other(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import xarray as xr

    def full(_tree: Any, path: Any, **_: Any) -> None:
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(xr.DataTree, "to_netcdf", full)
    target = tmp_path / "fit.nc"
    target.write_bytes(b"an older file")
    check_refusal(call("fit", log, *SHORT, "--quiet", "--out", target), "fit.nc", "No space left on device")
    assert names_in(tmp_path) == ["fit.nc"]
    assert target.read_bytes() == b"an older file"


# ---- priors, regimes, signals, settings


def test_prior_by_flag_replaces_the_default(log: Path):
    result = strict_json(call("fit", log, *SHORT, "--json", "--prior", "relaxation_time=30,0.01").out)
    row = by_name(result)["relaxation_time"]
    assert row["prior"]["median"] == pytest.approx(30, rel=0.01)
    assert row["prior"]["high"] / row["prior"]["low"] == pytest.approx(math.exp(2 * 1.645 * 0.01), rel=0.01)
    assert row["posterior"]["median"] == pytest.approx(30, rel=0.02)  # the data say 8
    assert row["mostly_prior"] is True


@pytest.mark.parametrize(
    "arguments",
    [["fit"], ["fit", "x", "--colour"], ["fit", "x", "--seed", "a"], ["fit", str(EXAMPLE), "--set", "y"], ["fly"]],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]):
    outcome = call(*arguments)
    assert outcome.code == USAGE
    assert outcome.out == ""
    assert "Usage: bayes-grpo" in outcome.err
    assert "Traceback" not in outcome.err


def test_every_setting_can_be_stated_on_the_command_line(tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_text("\n".join(json.dumps({"step": s, "score_a": 0.1 * s, "score_b": 1.0}) for s in range(1, 9)))
    stated = {
        "group_size": 4,
        "total_steps": 90,
        "learning_rate": 1e-6,
        "kl_weight": 0.04,
        "clip_range": 0.2,
        "epochs": 2,
        "model_size": 7,
    }
    flags = [x for name, value in stated.items() for x in ("--set", f"{name}={value}")]
    done = call("inspect", log, "--column", "reward=score_a", *flags, "--json")
    found = {name: x["value"] for name, x in json.loads(done.out)["settings"].items() if x["provenance"] == "user"}
    assert found == stated


# ---- hostile text

HOSTILE = "[red]x[bold] $\\frac{$ <script>alert(1)<script> {0} %s"  # a file name: no slash


@pytest.mark.parametrize("suffix", few(["png", "svg"], "svg"))
def test_hostile_text_neither_breaks_nor_steers_the_output(
    tmp_path: Path, curve: np.ndarray, write_trl_log: WriteLog, suffix: str
):
    path = write_trl_log(tmp_path / f"{HOSTILE}.json", curve)
    plot = tmp_path / f"{HOSTILE}.{suffix}"
    outcome = call("fit", path, *SHORT, "--plot", plot)
    assert outcome.code == NOT_CONVERGED, outcome
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", outcome.out)
    assert "[red]x[bold]" in outcome.out  # printed, not obeyed
    assert plot.stat().st_size > 1000
    if suffix == "svg":
        assert "<script>" not in plot.read_text(encoding="utf-8")
    shown = strict_json(call("inspect", path, "--json", "--plot", plot).out)
    assert "\x1b" not in shown["name"]
    if suffix == "svg":
        assert "<script>" not in plot.read_text(encoding="utf-8")
    assert names_in(tmp_path) == sorted([path.name, plot.name])


def test_hostile_keys_and_values(tmp_path: Path, curve: np.ndarray, write_trl_log: WriteLog):
    evil = "\x1b[2J[bold]$x_{$"
    path = write_trl_log(tmp_path / "log.json", curve, **{f"rewards/{evil}": 0.5, evil: evil, "note": "a\nb"})
    for code, *arguments in ((OK, "inspect", path), (NOT_CONVERGED, "fit", path, *SHORT)):
        outcome = call(*arguments, "--plot", tmp_path / "p.png")
        assert outcome.code == code, outcome
        assert "\x1b" not in outcome.out + outcome.err
    check_refusal(call("fit", path, "--column", f"reward={evil}"), "log.json", code=USAGE)


def test_hostile_names_of_missing_files_stay_on_one_line(tmp_path: Path):
    with chdir(tmp_path):
        outcome = call("fit", "no\nsuch\x1b[31m[red]file.json")
    check_refusal(outcome, "[red]file.json")
    assert "\x1b" not in outcome.err
