"""A simulated run in the shape of TRL's `trainer_state.json`, so that any reader of logs can read it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.files import written_whole
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import Trajectory

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
_LAST = {"grad_norm": "grad_norm", "learning_rate": "learning_rate"}
_SIMULATED_SECONDS_PER_STEP = 1.0


class LogColumns(NamedTuple):
    """What a run logs, under TRL's keys.

    Attributes:
        means: Averaged over the logging window, shape (T,) each; "loss" among them.
        last: Taken at the window's last step, shape (T,) each.
        eval_step: Optimizer steps of the evaluations, shape (E,).
        eval_reward: Held-out reward, a mean of zeros and ones, shape (E,).
    """

    means: Mapping[str, np.ndarray]
    last: Mapping[str, np.ndarray]
    eval_step: np.ndarray
    eval_reward: np.ndarray


def trainer_state(
    trajectory: Trajectory, structure: Structure, n_prompts: int, logging_steps: int = 1
) -> dict[str, Any]:
    """The content of a `trainer_state.json`; see `state_of`.

    Args:
        trajectory: One run (no leading axis).
        structure: Its static settings.
        n_prompts: Training prompts, which make an epoch.
        logging_steps: Steps averaged into a row.

    Returns:
        A JSON-ready dictionary.

    Raises:
        SettingError: ``logging_steps`` is not a positive integer, or the trajectory is a batch.
    """
    return state_of(columns_of(trajectory), structure, n_prompts, logging_steps)


def columns_of(trajectory: Any) -> LogColumns:
    """What every trainer logs of a run, small policy or deep network (no leading axis)."""

    def named(keys: Mapping[str, str]) -> dict[str, np.ndarray]:
        return {key: np.asarray(getattr(trajectory, name)) for name, key in keys.items()}

    return LogColumns(named(MEANS), named(_LAST), np.asarray(trajectory.eval_step), np.asarray(trajectory.eval_reward))


def settings_of(structure: Structure, numbers: Numbers, low: float = 0.0, high: float = 1.0) -> dict[str, Any]:
    """A trainer's settings by their canonical names, as a sidecar states them.

    Args:
        structure: Static settings.
        numbers: Numeric settings, scalars.
        low: Lowest reward.
        high: Highest reward.
    """
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


def state_of(columns: LogColumns, structure: Structure, n_prompts: int, logging_steps: int = 1) -> dict[str, Any]:
    """Columns as the content of a `trainer_state.json`.

    As in TRL, a row is the mean over its logging window, except for ``grad_norm`` and ``learning_rate``,
    which are the window's last; evaluations are rows of their own, and the last row sums up the training. Run
    times are nominal (one second a step), so that the same seed gives the same bytes.

    Args:
        columns: What is logged, one run.
        structure: Its static settings.
        n_prompts: Training prompts, which make an epoch.
        logging_steps: Steps averaged into a row.

    Returns:
        A JSON-ready dictionary.

    Raises:
        SettingError: ``logging_steps`` is not a positive integer, or the columns are of a batch.
    """
    if logging_steps < 1 or logging_steps != int(logging_steps):
        raise SettingError(f"logging_steps: expected a whole number of at least 1, found {logging_steps!r}")
    if np.ndim(columns.means["loss"]) != 1:
        raise SettingError(f"trainer_state: expected one run, found shape {np.shape(columns.means['loss'])}; take one")
    n_steps = structure.n_steps
    per_epoch = max(n_prompts / structure.prompts_per_step, 1e-9)

    def epoch(step: int) -> float:
        return _short(step / per_epoch)

    evaluations = dict(zip(columns.eval_step.tolist(), columns.eval_reward.tolist(), strict=True))
    history: list[dict[str, Any]] = []
    for step in range(1, n_steps + 1):
        if step % logging_steps == 0:
            window = slice(step - logging_steps, step)
            row = {key: _short(np.mean(values[window])) for key, values in columns.means.items()}
            row |= {key: _short(values[step - 1]) for key, values in columns.last.items()}
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
            "train_loss": _short(np.mean(columns.means["loss"])),
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
    """Writes JSON so that the file is either whole or untouched: a temporary file beside it, then a rename.

    Args:
        path: Where to write; an existing file is replaced.
        content: JSON-ready.

    Returns:
        The path written.
    """
    target = Path(path)
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    with written_whole(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target


def _short(value: Any) -> float:
    """A float of at most seven significant digits, as float32 carries."""
    return float(f"{float(value):.7g}")
