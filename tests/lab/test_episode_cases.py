"""Labels of rows: what a reader saw, what two readers could say, and what the laboratory knows."""

import json

import numpy as np
import pytest

from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.diagnosis.mode import followed_modes
from benchmarks.lab.learners.episode_cases import (
    LAB_EPISODES,
    NAMES,
    OFF,
    ON,
    OPEN,
    SHARED,
    LabelledEpisode,
    _labels,
    _true,
    lab_episodes,
    public_episodes,
)
from benchmarks.lab.truth import TRUE_EVENTS

STEP = np.arange(1.0, 11.0)
HEAD = "run_id,mode,from_step,to_step,recovered,source,arguable,signals,words"


def episode(first, last, arguable=False):
    return LabelledEpisode("made", first, last, arguable)


def test_rows_are_on_within_an_episode_and_off_elsewhere():
    assert _labels(STEP, []).tolist() == [OFF] * 10
    assert _labels(STEP, [episode(3, 5), episode(8, 20)]).tolist() == [OFF] * 2 + [ON] * 3 + [OFF] * 2 + [ON] * 3


@pytest.mark.parametrize("turned", [False, True])
def test_arguable_rows_are_open_and_sure_ones_win(turned):
    episodes = [episode(2, 6, arguable=True), episode(5, 8)]
    found = _labels(STEP, episodes[::-1] if turned else episodes)
    assert found.tolist() == [OFF] + [OPEN] * 3 + [ON] * 4 + [OFF] * 2


def test_an_episode_shorter_than_a_row_has_the_nearest_one():
    assert np.flatnonzero(_labels(STEP, [episode(4.3, 4.4)]) == ON).tolist() == [3]


def test_readers_and_laboratory_speak_of_modes_that_are_followed():
    followed = {mode.name for mode in followed_modes() if mode.predictors}
    assert set(NAMES.values()) == followed
    assert set(LAB_EPISODES) == set(MODES)
    known = {*TRUE_EVENTS, "wasted", "saturated"}
    assert all(set(names) <= known for names in (*LAB_EPISODES.values(), *SHARED.values()))


def test_what_is_one_mode_for_sure_may_leave_others_open():
    held = {"broken_reward": [(40, 90)], "collapse": [(50, 60)], "solved": [(1, 5)]}
    found = _true({"episodes": held, "gold_reward": [0.2] * 90, "eval_gold_reward": [0.2] * 9})
    sure = {e.mode: (e.first, e.last) for e in found if not e.arguable}
    assert sure == {"advantage_degeneracy": (40, 90), "dynamical_instability": (50, 60)}
    unsure = {(e.mode, e.first) for e in found if e.arguable}
    assert ("dynamical_instability", 40) in unsure
    assert ("advantage_degeneracy", 1) in unsure
    assert ("advantage_degeneracy", 40) not in unsure


def test_a_held_out_reward_that_stays_behind_is_an_episode_from_where_it_does():
    gold = np.linspace(0.1, 0.9, 100)
    (found,) = _true({"episodes": {}, "gold_reward": gold.tolist(), "eval_gold_reward": [0.1] * 10})
    assert (found.mode, found.last, found.arguable) == ("reward_hacking", 100.0, False)
    assert 10 < found.first < 25


@pytest.fixture
def public(tmp_path):
    """A folder of public runs: one that collapses at row 30 and one that nobody labelled."""
    (tmp_path / "csv").mkdir()
    (tmp_path / "index.csv").write_text("run_id,repo,raw_file\na,x/y,\nb,x/z,\n", encoding="utf-8")
    rng = np.random.default_rng(0)
    for name in "ab":
        rows = np.where(np.arange(40) < 29, 0.7, 0.1) + 0.02 * rng.standard_normal(40)
        text = "step,reward\n" + "".join(f"{i + 1},{x:.4f}\n" for i, x in enumerate(rows))
        (tmp_path / "csv" / f"{name}.csv").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_public_run_has_the_rows_that_its_reader_saw(public):
    lines = [
        "a,instability,30,40,no,author,no,reward,lost",
        "a,degeneracy,1,10,no,reader,no,none,solved already",
        "a,hacking,20,25,no,reader,yes,none,maybe",
        "a,remark,1,2,no,reader,no,none,of no mode",
    ]
    (public / "labels.csv").write_text("\n".join([HEAD, *lines]) + "\n", encoding="utf-8")
    (case,) = public_episodes(public / "labels.csv", [public])
    assert (case.name, case.author, case.rows) == ("a", "x/y", 40)
    assert case.labels["dynamical_instability"].tolist() == [ON if s >= 30 else OFF for s in case.step]
    assert set(case.labels["advantage_degeneracy"][case.step <= 10]) == {OPEN}
    assert set(case.labels["reward_hacking"]) == {OPEN, OFF}
    assert all(case.course[m].shape[0] == len(case.labels[m]) == len(case.step) for m in case.labels)


def test_a_laboratory_run_comes_whole_and_with_signals_missing(tmp_path):
    place = tmp_path / "run-1"
    place.mkdir()
    reward = np.linspace(0.1, 0.9, 40) + 0.02 * np.random.default_rng(0).standard_normal(40)
    rows = [{"step": i + 1, "reward": float(x), "entropy": 1.0} for i, x in enumerate(reward)]
    state = {"log_history": rows, "global_step": 40}
    (place / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    gold = {"gold_reward": reward.tolist(), "eval_gold_reward": reward[::10].tolist()}
    truth = {"family": "made", "episodes": {"collapse": [[20, 30]]}, **gold}
    (place / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    whole, thin = lab_episodes([tmp_path])
    assert (whole.name, thin.name) == ("run-1", "run-1 thinned")
    assert whole.author == thin.author == "lab made"
    on = whole.labels["dynamical_instability"] == ON
    assert whole.step[on].tolist() == [s for s in whole.step if 20 <= s <= 30]
    assert "growing" not in whole.labels
