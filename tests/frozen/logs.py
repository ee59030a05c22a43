"""Small logs of all kinds, made by code and written as TRL writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.logs.run import Run
from tests.helpers.cases import CASES
from tests.helpers.runs import make_run, rising_run, steps

KEYS = {
    "completion_length": "completions/mean_length",
    "completions_clipped_ratio": "completions/clipped_ratio",
}
"""Canonical signal → the key that TRL logs it under, where it is another."""


def short() -> Run:
    """Six rows: too few to tell anything."""
    return rising_run(6, seed=1)


def hacked() -> Run:
    """The train reward goes on rising while evaluation reward falls and completions grow."""
    rng, s = np.random.default_rng(5), steps(60)
    reward = 0.9 - 0.7 * np.exp(-s / 20.0) + 0.02 * rng.standard_normal(60)
    held_out = {float(t): 0.45 + 0.15 * t / 20 if t <= 20 else 0.6 - 0.4 * (t - 20) / 40 for t in range(5, 61, 5)}
    signals = {"completion_length": 200.0 + 8.0 * s, "kl": 0.002 * s**1.5, "grad_norm": 0.5 + 0.1 * rng.random(60)}
    return make_run(s, reward, signals=signals, evals=held_out)


def masked() -> Run:
    """A third of the rows is NaN, and most groups carry no gradient."""
    rng, s = np.random.default_rng(6), steps(60)
    reward = np.clip(0.1 + 0.004 * s + 0.02 * rng.standard_normal(60), 0.0, 1.0)
    reward[rng.random(60) < 0.33] = np.nan
    return make_run(s, reward, signals={"frac_reward_zero_std": 0.8, "reward_std": 0.05})


def rising() -> Run:
    """A plain rise with entropy, gradient norm and evaluations."""
    s = steps(60)
    signals = {"entropy": 1.2 * np.exp(-s / 60.0), "grad_norm": 0.4 + 0.05 * np.sin(s), "kl": 0.001 * s}
    evals = {float(t): 0.75 - 0.5 * float(np.exp(-t / 15.0)) for t in range(10, 61, 10)}
    return make_run(s, rising_run(60, seed=2).reward, signals=signals, evals=evals)


def flat() -> Run:
    """A reward that does not rise."""
    return make_run(steps(60), 0.3 + 0.03 * np.random.default_rng(8).standard_normal(60))


def swinging() -> Run:
    """A reward that overshoots and swings about its plateau."""
    s = steps(80)
    curve = 0.7 - 0.5 * np.exp(-s / 40.0) * np.cos(s / 5.0)
    return make_run(s, curve + 0.01 * np.random.default_rng(9).standard_normal(80))


LOGS: Mapping[str, Callable[[], Run]] = {
    **CASES,
    **{make.__name__: make for make in (short, hacked, masked, rising, flat, swinging)},
}
"""Name → builder."""


def write(name: str, folder: Path) -> Path:
    """Writes a log as a ``trainer_state.json`` of its own folder and returns its path."""
    run = LOGS[name]()
    rows: list[dict[str, Any]] = []
    for i, step in enumerate(run.step):
        row = {"step": int(step), "reward": run.reward[i], "loss": 0.0}
        row |= {KEYS.get(key, key): values[i] for key, values in run.signals.items()}
        row |= {f"rewards/{key}/mean": values[i] for key, values in run.components.items()}
        rows.append({k: float(v) if k != "step" else v for k, v in row.items()})
        rows += [{"step": int(t), "eval_reward": float(v)} for t, v in zip(run.eval_step, run.eval_reward, strict=True)
                 if t == step]  # fmt: skip
    path = folder / name / "trainer_state.json"
    path.parent.mkdir(parents=True)
    state = {"global_step": len(run.step), "max_steps": len(run.step), "logging_steps": 1, "log_history": rows}
    path.write_text(json.dumps(state), encoding="utf-8")
    return path
