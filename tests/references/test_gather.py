"""Reference runs among those that are named, and among those near a log."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import read_log
from bayes_grpo.common.errors import LogReadError, SettingError
from bayes_grpo.logs.options import sidecar_reference_runs
from bayes_grpo.references import gather
from bayes_grpo.references.gather import NearbyRuns, gather_references, named_runs
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.runs import make_run
from tests.helpers.stores import write_trackio
from tests.references.made import runs_of_orders


def written(folder, runs):
    folder.mkdir(exist_ok=True)
    for run in runs:
        lines = ["step,reward", *(f"{s:g},{y:.6f}" for s, y in zip(run.step, run.reward, strict=True))]
        (folder / f"{run.name}.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_folders_patterns_and_files_are_reference_runs_and_the_run_is_never_its_own(tmp_path):
    runs = runs_of_orders([0] * 4)
    folder = written(tmp_path / "runs", runs)
    (folder / "notes.txt").write_text("nothing to read")
    run = read_log(folder / "run0.csv").until(30.0)
    found = gather_references(run, rows_of(run), [folder, str(folder / "run*.csv"), folder / "run1.csv"])
    assert [r.name for r, _ in found.runs] == ["run1", "run2", "run3"]
    why = {x.name: x.why for x in found.excluded}
    assert why["run0"].startswith("the run itself")
    assert why["notes.txt"] == "no log that can be read"
    with pytest.raises(LogReadError, match="nothing of this pattern"):
        named_runs(str(folder / "none*.json"))
    with pytest.raises(LogReadError):
        named_runs(folder / "gone.csv")


def test_what_cannot_be_compared_is_left_out_with_its_reason():
    run, other, *_ = runs_of_orders([0, 0])
    percents = replace(other, name="percents", reward=100.0 * other.reward)
    held_out = make_run([], [], evals={1.0: 0.1, 2.0: 0.3, 3.0: 0.2}, name="held out")
    renamed = replace(other, name="renamed", keys={"reward": "rewards/format"})
    ranged = make_run(other.step, other.reward, name="ranged", reward_high=3.0)
    mine = replace(make_run(run.step, run.reward, reward_high=1.0), keys={"reward": "reward"})
    found = gather_references(mine, rows_of(mine), [percents, held_out, renamed, ranged, other])
    why = {x.name: x.why for x in found.excluded}
    assert [r.name for r, _ in found.runs] == ["run1"]
    assert why["percents"].startswith("another unit")
    assert why["ranged"].startswith("another range of the reward: reward_high 3")
    assert why["renamed"] == "another reward: rewards/format in place of reward"
    assert "reward" in why["held out"]


def test_of_very_many_the_nearest_are_taken(monkeypatch):
    monkeypatch.setattr(gather, "MOST_REFERENCES", 3)
    near, far = runs_of_orders([0] * 4, seed=1), runs_of_orders([0] * 3, plateau=0.1, seed=2)
    far = [replace(r, name=f"far{i}") for i, r in enumerate(far)]
    found = gather_references(near[0], rows_of(near[0]), [*far, *near])
    assert [r.name for r, _ in found.runs] == ["run1", "run2", "run3"]
    assert sum("less similar to the run's rows" in x.why for x in found.excluded) == 3


def test_the_file_next_to_a_log_names_its_reference_runs(tmp_path):
    (tmp_path / "bayes_grpo.toml").write_text('reference_runs = ["runs/"]\n[settings]\ngroup_size = 8\n')
    log = written(tmp_path, runs_of_orders([0])) / "run0.csv"
    assert sidecar_reference_runs(log) == [str(tmp_path / "runs/")]
    assert read_log(log).settings.group_size.value == 8
    assert sidecar_reference_runs(tmp_path / "elsewhere" / "run0.csv") == []
    (tmp_path / "bayes_grpo.toml").write_text("reference_runs = 3\n")
    with pytest.raises(SettingError, match="expected reference_runs ="):
        sidecar_reference_runs(log)
    assert np.isfinite(rows_of(read_log(log)).y).all()


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
    assert found.excluded == ()
    assert {x.name for x in named.excluded} >= {"run0", "run_copy", "run_notes.csv"}


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
