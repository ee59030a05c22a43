"""A run of the deep laboratory in the shape of TRL's `trainer_state.json`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayes_grpo.simulate.settings import RefreshModel
from bayes_grpo.simulate.trainer_log import LogColumns, columns_of, settings_of, state_of
from benchmarks.lab.settings import REWARDS, Lab, LabNumbers, written_at
from benchmarks.lab.training import DeepTrajectory


def deep_columns(trajectory: DeepTrajectory, numbers: LabNumbers, refresh: RefreshModel = "hold") -> LogColumns:
    """What TRL logs of a run: components with a weight alone, and the KL divergence only where it has one.

    Args:
        trajectory: One run (no leading axis).
        numbers: Its numeric settings, scalars.
        refresh: How its sampling policy is renewed.

    Returns:
        The columns; the held-out reward is the gold reward.
    """
    columns = columns_of(trajectory)
    means = dict(columns.means)
    means["completions/mean_length"] = np.asarray(trajectory.mean_length)
    scores = np.asarray(trajectory.components)
    # A broken reward is broken in all its components; what the completions deserved stays in the truth.
    written = written_at(refresh, int(numbers.base.refresh_interval), np.arange(scores.shape[-2]))
    works = written < float(numbers.broken_from)
    for i, name in enumerate(REWARDS):
        if float(getattr(numbers, name)) != 0.0:
            means[f"rewards/{name}/mean"] = np.where(works, scores[..., i], 0.0)
    means["completions/clipped_ratio"] = 1.0 - scores[..., REWARDS.index("ended")]
    if float(numbers.base.kl_weight) == 0.0:
        del means["kl"]
    return columns._replace(means=means)


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
    """
    return state_of(deep_columns(trajectory, numbers, lab.structure.refresh), lab.structure, n_prompts, logging_steps)


def sidecar(lab: Lab, numbers: LabNumbers) -> dict[str, Any]:
    """The trainer's settings by their canonical names, as a `bayes_grpo.toml` states them."""
    weights = [float(getattr(numbers, name)) for name in REWARDS]
    low, high = sum(min(weight, 0.0) for weight in weights), sum(max(weight, 0.0) for weight in weights)
    found = settings_of(lab.structure, numbers.base, low, high)
    return found | {"momentum": round(found["momentum"], 6)}  # single precision would show
