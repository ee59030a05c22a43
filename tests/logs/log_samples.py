"""Rows the way trainers write them."""

from typing import Any


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
