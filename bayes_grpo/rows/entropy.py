"""Policy entropy at the rows of a log, read off the rows before each."""

from __future__ import annotations

import numpy as np

from bayes_grpo.logs.run import Run


def entropy_at(run: Run, step: np.ndarray) -> np.ndarray | None:
    """Policy entropy at ``step``, from the logged values before it; None where fewer than two were logged.

    A row's reward and its logged entropy come from the same completions: easy prompts raise one and lower the other.
    That shared noise is no law. So a row's own value is left out: a local line through the rows before it stands for
    it, and at the start of the log one through the rows after it. Rows on both sides would not do: their mean with a
    hole, beside a slow fluctuation that takes what the mean has in common with its neighbours, tells the value in the
    hole.
    """
    logged = run.signals.get("entropy")
    known = np.zeros(0, bool) if logged is None else np.isfinite(logged)
    if logged is None or known.sum() < 2:
        return None
    x, y = run.step[known], logged[known]
    reach = min(max(10, len(x) // 6), 200)
    if len(x) < 2 * reach:
        return np.interp(step, x, y)
    before = np.searchsorted(x, step)  # rows before each step
    late = before >= reach
    first = np.where(late, before - reach, np.minimum(np.searchsorted(x, step, side="right"), len(x) - reach))
    near = first[:, None] + np.arange(reach)
    away = x[near] - step[:, None]
    scale = np.abs(away).max(axis=1, keepdims=True) * (1.0 + 1e-9)
    weight = (1.0 - (np.abs(away) / scale) ** 3) ** 3
    weight = weight / weight.sum(axis=1, keepdims=True)
    middle, level = np.sum(weight * away, axis=1), np.sum(weight * y[near], axis=1)
    spread = np.sum(weight * (away - middle[:, None]) ** 2, axis=1)
    slope = np.sum(weight * (away - middle[:, None]) * y[near], axis=1) / np.maximum(spread, 1e-300)
    lowest, highest = y[near].min(axis=1), y[near].max(axis=1)
    return np.clip(level - slope * middle, lowest, highest)  # beyond its rows the line must not run away
