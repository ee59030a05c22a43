"""How old completions are when the policy is trained on them, and how many are thrown away: facts and no failure."""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.records import Finding
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.signals import SIGNALS, UNDEFINED

_CUMULATIVE = SIGNALS["dropped"].definitions["sofar"].word


def freshness(run: Run) -> Finding | None:
    """Mean and largest staleness in updates, and what is dropped a step; None where both are 0 or not logged."""
    numbers: dict[str, float] = {}
    stale = run.values("staleness")
    if np.any(known := np.nan_to_num(stale) > 0.0):
        numbers |= {"stale": float(np.nanmean(stale)), "stale_most": float(stale[known].max())}
    word = run.definitions.get("dropped", UNDEFINED)
    dropped = run.values("dropped")
    dropped, step = dropped[np.isfinite(dropped)], run.step[np.isfinite(dropped)] if len(dropped) else dropped
    if word == _CUMULATIVE and len(dropped) > 1:
        dropped, word = np.diff(dropped) / np.diff(step), "completions a step"
    if len(dropped) and dropped.mean() > 0.0:
        numbers["dropped"] = float(dropped.mean())
    return Finding.of("freshness", word.removesuffix(" a step"), **numbers) if numbers else None
