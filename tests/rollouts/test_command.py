"""`bayes-grpo rollouts`, `diagnose --rollouts` and `compare-runs --by-prompt`."""

import json

import numpy as np
import pandas as pd
import pytest

from bayes_grpo import save_plot
from bayes_grpo.rollouts.summary import describe_rollouts
from bayes_grpo.views.plots.rollouts import plot_rollouts
from tests.helpers.command import call
from tests.helpers.made_rollouts import Course, graded, rollouts_of, with_gates
from tests.helpers.rollouts import made, write_trl, write_verl


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Completions of a run as a table, and its log."""
    folder = tmp_path_factory.mktemp("saved")
    found = with_gates(np.random.default_rng(1), Course((3.0, 3.0), (-2.0, 3.0), (2.0, 1.7)))
    found.to_frame().drop(columns="group").to_csv(folder / "completions.csv", index=False)
    means = found.to_frame().groupby("step").reward.mean()
    means.rename("reward").to_csv(folder / "log.csv")
    return folder


def test_flags_name_columns_and_weights(saved, tmp_path):
    write_trl(tmp_path, made())
    plain = json.loads(call("rollouts", tmp_path, "--json").out)
    weighted = json.loads(call("rollouts", tmp_path, "--weight", "format=0", "--json").out)
    assert weighted["rollouts"]["mean_reward"] < plain["rollouts"]["mean_reward"]
    assert call("rollouts", tmp_path, "--weight", "format=x").code == 2
    assert call("rollouts", tmp_path, "--column", "reward").code == 2
    assert call("rollouts", saved / "completions.csv", "--column", "reward=none").code == 3


def test_little_is_said_of_little(tmp_path):
    lonely = rollouts_of(np.arange(6) % 2, np.ones(6), np.arange(6))
    found = describe_rollouts(lonely)
    assert (found.gain, found.groups) == (None, None)
    assert any("at least 2 steps" in text for text in found.missing)
    assert found.sentence == lonely.sentence
    assert save_plot(plot_rollouts(found), tmp_path / "p.svg").exists()


@pytest.mark.thorough
def test_a_diagnosis_reads_rollouts(saved):
    shown = call("diagnose", saved / "log.csv", "--rollouts", saved / "completions.csv", "--json")
    found = json.loads(shown.out)
    assert found["probability"]["apparent_gain"] > 0.5
    assert "of the gain is formatted answers" in found["sentence"]


def test_two_runs_are_compared_by_prompt(tmp_path):
    rng = np.random.default_rng(0)
    effect, prompts = 1.5 * rng.standard_normal(160), np.arange(160).reshape(40, 4)
    for name, gain in (("a", 0.0), ("b", 2.0)):
        run = graded(rng, np.full(40, gain - 1.0), prompts, effect)
        run.to_frame().drop(columns="group").to_csv(tmp_path / f"{name}.csv", index=False)
    words = ("compare-runs", tmp_path / "a.csv", tmp_path / "b.csv", "--by-prompt")
    shown = call(*words)
    assert shown.code == 0
    assert "B is better on the same prompts" in shown.out
    assert json.loads(call(*words, "--also", tmp_path / "a.csv", "--json").out)["verdict"] == "B is better"
    assert call(*words, "--plot", tmp_path / "p.png").code == 2
    assert call("compare-runs", "--by-prompt", "--a", *words[1:3], "--b", words[2]).code == 2


@pytest.mark.thorough
def test_the_page_shows_what_the_gain_is_made_of(saved, tmp_path):
    page = tmp_path / "page.html"
    words = ("--without", "fit,regimes,check,forecast,stability", "--out", page, "--json")
    shown = call("report", saved / "log.csv", "--rollouts", saved / "completions.csv", *words)
    assert shown.code == 0
    found = json.loads(shown.out)
    assert found["diagnosis"]["gain"]["shares"][1]["name"] == "formatted"
    text = page.read_text()
    assert "What the gain is made of (" in text
    assert "share of the gain" in text


def test_hostile_names_of_parts_are_drawn_and_shown_as_text(tmp_path):
    rng = np.random.default_rng(0)
    step = np.repeat(np.arange(1, 21), 16)
    form, task = rng.random(320) < step / 20, rng.random(320) < 0.5
    names = ("[red]format$_{[/]", "<script>correct\x1b[31m")
    table = pd.DataFrame({"step": step, "prompt_id": np.arange(320) // 4, "reward": form + 0.5 * task})
    table[names[0]], table[names[1]] = 1.0 * form + rng.integers(0, 2, 320), 1.0 * task
    table["reward"] = table[names[0]] + 0.5 * table[names[1]]
    table.to_csv(tmp_path / "t.csv", index=False)
    write_verl(tmp_path / "verl", made())
    for words in ((), ("--json",)):
        shown = call("rollouts", tmp_path / "verl", *words)
        assert shown.code == 0
        assert "SECRET" not in shown.out + shown.err
        assert "\x1b" not in shown.out + shown.err
    shown = call("rollouts", tmp_path / "t.csv", "--plot", tmp_path / "p.png")
    assert shown.code == 0
    assert "[red]format$_{[/]" in shown.out
    assert "\x1b" not in shown.out
