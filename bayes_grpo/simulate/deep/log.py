"""A run of the deep laboratory in the shape of TRL's `trainer_state.json`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayes_grpo.simulate.deep.settings import REWARDS, Lab, LabNumbers
from bayes_grpo.simulate.deep.training import DeepTrajectory
from bayes_grpo.simulate.trainer_log import Columns, state_of

_MEANS = {
    # column of a DeepTrajectory: key in TRL's log
    "loss": "loss",
    "reward": "reward",
    "reward_std": "reward_std",
    "frac_reward_zero_std": "frac_reward_zero_std",
    "entropy": "entropy",
    "clip_ratio": "clip_ratio/region_mean",
    "mean_length": "completions/mean_length",
}
_LAST = {"grad_norm": "grad_norm", "learning_rate": "learning_rate"}


def deep_columns(trajectory: DeepTrajectory, numbers: LabNumbers) -> Columns:
    """What TRL logs of a run: components with a weight alone, and the KL divergence only where it has one.

    Args:
        trajectory: One run (no leading axis).
        numbers: Its numeric settings, scalars.

    Returns:
        The columns; the held-out reward is the gold reward.
    """
    means = {key: np.asarray(getattr(trajectory, name)) for name, key in _MEANS.items()}
    scores = np.asarray(trajectory.components)
    # A broken reward is broken in all its components; what the completions deserved stays in the truth.
    works = np.arange(scores.shape[-2]) < float(numbers.broken_from)
    for i, name in enumerate(REWARDS):
        if float(getattr(numbers, name)) != 0.0:
            means[f"rewards/{name}/mean"] = np.where(works, scores[..., i], 0.0)
    means["completions/clipped_ratio"] = 1.0 - scores[..., REWARDS.index("ended")]
    if float(numbers.base.kl_weight) != 0.0:
        means["kl"] = np.asarray(trajectory.kl)
    last = {key: np.asarray(getattr(trajectory, name)) for name, key in _LAST.items()}
    return Columns(means, last, np.asarray(trajectory.eval_step), np.asarray(trajectory.eval_reward))


def deep_state(
    trajectory: DeepTrajectory, lab: Lab, numbers: LabNumbers, n_prompts: int, logging_steps: int = 1
) -> dict[str, Any]:
    """The content of a `trainer_state.json`; see `bayes_grpo.simulate.trainer_log.state_of`.

    Args:
        trajectory: One run (no leading axis).
        lab: Its static settings.
        numbers: Its numeric settings, scalars.
        n_prompts: Training prompts, which make an epoch.
        logging_steps: Steps averaged into a row.

    Returns:
        A JSON-ready dictionary.

    Raises:
        SettingError: ``logging_steps`` is not a positive integer, or the trajectory is a batch.
    """
    return state_of(deep_columns(trajectory, numbers), lab.structure, n_prompts, logging_steps)


def sidecar(lab: Lab, numbers: LabNumbers) -> dict[str, Any]:
    """The trainer's settings by their canonical names, as a `bayes_grpo.toml` states them."""
    structure = lab.structure
    weights = [float(getattr(numbers, name)) for name in REWARDS]
    return {
        "group_size": structure.group_size,
        "prompts_per_step": structure.prompts_per_step,
        "momentum": round(float(numbers.base.momentum), 6),
        "momentum_convention": structure.momentum_convention,
        "refresh_interval": int(numbers.base.refresh_interval),
        "schedule": structure.schedule,
        "total_steps": structure.n_steps,
        "reward_low": sum(min(weight, 0.0) for weight in weights),
        "reward_high": sum(max(weight, 0.0) for weight in weights),
        "reward_std_kind": "total",
    }
