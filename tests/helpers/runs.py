"""Runs made from numbers: the one builder of every test."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.schedule import RemainingRate, schedule_of

FEW = SamplerSettings(num_chains=2, num_warmup=50, num_samples=100)
"""Where few draws do: of one size, so that the compiled programs are shared."""


def make_run(
    step: Any,
    reward: Any,
    *,
    window: Any = 1.0,
    signals: Mapping[str, Any] | None = None,
    evals: Mapping[float, float] | None = None,
    components: Mapping[str, Any] | None = None,
    name: str = "made",
    written: Collection[str] = (),
    **settings: Any,
) -> Run:
    """A run whose settings were stated by the user.

    Args:
        step: Steps of the rows, shape (n,).
        reward: Train reward, shape (n,).
        window: Steps averaged into a row, a number or shape (n,).
        signals: Canonical name → values, numbers or shape (n,).
        evals: Step → evaluation reward.
        components: Reward function → its mean, shape (n,).
        name: Name of the run.
        written: Signals that the trainer wrote in every row, so that their NaN is NaN and not missing.
        **settings: Settings by name.
    """
    step = np.asarray(step, float)
    evals = evals or {}
    return Run(
        name=name,
        source=f"{name}.json",
        format="made",
        log_hash="0" * 64,
        step=step,
        reward=np.asarray(reward, float),
        window=np.array(np.broadcast_to(np.asarray(window, float), step.shape)),
        signals={k: np.array(np.broadcast_to(np.asarray(v, float), step.shape)) for k, v in (signals or {}).items()},
        eval_step=np.array(sorted(evals), float),
        eval_reward=np.array([evals[s] for s in sorted(evals)], float),
        components={k: np.asarray(v, float) for k, v in (components or {}).items()},
        logged={name: np.ones(len(step), bool) for name in written},
        settings=Settings(**{k: Setting(v, Provenance.USER) for k, v in settings.items()}),
    )


def steps(n: int) -> np.ndarray:
    """Steps 1 to n."""
    return np.arange(1.0, n + 1.0)


def rising_run(n: int = 40, seed: int = 0, **settings: Any) -> Run:
    """A reward that relaxes from 0.2 to 0.8 within 15 steps, with noise of 0.05."""
    noise = np.random.default_rng(seed).standard_normal(n)
    return make_run(steps(n), 0.8 - 0.6 * np.exp(-steps(n) / 15.0) + 0.05 * noise, **settings)


def evaluated(at: Sequence[float] | np.ndarray, values: Any) -> dict[float, float]:
    """Evaluation rewards as `make_run` takes them."""
    return dict(zip(np.asarray(at, float).tolist(), np.asarray(values, float).tolist(), strict=True))


def remaining(
    step: np.ndarray,
    rate: np.ndarray,
    logged: str | None,
    total_steps: float | None = None,
    schedule: str | None = None,
    given: bool = True,
) -> RemainingRate:
    """Learning rate after rows with these rates, by the settings of their run."""
    table = replace(rows_of(rising_run()), step=step, rate=rate)
    settings = {
        "schedule": Setting(logged, Provenance.USER if given else Provenance.ASSUMED),
        "total_steps": Setting(total_steps, Provenance.USER),
    }
    return schedule_of(table, settings, schedule)
