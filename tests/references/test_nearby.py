"""Runs near a log."""

import math
import shutil

from bayes_grpo import read_log
from bayes_grpo.references.gather import NearbyRuns, gather_references
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.stores import write_trackio
from tests.references.made import runs_of_orders
from tests.references.test_gather import written


def names(run, log, name=None):
    """Names of the reference runs that are found near a log."""
    return [x.name for x, _ in gather_references(run, rows_of(run), NearbyRuns(log, name)).runs]


def test_logs_of_one_folder_with_the_same_reward_are_found_the_most_similar_names_first(tmp_path):
    folder = written(tmp_path, runs_of_orders([0] * 3))
    shutil.copy(folder / "run0.csv", folder / "run_copy.csv")
    text = (folder / "run1.csv").read_text()
    (folder / "run_other.csv").write_text(text.replace("reward", "rewards/length", 1))
    (folder / "run_notes.csv").write_text("nothing")
    (folder / "math.csv").write_text(text)  # files of one experiment have names that begin alike
    run = read_log(folder / "run0.csv")
    assert names(run, folder / "run0.csv") == ["run1", "run2"]
    assert names(run, tmp_path / "gone" / "run0.csv") == []
    found, named = (gather_references(run, rows_of(run), x) for x in (NearbyRuns(folder / "run0.csv"), folder))
    assert (found.searched, named.searched) == (True, False)
    assert found.left_out == ()
    assert {x.name for x in named.left_out} >= {"run0", "run_copy", "run_notes.csv"}


def test_output_directories_of_one_folder_are_found(tmp_path, write_trl_log):
    for i in range(3):
        (tmp_path / f"out{i}").mkdir()
        rewards = [0.1 * i + 0.01 * (j * (i + 2) % 7) for j in range(20)]
        write_trl_log(tmp_path / f"out{i}" / "trainer_state.json", rewards)
    for log in (tmp_path / "out1", tmp_path / "out1" / "trainer_state.json"):
        assert names(read_log(log), log) == ["out0", "out2"]


def test_runs_of_one_database_are_found_whatever_the_run_is_called(tmp_path):
    for name in ("a", "b", "c"):
        rows = [(i, {"reward": 0.01 * i + 0.1 * math.sin(i * ord(name))}) for i in range(1, 30)]
        store = write_trackio(tmp_path, rows, name=name)
    for name in ("b", "0001id"):
        assert names(read_log(store, run=name), store, name) == ["a", "c"]
