"""Simulated runs in the shape of TRL's `trainer_state.json`, and as directories that any reader of logs takes.

out/
  run-000/
    trainer_state.json   what a trainer would have logged
    bayes_grpo.toml      the settings a trainer would have had
    truth.json           what only the simulator knows
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bayes_grpo.common.errors import OutputError, SettingError
from bayes_grpo.common.files import atomic_write, undo_on_exit
from bayes_grpo.common.results import json_safe
from bayes_grpo.simulate.settings import Numbers, Structure

MEANS = {
    # column of a trajectory: key in TRL's log; averaged over the logging window
    "loss": "loss",
    "reward": "reward",
    "reward_std": "reward_std",
    "frac_reward_zero_std": "frac_reward_zero_std",
    "entropy": "entropy",
    "kl": "kl",
    "clip_ratio": "clip_ratio/region_mean",
}
_LAST = ("grad_norm", "learning_rate")
_SIMULATED_SECONDS_PER_STEP = 1.0


def means_of(trajectory: Any) -> dict[str, np.ndarray]:
    """Columns of one run (no leading axis) that a row averages, by their keys in the log, shape (T,) each."""
    return {key: np.asarray(getattr(trajectory, name)) for name, key in MEANS.items()}


def settings_of(structure: Structure, numbers: Numbers, low: float = 0.0, high: float = 1.0) -> dict[str, Any]:
    """A trainer's settings by their canonical names, as a sidecar has them; the lowest and the highest reward too."""
    return {
        "group_size": structure.group_size,
        "prompts_per_step": structure.prompts_per_step,
        "momentum": float(numbers.momentum),
        "momentum_convention": structure.momentum_convention,
        "refresh_interval": int(numbers.refresh_interval),
        "schedule": structure.schedule,
        "total_steps": structure.n_steps,
        "reward_low": low,
        "reward_high": high,
        "reward_std_kind": "total",
    }


def trainer_state(
    trajectory: Any,
    structure: Structure,
    n_prompts: int,
    logging_steps: int = 1,
    means: Mapping[str, np.ndarray] | None = None,
) -> dict[str, Any]:
    """One run as the content of a `trainer_state.json`, of a small policy or a deep network.

    As in TRL, a row is the mean over its logging window, except for ``grad_norm`` and ``learning_rate``,
    which are the window's last; evaluations are rows of their own, and the last row sums up the training. Run
    times are nominal (one second a step), so that the same seed gives the same bytes.

    Args:
        trajectory: The run, without a leading axis.
        structure: Its static settings.
        n_prompts: Training prompts, which make an epoch.
        logging_steps: Steps averaged into a row.
        means: Columns that a row averages, "loss" among them; those of `means_of` if None.

    Returns:
        A JSON-ready dictionary.

    Raises:
        SettingError: ``logging_steps`` is not a positive integer, or the columns are of a batch.
    """
    if logging_steps < 1 or logging_steps != int(logging_steps):
        raise SettingError(f"logging_steps: expected a whole number of at least 1, found {logging_steps!r}")
    if np.ndim(trajectory.loss) != 1:
        raise SettingError(f"trainer_state: expected one run, found shape {np.shape(trajectory.loss)}; take one")
    means = means_of(trajectory) if means is None else means
    n_steps = structure.n_steps
    per_epoch = max(n_prompts / structure.prompts_per_step, 1e-9)

    def epoch(step: int) -> float:
        return _short(step / per_epoch)

    evaluations = dict(zip(np.asarray(trajectory.eval_step).tolist(), trajectory.eval_reward.tolist(), strict=True))
    history: list[dict[str, Any]] = []
    for step in range(1, n_steps + 1):
        if step % logging_steps == 0:
            window = slice(step - logging_steps, step)
            row = {key: _short(np.mean(values[window])) for key, values in means.items()}
            row |= {key: _short(getattr(trajectory, key)[step - 1]) for key in _LAST}
            history.append(row | {"epoch": epoch(step), "step": step})
        if step in evaluations:
            reward = evaluations[step]
            row = {
                "eval_loss": 0.0,
                "eval_reward": _short(reward),
                "eval_reward_std": _short(np.sqrt(reward * (1.0 - reward))),
                "eval_runtime": _SIMULATED_SECONDS_PER_STEP,
            }
            history.append(row | {"epoch": epoch(step), "step": step})
    runtime = n_steps * _SIMULATED_SECONDS_PER_STEP
    completions = n_steps * structure.prompts_per_step * structure.group_size
    history.append(
        {
            "train_runtime": runtime,
            "train_samples_per_second": _short(completions / runtime),
            "train_steps_per_second": _short(n_steps / runtime),
            "total_flos": 0.0,
            "train_loss": _short(np.mean(means["loss"])),
            "epoch": epoch(n_steps),
            "step": n_steps,
        }
    )
    return {
        "best_global_step": None,
        "best_metric": None,
        "best_model_checkpoint": None,
        "epoch": epoch(n_steps),
        "eval_steps": structure.eval_every or n_steps,
        "global_step": n_steps,
        "is_hyper_param_search": False,
        "is_local_process_zero": True,
        "is_world_process_zero": True,
        "log_history": history,
        "logging_steps": int(logging_steps),
        "max_steps": n_steps,
        "num_input_tokens_seen": 0,
        "num_train_epochs": int(np.ceil(n_steps / per_epoch)),
        "save_steps": n_steps,
        "stateful_callbacks": {},
        "total_flos": 0.0,
        "train_batch_size": structure.prompts_per_step * structure.group_size,
        "trial_name": None,
        "trial_params": None,
    }


def write_json(path: str | os.PathLike[str], content: Any) -> Path:
    """Writes JSON so that the file is either whole or untouched: a temporary file in its folder, then a rename."""
    target = Path(path)
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    with atomic_write(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target


class _Writable(Protocol):
    """A run with its settings, its log by the steps of a row and these steps, and its truth: small or deep policy."""

    @property
    def settings(self) -> dict[str, Any]: ...

    def log(self, logging_steps: int | None = None) -> tuple[dict[str, Any], int]: ...

    def record(self) -> dict[str, Any]: ...


def write_runs(
    runs: Sequence[_Writable], out_dir: str | os.PathLike[str], logging_steps: int | None = None
) -> list[Path]:
    """Writes runs into a new directory, all of them or none.

    Everything is built in a temporary directory next to the target and then renamed, so that an interruption
    leaves nothing half done, and an existing directory with content is never touched.

    Args:
        runs: What to write, at least one run.
        out_dir: A directory that does not exist or is empty.
        logging_steps: Optimizer steps averaged into one logged row; each run's own if None.

    Returns:
        The directory of each run, in order.

    Raises:
        SettingError: No runs.
        OutputError: The target holds something, is not a directory, or cannot be written.
    """
    if not runs:
        raise SettingError("write_runs: expected at least one run, found none")
    target = Path(out_dir)
    names = [f"run-{number:03d}" for number in range(len(runs))]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp"))
        with undo_on_exit(lambda: shutil.rmtree(building, ignore_errors=True)):
            try:
                for name, run in zip(names, runs, strict=True):
                    _write_run(building / name, run, logging_steps)
                # mkdtemp makes the directory private; the result is as readable as any other new directory.
                building.chmod(0o755)
                os.replace(building, target)  # which fails where there is anything but an empty directory
            finally:
                shutil.rmtree(building, ignore_errors=True)
    except OSError as error:
        raise OutputError(
            f"{target}: expected a new or empty directory, found that it cannot be written ({error.strerror}); nothing "
            "written, name another"
        ) from error
    return [target / name for name in names]


def _write_run(directory: Path, run: _Writable, logging_steps: int | None) -> None:
    directory.mkdir()
    log, window = run.log(logging_steps)
    # A run that exploded has numbers that JSON has not: null, which readers of logs take for not logged.
    write_json(directory / "trainer_state.json", json_safe(log))
    settings = run.settings | {"logging_window": window}
    (directory / "bayes_grpo.toml").write_text(_toml_table("settings", settings), encoding="utf-8")
    write_json(directory / "truth.json", json_safe(run.record()))


def _toml_table(name: str, values: dict[str, Any]) -> str:
    """A flat TOML table of numbers and plain strings."""
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in values.items()]
    return "\n".join([f"[{name}]", *lines, ""])


def _short(value: Any) -> float:
    """A float of at most seven significant digits, as float32 carries."""
    return float(f"{float(value):.7g}")
