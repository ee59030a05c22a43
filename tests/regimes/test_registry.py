"""Regimes of other packages: found by their entry point, used by name in every command, and by a fit of their own."""

import importlib
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from bayes_grpo import REGIMES, SamplerSettings, check, fit, forecast, load_fit, save_fit, summarize
from bayes_grpo.common.errors import FitFileError, RegimeWarning, SettingError
from bayes_grpo.regimes import built_in, registry
from bayes_grpo.regimes.built_in.exponential import Exponential
from bayes_grpo.regimes.registry import get_regime
from tests.helpers.runs import rising_run

PACKAGE = Path(__file__).parent / "plugin"
FAST = SamplerSettings(num_chains=4, num_warmup=300, num_samples=500)


@pytest.fixture
def installed(tmp_path):
    """The package as an installer leaves it: its module, and what its project file says of entry points."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    (tmp_path / "grpo_linear").symlink_to(PACKAGE / "grpo_linear")
    about = tmp_path / "grpo_linear-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in e.items()) for group, e in project["entry-points"].items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return tmp_path


def bayes_grpo(installed, *words):
    """The command in a process of its own, in which the package is installed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "bayes_grpo", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.thorough
def test_a_regime_of_another_package_is_found_by_its_name(installed, tmp_path, write_trl_log, curve, monkeypatch):
    log, fit_file = write_trl_log(tmp_path / "trainer_state.json", curve), tmp_path / "linear.nc"
    done = bayes_grpo(installed, "compare", log, "--regimes", "linear,flat", "--no-lfo", "--json")
    assert done.returncode == 0, done.stderr
    assert {line["regime"] for line in json.loads(done.stdout)["table"]} == {"linear", "flat"}
    saved = bayes_grpo(installed, "fit", log, "--regime", "linear", "--json", "--out", fit_file)
    assert saved.returncode == 0, saved.stderr
    # Without the package its fit is refused with the remedy, and with the regime at hand it is read and checked.
    with pytest.raises(FitFileError, match="install the package that brings it"):
        load_fit(fit_file)
    assert "linear" not in REGIMES
    monkeypatch.syspath_prepend(str(PACKAGE))
    fitted = load_fit(fit_file, importlib.import_module("grpo_linear").Linear())
    assert {"fluctuation_time", "fixed_point", "initial_reward"} <= {r.name for r in summarize(fitted).rows}
    assert check(fitted).about.rows == len(curve)


@pytest.fixture
def entries(monkeypatch):
    """Puts entry points in the place of those of installed packages."""

    def put(**values):
        found = [EntryPoint(name, value, registry.GROUP) for name, value in values.items()]
        monkeypatch.setattr(registry, "entry_points", lambda group: found if group == registry.GROUP else [])
        registry.installed_regimes.cache_clear()

    yield put
    monkeypatch.undo()
    registry.installed_regimes.cache_clear()


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("missing", "no_such_module:Regime", "cannot be loaded"),
        ("number", "math:pi", "expected a Regime named 'number'"),
        ("other", "bayes_grpo.regimes.built_in.flat:Flat", "expected a Regime named 'other'"),
        ("flat", "bayes_grpo.regimes.built_in.flat:Flat", "another regime has that name"),
    ],
)
def test_an_entry_that_is_no_regime_is_named_and_left_out(entries, name, value, why):
    entries(**{name: value})
    with pytest.warns(RegimeWarning, match=why):
        names = list(REGIMES)
    assert len(names) == len(set(names)) == 8
    assert type(get_regime("flat")).__module__ == "bayes_grpo.regimes.built_in.flat"
    with pytest.raises(SettingError, match="expected one of bernoulli"):
        get_regime("no_such_regime")


@dataclass(frozen=True)
class Named(Exponential):
    """A user's own regime under a name that is taken, with an option."""

    factor: float = 1.0
    name = "exponential"
    title = "mine"

    def derived(self, values, table):
        return {"my_rate": self.factor / np.asarray(values["relaxation_time"])}


@pytest.mark.thorough
def test_a_fit_carries_its_regime_even_under_a_name_that_is_taken(tmp_path):
    mine = Named(factor=3.0)
    result = fit(rising_run(), mine, sampler=FAST)
    assert result.regime is mine
    names = {row.name for row in summarize(result).rows}
    assert "my_rate" in names
    assert "relaxation_rate" not in names
    np.testing.assert_allclose(result.draws("my_rate"), 3.0 / result.draws("relaxation_time"))
    assert len(forecast(rising_run(), horizon=60, regimes=[mine]).latent) == 2000
    save_fit(result, tmp_path / "fit.nc")
    assert load_fit(tmp_path / "fit.nc", mine).regime is mine
    with pytest.raises(FitFileError, match="expected a fit of regime 'flat', found one of 'exponential'"):
        load_fit(tmp_path / "fit.nc", get_regime("flat"))


def test_a_file_in_the_package_is_a_regime(tmp_path, monkeypatch):
    (tmp_path / "stretched.py").write_text(
        "from bayes_grpo.regimes.built_in.exponential import Exponential\n\n\n"
        "class Stretched(Exponential):\n    name = 'stretched'\n\n\nREGIME = Stretched()\n"
    )
    monkeypatch.setattr(built_in, "__path__", [*built_in.__path__, str(tmp_path)])
    assert "stretched" in REGIMES
    assert get_regime("stretched").has_trend


def test_regimes_that_a_log_does_not_distinguish_are_compared_by_name_alone():
    compared = {name for name, regime in REGIMES.items() if not regime.on_request}
    assert compared >= {"flat", "exponential", "oscillator", "sigmoid", "reduction"}
    assert compared.isdisjoint({"bernoulli", "logistic", "stiffness_damping"})


def test_equal_regimes_share_their_programs_and_others_do_not():
    assert Exponential() == Exponential()
    assert hash(Exponential()) == hash(Exponential())
    assert Named(factor=2.0) != Named(factor=3.0)
    assert Named() != Exponential()
