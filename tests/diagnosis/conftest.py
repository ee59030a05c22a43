"""Logs with one known trouble each, made from formulas and seeds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bayes_grpo.logs.run import Provenance, Run, Setting, Settings

ROWS = 80


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Run]:
    """Builds a `Run` of `ROWS` rows from a reward, signals, a held-out curve and settings."""

    def make(
        reward: Any, evals: dict[float, float] | None = None, settings: dict[str, Any] | None = None, **signals: Any
    ) -> Run:
        reward = np.asarray(reward, float)
        step = np.arange(1.0, len(reward) + 1.0)
        return Run(
            name="made",
            source="made.json",
            format="made",
            log_hash="0" * 64,
            step=step,
            reward=reward,
            window=np.ones(len(step)),
            signals={k: np.broadcast_to(np.asarray(v, float), step.shape) for k, v in signals.items()},
            eval_step=np.array(sorted(evals or {})),
            eval_reward=np.array([(evals or {})[s] for s in sorted(evals or {})]),
            settings=Settings(**{k: Setting(v, Provenance.USER) for k, v in (settings or {}).items()}),
        )

    return make


@pytest.fixture(scope="session")
def rising() -> np.ndarray:
    """A reward from 0.2 to 0.8 with noise of 0.03."""
    return 0.8 - 0.6 * np.exp(-np.arange(ROWS) / 25.0) + 0.03 * np.random.default_rng(0).standard_normal(ROWS)


@pytest.fixture(scope="session")
def hacked(make_run, rising) -> Run:
    """The train reward rises, the held-out reward rises for 20 steps and then falls."""
    steps = np.arange(4.0, ROWS + 1, 4)
    noise = 0.02 * np.random.default_rng(1).standard_normal(len(steps))
    held = np.where(steps < 20, 0.2 + 0.01 * steps, 0.4 - 0.005 * (steps - 20)) + noise
    return make_run(rising, dict(zip(steps.tolist(), held.tolist(), strict=True)))


@pytest.fixture(scope="session")
def honest(make_run, rising) -> Run:
    """The held-out reward follows the train reward."""
    steps = np.arange(4.0, ROWS + 1, 4)
    held = 0.75 - 0.55 * np.exp(-steps / 25.0) + 0.02 * np.random.default_rng(2).standard_normal(len(steps))
    return make_run(rising, dict(zip(steps.tolist(), held.tolist(), strict=True)))
