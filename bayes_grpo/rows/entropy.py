"""Policy entropy at the rows of a log, read off the rows around each."""

from __future__ import annotations

import numpy as np

from bayes_grpo.logs.run import Run


def entropy_at(run: Run, step: np.ndarray) -> np.ndarray | None:
    """Policy entropy at ``step``, from the logged values around it; None where fewer than two were logged.

    A row's reward and its logged entropy come from the same completions: easy prompts raise one and lower the other.
    That shared noise is no law. So a row's own value is left out: a local line through its neighbours stands for it.
    """
    logged = run.signals.get("entropy")
    known = np.zeros(0, bool) if logged is None else np.isfinite(logged)
    if logged is None or known.sum() < 2:
        return None
    x, y = run.step[known], logged[known]
    reach = min(max(3, len(x) // 40), 50)
    if len(x) < 2 * reach + 1:
        return np.interp(step, x, y)
    at = np.clip(np.searchsorted(x, step), reach, len(x) - reach - 1)
    near = at[:, None] + np.arange(-reach, reach + 1)
    away = x[near] - step[:, None]
    scale = np.abs(away).max(axis=1, keepdims=True) * (1.0 + 1e-9)
    weight = np.where(away == 0.0, 0.0, (1.0 - (np.abs(away) / scale) ** 3) ** 3)
    weight = weight / weight.sum(axis=1, keepdims=True)
    middle, level = np.sum(weight * away, axis=1), np.sum(weight * y[near], axis=1)
    spread = np.sum(weight * (away - middle[:, None]) ** 2, axis=1)
    slope = np.sum(weight * (away - middle[:, None]) * y[near], axis=1) / np.maximum(spread, 1e-300)
    lowest, highest = y[near].min(axis=1), y[near].max(axis=1)
    return np.clip(level - slope * middle, lowest, highest)  # at an end of the log the line must not run away
