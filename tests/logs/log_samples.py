"""Rows the way trainers write them, and what was read of a log compared with what is in it."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bayes_grpo.logs import Run


def assert_read(
    run: Run,
    *notes: str,
    without: Iterable[str] = (),
    step: Any = None,
    reward: Any = None,
    evals: Mapping[Any, Any] | None = None,
    signals: Mapping[str, Any] = {},
    settings: Mapping[str, Any] = {},
    keys: Mapping[str, str] = {},
    **fields: Any,
) -> None:
    """Compares a run with steps, rewards, step → evaluation reward, signals, settings, keys and other fields.

    A setting is its value, or its value and provenance; ``notes`` stand in one of its notes each, ``without`` in none.
    """
    if step is not None:
        np.testing.assert_array_equal(run.step, step)
    if reward is not None:
        np.testing.assert_allclose(run.reward, reward)
    if evals is not None:
        np.testing.assert_allclose((run.eval_step, run.eval_reward), (list(evals), list(evals.values())))
    for name, values in signals.items():
        np.testing.assert_allclose(run.signals[name], values, err_msg=name)
    for name, expected in settings.items():
        found = getattr(run.settings, name)
        both = (found.value, str(found.provenance))
        assert (both if isinstance(expected, tuple) else both[0]) == expected, name
    assert {name: run.keys[name] for name in keys} == keys
    assert {name: getattr(run, name) for name in fields} == fields
    for note in notes:
        assert any(note in x for x in run.notes), run.notes
    assert not [x for x in run.notes if any(word in x for word in without)]


def one_key(pattern: str) -> str:
    """A key that a pattern matches."""
    return pattern.replace("**", "a").replace("*", "a")


def trl_row(step: int, reward: float | None, **more: Any) -> dict[str, Any]:
    """A train row as TRL 1.x logs it."""
    return {
        "loss": 0.01 * step,
        "grad_norm": 0.5,
        "learning_rate": 1e-6 * (1 - step / 100),
        "num_tokens": 1000.0 * step,
        "completions/mean_length": 200.0 + step,
        "completions/clipped_ratio": 0.125,
        "rewards/accuracy/mean": reward,
        "rewards/accuracy/std": 0.5,
        "reward": reward,
        "reward_std": 0.25,
        "frac_reward_zero_std": 0.5,
        "entropy": 0.4,
        "clip_ratio/region_mean": 0.01,
        "epoch": step / 1000,
        "step": step,
    } | more


def trl_state(rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A trainer_state.json around such rows."""
    return {
        "best_metric": None,
        "epoch": 0.1,
        "global_step": max((r["step"] for r in rows), default=0),
        "is_world_process_zero": True,
        "log_history": rows,
        "logging_steps": 10,
        "max_steps": 100,
    } | more
