"""Logs on which one page used to say things that exclude each other, and one whose reward is lost."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayes_grpo.logs.run import Run
from tests.helpers.runs import make_run, rising_run, steps

UNIT: dict[str, Any] = {"reward_low": 0.0, "reward_high": 1.0}


def dipped_then_collapsed() -> Run:
    """Dips at 8 to 10, recovers, falls from .9 to 0 at 26 to 30; the learning rate ends at 40.7."""
    rng, s = np.random.default_rng(0), steps(40)
    reward = 0.2 + 0.7 * (1.0 - np.exp(-s / 6.0))
    reward[7:10] -= [0.15, 0.25, 0.12]
    reward[25:30] = np.linspace(0.75, 0.05, 5)
    reward[30:] = 0.0
    reward = np.clip(np.where(reward > 0.0, reward + 0.02 * rng.standard_normal(40), 0.0), 0.0, 1.0)
    signals = {
        "learning_rate": 5e-5 * np.clip(1.0 - s / 40.7, 0.0, 1.0),
        "grad_norm": 1.0 + 0.2 * rng.random(40),
        "kl": np.linspace(0.0, 0.3, 40),
    }
    return make_run(s, reward, signals=signals, schedule="logged", name="dipped_then_collapsed", **UNIT)


def ran_into_the_cap() -> Run:
    """The reward goes to 0 while completions go to their cap."""
    rng, s = np.random.default_rng(1), steps(60)
    over = 1.0 / (1.0 + np.exp(-(s - 35.0) / 3.0))
    reward = np.clip((0.3 + 0.3 * np.minimum(s / 30.0, 1.0)) * (1.0 - over) + 0.02 * rng.standard_normal(60), 0.0, 1.0)
    reward[45:] = 0.0
    signals = {
        "completion_length": 300.0 + 724.0 * over,
        "completions_clipped_ratio": over,
        "frac_reward_zero_std": np.where(reward > 0.0, 0.3, 1.0),
        "reward_std": np.where(reward > 0.0, 0.3, 0.0),
    }
    return make_run(s, reward, signals=signals, group_size=8, name="ran_into_the_cap", **UNIT)


def truncated_throughout() -> Run:
    """Every completion is cut off in all 300 rows, and only the format reward rises."""
    rng, s = np.random.default_rng(2), steps(300)
    form = np.clip(0.9 * (1.0 - np.exp(-s / 60.0)) + 0.02 * rng.standard_normal(300), 0.0, 1.0)
    task = np.clip(0.05 + 0.02 * rng.standard_normal(300), 0.0, 1.0)
    return make_run(
        s,
        form + task,
        signals={"completions_clipped_ratio": np.ones(300), "completion_length": np.full(300, 512.0)},
        components={"format_reward": form, "correctness_reward": task},
        name="truncated_throughout",
        reward_low=0.0,
        reward_high=2.0,
    )


def at_rest() -> Run:
    """A plateau at .834 after a rise, far below the top."""
    rng, s = np.random.default_rng(3), steps(60)
    reward = 0.834 - 0.5 * np.exp(-s / 5.0) + 0.02 * rng.standard_normal(60)
    return make_run(s, reward, name="at_rest", **UNIT)


def explored() -> Run:
    """A rise during which the entropy grows thirtyfold."""
    rng, s = np.random.default_rng(4), steps(60)
    reward = 0.8 - 0.6 * np.exp(-s / 15.0) + 0.04 * rng.standard_normal(60)
    return make_run(s, reward, signals={"entropy": 0.05 * np.geomspace(1.0, 29.0, 60)}, name="explored", **UNIT)


def rate_ended() -> Run:
    """A learning rate that ended before the log did."""
    s = steps(60)
    rate = 1e-5 * np.clip(1.0 - s / 50.0, 0.0, 1.0)
    run = rising_run(60, schedule="logged", **UNIT)
    return make_run(s, run.reward, signals={"learning_rate": rate}, name="rate_ended", schedule="logged", **UNIT)


def collapsing(n: int = 80) -> Run:
    """The first rows of a reward that rises and is lost from row 50 on."""
    noise = 0.02 * np.random.default_rng(3).standard_normal(n)
    reward = 0.8 - 0.6 * np.exp(-steps(n) / 15.0) - 0.7 * np.clip((steps(n) - 50.0) / 8.0, 0.0, 1.0)
    return make_run(steps(n), reward + noise, name="collapsing", **UNIT)


CASES: Mapping[str, Callable[[], Run]] = {
    make.__name__: make
    for make in (dipped_then_collapsed, ran_into_the_cap, truncated_throughout, at_rest, explored, rate_ended)
}
"""Name → builder."""
