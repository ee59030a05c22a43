"""A run of the deep laboratory in the shape of TRL's `trainer_state.json`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayes_grpo.simulate.trainer_log import means_of, settings_of, trainer_state
from benchmarks.lab.settings import REWARDS, Lab, LabNumbers, written_at
from benchmarks.lab.training import DeepTrajectory


def deep_means(trajectory: DeepTrajectory, lab: Lab, numbers: LabNumbers) -> dict[str, np.ndarray]:
    """Columns that TRL's rows average: components with a weight alone, and the KL divergence only where it has one."""
    means = means_of(trajectory)
    means["completions/mean_length"] = np.asarray(trajectory.mean_length)
    scores = np.asarray(trajectory.components)
    # A broken reward is broken in all its components; what the completions deserved stays in the truth.
    written = written_at(lab.structure.refresh, int(numbers.base.refresh_interval), np.arange(scores.shape[-2]))
    works = written < float(numbers.broken_from)
    for i, name in enumerate(REWARDS):
        if float(getattr(numbers, name)) != 0.0:
            means[f"rewards/{name}/mean"] = np.where(works, scores[..., i], 0.0)
    means["completions/clipped_ratio"] = 1.0 - scores[..., REWARDS.index("ended")]
    if float(numbers.base.kl_weight) == 0.0:
        del means["kl"]
    return means


def deep_state(
    trajectory: DeepTrajectory, lab: Lab, numbers: LabNumbers, n_prompts: int, logging_steps: int = 1
) -> dict[str, Any]:
    """The content of a `trainer_state.json`; see `bayes_grpo.simulate.trainer_log.trainer_state`."""
    return trainer_state(trajectory, lab.structure, n_prompts, logging_steps, deep_means(trajectory, lab, numbers))


def sidecar(lab: Lab, numbers: LabNumbers) -> dict[str, Any]:
    """The trainer's settings by their canonical names, as a `bayes_grpo.toml` states them."""
    weights = [float(getattr(numbers, name)) for name in REWARDS]
    low, high = sum(min(weight, 0.0) for weight in weights), sum(max(weight, 0.0) for weight in weights)
    found = settings_of(lab.structure, numbers.base, low, high)
    return found | {"momentum": round(found["momentum"], 6)}  # single precision would show
