"""Logs and directories as written: complete, in TRL's shape, and never at the expense of what was there."""

import json
import tomllib

import numpy as np
import pytest

from bayes_grpo.common.errors import OutputError, SettingError
from bayes_grpo.logs.settings import Settings
from bayes_grpo.simulate import trainer_log
from bayes_grpo.simulate.trainer_log import trainer_state, write_json, write_runs


def tree(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_run_directory_holds_log_settings_and_truth(scenario_runs, tmp_path):
    run = scenario_runs("plateau")[0]
    (directory,) = write_runs([run], tmp_path / "deep" / "out")
    assert directory == tmp_path / "deep" / "out" / "run-000"
    log = json.loads((directory / "trainer_state.json").read_text())
    settings = tomllib.loads((directory / "bayes_grpo.toml").read_text())["settings"]
    truth = json.loads((directory / "truth.json").read_text())
    assert log["global_step"] == log["max_steps"] == run.structure.n_steps
    assert set(settings) <= {name for name, _ in Settings().items()}
    assert settings["group_size"] == run.structure.group_size
    assert settings["momentum"] == float(run.numbers.momentum)
    assert settings["refresh_interval"] == int(run.numbers.refresh_interval)
    assert truth["final_reward"] == run.truth.final_reward
    np.testing.assert_allclose(truth["true_reward"], run.trajectory.true_reward)
    assert [entry.name for entry in (tmp_path / "deep").iterdir()] == ["out"]


def test_rows_have_the_shape_of_trl_and_windows_average(scenario_runs):
    run = scenario_runs("plateau")[0]
    history = trainer_state(run.trajectory, run.structure, 1)["log_history"]
    train = [row for row in history if "reward" in row]
    evaluation = [row for row in history if "eval_reward" in row]
    assert [row["step"] for row in train] == list(range(1, 301))
    assert [row["step"] for row in evaluation] == list(range(20, 301, 20))
    assert not set(train[0]) & set(evaluation[0]) - {"epoch", "step"}
    assert {"loss", "grad_norm", "learning_rate", "reward_std", "clip_ratio/region_mean"} <= set(train[0])
    assert {"train_runtime", "total_flos", "train_loss"} <= set(history[-1])
    np.testing.assert_allclose([row["reward"] for row in train], run.trajectory.reward, atol=1e-6)
    history = trainer_state(run.trajectory, run.structure, 1, logging_steps=10)["log_history"]
    rows = [row for row in history if "reward" in row]
    assert len(rows) == 30
    assert rows[3]["reward"] == pytest.approx(run.trajectory.reward[30:40].mean(), abs=1e-6)
    assert rows[3]["grad_norm"] == pytest.approx(float(run.trajectory.grad_norm[39]), rel=1e-6)
    with pytest.raises(SettingError, match="logging_steps"):
        trainer_state(run.trajectory, run.structure, 1, logging_steps=0)


def test_the_same_runs_give_the_same_bytes_in_a_new_or_empty_directory(scenario_runs, tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("a", "b"):
        assert len(write_runs(scenario_runs("plateau"), tmp_path / name, logging_steps=5)) == 2
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert len(tree(tmp_path / "a")) == 6
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["run-000", "run-001"]


def test_what_is_in_the_way_is_refused_and_untouched(scenario_runs, tmp_path):
    (tmp_path / "file").write_text("keep")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("keep")
    for name in ("file", "link", "full", "file/out"):
        with pytest.raises(OutputError, match=f"{name}: expected a new or empty directory, found .* nothing written"):
            write_runs(scenario_runs("plateau"), tmp_path / name)
    with pytest.raises(SettingError, match="at least one run"):
        write_runs([], tmp_path / "out")
    assert tree(tmp_path) == {"file": b"keep", "full/precious.txt": b"keep"}


def test_an_interrupted_write_leaves_nothing(scenario_runs, tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trainer_log, "write_json", full)
    with pytest.raises(OutputError, match="No space left"):
        write_runs(scenario_runs("plateau"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_json_is_replaced_whole_or_not_at_all(tmp_path):
    target = write_json(tmp_path / "log.json", {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(target, {"a": float("nan")})
    assert json.loads(target.read_text()) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["log.json"]
