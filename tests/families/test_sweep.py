"""A family from its logs to its sentence."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayes_grpo
from bayes_grpo import compare_runs, save_plot, sweep
from bayes_grpo.cli.command import each_by_itself
from bayes_grpo.common.errors import SettingError
from bayes_grpo.families.members import LeftOutRun, failure_in_short
from bayes_grpo.views.plots.families import plot_compare_runs, plot_sweep
from tests.families.made import relaxing, swept
from tests.helpers.command import call
from tests.helpers.runs import make_run, steps
from tests.helpers.shown import text_of

EXAMPLE = Path(__file__).parents[2] / "notebooks" / "data" / "softmax_policy_grpo.json"


@pytest.fixture(scope="module")
def found():
    return sweep(swept())


@pytest.mark.thorough
def test_the_rate_follows_the_learning_rate_and_the_plateau_does_not(found):
    rate, plateau = found.exponent("rate", "learning_rate"), found.exponent("plateau", "learning_rate")
    assert found.converged
    assert rate.posterior.low < 1.0 < rate.posterior.high
    assert rate.posterior.low > 0.3
    assert (rate.runs, rate.values) == (6, 3)
    assert rate.verdict == "moves"
    assert abs(plateau.posterior.median) < 0.1
    assert plateau.p_zero > 0.8
    assert rate.prior.low == pytest.approx(-1.645, abs=1e-3)
    assert 0.5 < rate.contraction <= 1.0


@pytest.mark.thorough
def test_the_result_is_a_sentence_a_table_and_strict_json(found):
    assert "learning rate moves the response rate" in found.sentence
    assert "90% intervals, 6 runs" in found.sentence
    json.dumps(found.to_dict(), allow_nan=False)
    frame = found.to_frame()
    assert frame.loc[("rate", "learning_rate"), "verdict"] == "moves"
    assert frame.attrs["interval_level"] == 0.9


@pytest.mark.thorough
def test_a_picture_of_a_family(found, tmp_path):
    figure = plot_sweep(found)
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert labels[0].startswith("learning_rate ")
    assert save_plot(figure, tmp_path / "family.png").stat().st_size > 10_000


def test_recipes_that_differ_are_told_apart_and_one_recipe_is_not(tmp_path):
    slow = [relaxing(f"a{i}", seed=i, group_size=8, prompts_per_step=4, plateau=0.4) for i in range(2)]
    fast = [relaxing(f"b{i}", seed=9 + i, group_size=16, prompts_per_step=4, plateau=0.7) for i in range(2)]
    clear = compare_runs(slow, fast)
    assert clear.answer("step").verdict == "B is better"
    assert [x.at for x in clear.answers] == ["step", "completions", "plateau"]
    # At equal completions B, with twice the group, has made half of the steps.
    assert clear.answer("completions").b.median < clear.answer("step").b.median
    same = compare_runs(slow[0], slow[1])
    assert 0.05 < same.answer("step").p_better < 0.95
    assert "Cannot tell which is better at step 60" in same.sentence
    assert "one seed of each" in same.cautions[-1]
    assert "public recipes" in same.spread_from
    json.dumps(same.to_dict(), allow_nan=False)
    assert save_plot(plot_compare_runs(same), tmp_path / "pair.png").stat().st_size > 10_000
    with pytest.raises(SettingError, match="step: expected one that all runs have, 1 to 60, found 100"):
        compare_runs(slow, fast, step=100.0)


@pytest.fixture
def folder(tmp_path, write_trl_log):
    """Logs of three runs."""
    for run in swept(3):
        rate = float(run.signals["learning_rate"][0])
        write_trl_log(tmp_path / f"{run.name}.json", run.reward, learning_rate=rate)
    return tmp_path


@pytest.mark.thorough
def test_the_command_line_says_what_was_found(found, folder, monkeypatch):
    """A family that was found before, because another one takes half a minute."""
    asked: list[Any] = []
    monkeypatch.setattr(bayes_grpo, "family", lambda logs, vary, **_: asked.append(([*map(str, logs)], vary)) or found)
    words = ("sweep", folder, "--vary", "learning_rate")
    said = call(*words, "--json", "--plot", folder / "family.png")
    assert said.code == 0, said.err
    printed = json.loads(said.out)
    assert printed.pop("headline") == found.sentence
    assert printed == {"schema": 1} | json.loads(json.dumps(found.to_dict()))
    assert (folder / "family.png").stat().st_size > 10_000
    assert found.sentence.split(":")[0] in " ".join(call(*words).out.split())
    assert asked == [([str(folder)], ["learning_rate"])] * 2


def test_the_command_line_of_both(folder):
    pair = call("compare-runs", folder / "run0.json", folder / "run2.json")
    assert pair.code == 0
    assert "P(B better" in pair.out
    several = [folder / f"run{i}.json" for i in range(3)]
    seeds = call("compare-runs", "--a", *several[:2], "--json", "--b", several[2])
    assert json.loads(seeds.out)["counts"] == {"a": 2, "b": 1}
    lacking = call("sweep", folder, "--vary", "model_size")
    assert lacking.code == 3
    assert lacking.err.count("\n") == 1
    assert "model_size: not known of run run0" in lacking.err
    for wrong in (
        ("compare-runs", EXAMPLE),
        ("compare-runs", "--a", EXAMPLE),
        ("sweep",),
    ):
        assert call(*wrong).code == 2


def test_several_logs_of_a_flag_are_written_out_for_compare_runs_alone():
    words = ["compare-runs", "--a", "x", "y", "--b", "z", "--seed", "3", "--step", "9"]
    written = ["compare-runs", "--a", "x", "--a", "y", "--b", "z", "--seed", "3", "--step", "9"]
    assert each_by_itself(words) == written
    assert each_by_itself(["fit", "--a", "x", "y"]) == ["fit", "--a", "x", "y"]
    assert each_by_itself([]) == []


@pytest.mark.thorough
def test_a_posterior_that_knows_nothing_moves_nothing(found):
    known = found.exponent("rate", "learning_rate")
    wide = replace(known, p_zero=0.03, p_positive=0.6, contraction=0.0)
    assert wide.verdict == "cannot tell"
    assert "mostly the prior" in wide.sentence
    assert replace(known, p_zero=0.03, p_positive=0.97).verdict == "moves"
    assert replace(known, p_zero=0.96, p_positive=0.97).verdict == "does not move"


def test_repetitions_are_named_and_what_one_more_would_show(found):
    assert found.to_dict()["repetitions"] == [["run0", "run3"], ["run1", "run4"], ["run2", "run5"]]
    assert found.repetition_sentence == (
        "run0, run3; run1, run4; run2, run5 (all settings and names alike); only there is noise of seeds alone: "
        "3 differences show its size within 41%, one more repetition would show its size within 35%."
    )
    none = replace(found, repetitions=())
    assert "so no difference is noise of seeds alone; one repetition would" in none.repetition_sentence
    assert none.repetition_sentence in text_of(none)


def test_a_run_that_collapsed_is_named_first(found):
    """Its exponents cannot say it: the law relaxes and stays."""
    assert not any(run.collapsed for run in found.runs)
    lost = replace(found.runs[-1], reward=np.where(np.arange(60) < 40, 0.7, 0.01))
    told = replace(found, runs=(*found.runs[:-1], lost)).sentence
    assert told.startswith(f"1 of 6 runs collapsed: {lost.name} (learning rate")
    assert told.endswith(found.sentence[1:])


def test_a_run_that_failed_before_it_had_rows_for_the_law_is_named_first(found):
    """What fails first has the fewest rows: left out in silence it would make its settings look safe."""
    spent = {"entropy": 0.7 * np.exp(-np.arange(14) / 2.0)}
    dead = {1.0: 0.3, 2.0: 0.28, 5.0: 0.02, 8.0: 0.0, 12.0: 0.0}
    lost = make_run(steps(14), np.full(14, np.nan), name="dead", signals=spent, evals=dead)
    short = relaxing("short", rows=5, seed=9, learning_rate=1e-6)
    failed, fine = (
        LeftOutRun(run.name, "too few rows", {"learning_rate": 1e-4}, failure_in_short(run)) for run in (lost, short)
    )
    assert failed.failed
    assert fine.failed == ""
    said = replace(found, left_out=(failed, fine))
    assert said.sentence.startswith(
        f"1 further run is left out and failed: dead (learning rate 0.0001): {failed.failed}. "
    )
    assert "short" not in said.sentence
    assert said.to_dict()["left_out"][0]["failed"] == failed.failed
