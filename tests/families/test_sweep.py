"""A sweep from its logs to its sentence."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bayes_grpo
from bayes_grpo import save_plot, sweep
from bayes_grpo.cli.app import repeat_flags
from bayes_grpo.common.errors import FitError
from bayes_grpo.families.members import NamedSetting, ShortRun, failure_in_short
from bayes_grpo.families.model import TRAITS, SweepDraws
from bayes_grpo.fitting.sampling.nuts import check_convergence
from bayes_grpo.views.plots.runs import plot_sweep
from bayes_grpo.views.view import view
from tests.families.made import relaxing, swept
from tests.helpers.command import call
from tests.helpers.pages import EXAMPLE
from tests.helpers.paths import not_none
from tests.helpers.runs import make_run, steps
from tests.helpers.shown import text_of


@pytest.fixture(scope="module")
def found():
    """A sweep from given draws: the rate follows the learning rate, all else is as before."""

    def drawn(data, seed):
        rng = np.random.default_rng(seed)
        slopes = data.slope * rng.standard_normal((4, 500, 1, len(TRAITS)))
        slopes[..., TRAITS.index("relaxation_time")] = -1.0 + 0.2 * rng.standard_normal((4, 500, 1))
        numbers = rng.standard_normal((4, 500))
        mean = np.zeros((4, 500, len(TRAITS)))
        return SweepDraws(slopes, mean, mean), check_convergence({"x": numbers}, numbers, numbers > 9.0, retried=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayes_grpo.families.sweep.sample_sweep", drawn)
        return sweep(swept())


@pytest.fixture
def folder(tmp_path, write_trl_log):
    """Logs of three runs."""
    for run in swept(3):
        rate = float(run.signals["learning_rate"][0])
        write_trl_log(tmp_path / f"{run.name}.json", run.reward, learning_rate=rate)
    return tmp_path


def test_a_sweep_is_a_sentence_a_table_a_picture_and_strict_json(found, tmp_path):
    rate, plateau = found.exponent("rate", "learning_rate"), found.exponent("plateau", "learning_rate")
    assert rate.posterior.median == pytest.approx(1.0, abs=0.02)
    assert rate.prior.low == pytest.approx(-1.645, abs=1e-3)
    assert rate.contraction == pytest.approx(0.96, abs=0.01)
    assert found.sentence.startswith("A higher learning rate raises the response rate (exponent +1.0")
    assert found.sentence.endswith(" 3 of 4 effects are unclear (90% intervals, 6 runs).")
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.to_frame().attrs["interval_level"] == 0.9
    figure = plot_sweep(found)
    assert figure.axes[0].get_legend_handles_labels()[1][0].startswith("learning_rate ")
    assert save_plot(figure, tmp_path / "sweep.png").stat().st_size > 10_000
    assert "mostly the prior" in plateau.sentence
    wide = replace(rate, p_zero=0.03, p_positive=0.6, contraction=0.0)
    assert wide.verdict == "cannot tell"
    assert replace(rate, p_zero=0.96, p_positive=0.97).verdict == "does not move"


def test_repetitions_are_named_and_what_one_more_would_show(found):
    assert found.to_dict()["repetitions"] == [["run0", "run3"], ["run1", "run4"], ["run2", "run5"]]
    assert found.repetition_sentence == (
        "run0, run3; run1, run4; run2, run5 (same settings and names) show the noise of seeds: "
        "3 differences show its size within 41%, one more repetition would show its size within 35%."
    )
    none = replace(found, repetitions=())
    assert "so seed noise cannot be measured; one repetition would" in none.repetition_sentence
    assert none.repetition_sentence in text_of(none)


def test_what_file_names_state_and_what_is_assumed_is_printed(found):
    given = NamedSetting("lora_rank", {"a": 8.0, "b": 32.0}, 4, 16.0)
    text = " ".join(text_of(replace(found, named=(given,))).split())
    assert "Settings from file names: lora_rank 8, 32." in text
    assert (
        "the geometric mean of the others: lora_rank 16 (4 runs); --set NAME=VALUE or a file name gives another" in text
    )


def test_runs_that_collapsed_or_failed_are_named_first(found):
    """No exponent shows them; and what fails first has the fewest rows, and would make its settings look safe."""
    assert not any(run.collapsed for run in found.runs)
    lost = replace(found.runs[-1], reward=np.where(np.arange(60) < 40, 0.7, 0.01))
    fallen = replace(found, runs=(*found.runs[:-1], lost)).sentence
    assert fallen.startswith(f"1 of 6 runs collapsed: {lost.name} (learning rate")
    assert fallen.endswith(found.sentence[1:])
    spent = {"entropy": 0.7 * np.exp(-np.arange(14) / 2.0)}
    dead = {1.0: 0.3, 2.0: 0.28, 5.0: 0.02, 8.0: 0.0, 12.0: 0.0}
    early = make_run(steps(14), np.full(14, np.nan), name="dead", signals=spent, evals=dead)
    short = relaxing("short", rows=5, seed=9, learning_rate=1e-6)
    failed, fine = (
        ShortRun(run.name, "too few rows", {"learning_rate": 1e-4}, failure_in_short(run)) for run in (early, short)
    )
    assert (bool(failed.failed), fine.failed) == (True, "")
    without = replace(found, left_out=(failed, fine))
    assert without.sentence.startswith(
        f"1 further run is left out and failed: dead (learning rate 0.0001): {failed.failed}. "
    )
    assert "short" not in without.sentence
    assert without.to_dict()["left_out"][0]["failed"] == failed.failed


def test_a_collapsed_run_of_three_is_named_at_once_and_no_chain_is_run(monkeypatch, tmp_path, write_trl_log):
    """Raw logs whose names alone state the learning rates, of which the highest collapsed."""
    monkeypatch.setattr("bayes_grpo.families.sweep.sample_sweep", None)
    names = ("grpo_lr1em06", "grpo_lr5em06", "grpo_lr1em05")
    for seed, (name, lost) in enumerate(zip(names, (False, False, True), strict=True)):
        reward = relaxing(name, seed=seed).reward
        write_trl_log(tmp_path / f"{name}.json", np.where(np.arange(60) < 40, reward, 0.01) if lost else reward)
    made = sweep([tmp_path / f"{name}.json" for name in names])
    assert made.vary == ("learning_rate",)
    assert made.converged
    document = view(made)
    assert document.answer == "1 of 3 runs collapsed: grpo_lr1em05 (learning rate 1e-05)."
    assert "it needs 3 runs without a collapse, found 2" in document.why
    assert document.do == "see what failed first: bayes-grpo diagnose grpo_lr1em05."
    assert [row[0].text for row in not_none(document.table).rows][-1] == "grpo_lr1em05"


def test_no_effect_rests_on_a_collapsed_run(monkeypatch):
    taken = []

    def drawn(data, seed):
        taken.append(len(data.x))
        raise FitError("taken")

    monkeypatch.setattr("bayes_grpo.families.sweep.sample_sweep", drawn)
    runs = swept()
    lost = replace(runs[-1], reward=np.where(np.arange(60) < 40, 0.7, 0.01))
    with pytest.raises(FitError, match="taken"):
        sweep([*runs[:-1], lost])
    assert taken == [5]


def test_the_command_line(found, folder, monkeypatch):
    calls = []
    monkeypatch.setattr(
        bayes_grpo, "sweep", lambda logs, vary, part, **_: calls.append(([*map(str, logs)], vary, part)) or found
    )
    words = ("sweep", folder, "--vary", "learning_rate", "--part", "math")
    done = call(*words, "--json", "--plot", folder / "sweep.png")
    assert done.code == 0, done.err
    printed: dict[str, Any] = json.loads(done.out)
    assert printed.pop("headline") == found.sentence
    assert printed == {"schema": 1} | json.loads(json.dumps(found.to_dict()))
    assert (folder / "sweep.png").stat().st_size > 10_000
    assert calls == [([str(folder)], ["learning_rate"], "math")]
    monkeypatch.undo()
    lacking = call("sweep", folder, "--vary", "model_size")
    assert (lacking.code, lacking.err.count("\n")) == (3, 1)
    assert "model_size: not known of run run0" in lacking.err
    for several in (("sweep", folder), ("compare-runs", folder / "run0.json", folder / "run1.json")):
        assert "part: expected a reward function or environment of run0" in call(*several, "--part", "math").err


def test_the_command_line_of_two_recipes():
    for wrong in (("compare-runs", EXAMPLE), ("compare-runs", "--a", EXAMPLE), ("sweep",)):
        assert call(*wrong).code == 2
    words = ["compare-runs", "--a", "x", "y", "--b", "z", "--seed", "3", "--step", "9"]
    written = ["compare-runs", "--a", "x", "--a", "y", "--b", "z", "--seed", "3", "--step", "9"]
    assert repeat_flags(words) == written
    assert repeat_flags(["fit", "--a", "x", "y"]) == ["fit", "--a", "x", "y"]
