"""Reference runs without naming them: logs near a log, of the same kind."""

import math
import shutil

from bayes_grpo import read_log, rows_of
from bayes_grpo.references.gather import gather_references
from bayes_grpo.references.nearby import NearbyRuns
from tests.helpers.stores import write_trackio
from tests.references.made import runs_of_orders
from tests.references.test_gather import written


def test_logs_of_one_folder_with_the_same_reward_are_found_the_most_similar_names_first(tmp_path):
    folder = written(tmp_path, runs_of_orders([0] * 3))
    shutil.copy(folder / "run0.csv", folder / "run_copy.csv")
    text = (folder / "run1.csv").read_text()
    (folder / "run_other.csv").write_text(text.replace("reward", "rewards/length", 1))
    (folder / "run_notes.csv").write_text("nothing")
    run = read_log(folder / "run0.csv")
    near = NearbyRuns(folder / "run0.csv")
    assert [x.name for x in near.matching(run)] == ["run1", "run2"]
    assert NearbyRuns(tmp_path / "gone" / "run0.csv").matching(run) == []


def test_output_directories_of_one_folder_are_found(tmp_path, write_trl_log):
    for i in range(3):
        (tmp_path / f"out{i}").mkdir()
        write_trl_log(
            tmp_path / f"out{i}" / "trainer_state.json", [0.1 * i + 0.01 * (j * (i + 2) % 7) for j in range(20)]
        )
    for log in (tmp_path / "out1", tmp_path / "out1" / "trainer_state.json"):
        found = NearbyRuns(log).matching(read_log(log))
        assert [x.name for x in found] == ["out0", "out2"]


def test_runs_of_one_database_are_found_whatever_the_run_is_called(tmp_path):
    for name in ("a", "b", "c"):
        rows = [(i, {"reward": 0.01 * i + 0.1 * math.sin(i * ord(name))}) for i in range(1, 30)]
        store = write_trackio(tmp_path, rows, name=name)
    for name in ("b", "0001id"):
        run = read_log(store, run=name)
        assert [x.name for x in NearbyRuns(store, name).matching(run)] == ["a", "c"]


def test_what_was_found_is_told_from_what_was_named(tmp_path):
    folder = written(tmp_path, runs_of_orders([0] * 3))
    run = read_log(folder / "run0.csv")
    found, named = (gather_references(run, rows_of(run), x) for x in (NearbyRuns(folder / "run0.csv"), folder))
    assert (found.searched, named.searched) == (True, False)
    assert len(found.runs) == len(named.runs) == 2


def test_files_of_one_folder_are_of_one_experiment_where_their_names_begin_alike(tmp_path):
    for name in ("sort_a.csv", "sort_b.csv", "math.csv"):
        (tmp_path / name).write_text(
            "step,reward\n" + "".join(f"{i},{i / 50 + len(name) / 1000}\n" for i in range(1, 30))
        )
    near = NearbyRuns(tmp_path / "sort_a.csv").found
    assert [run.name for run in near] == ["sort_b"]
