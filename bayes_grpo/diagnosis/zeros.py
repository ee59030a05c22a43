"""Loss and clip ratio that read as 0: why that is normal, where it is.

    loss = −mean(ρ A) + β KL,     ρ: ratio of the new to the sampling policy, A: advantage

With one update a rollout ρ is 1, and advantages that are centered in their group average to 0: the loss is 0 (or β KL)
while its gradient is not. No ratio leaves the clip range either.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.modes.lost_gradient import lost_rows
from bayes_grpo.diagnosis.rows import NOTHING, RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Provenance, Run

_NAMES = {"loss": "loss", "clip_ratio": "clip ratio"}
_ONE = {"loss": "centered advantages average to 0", "clip_ratio": "every ratio is 1"}
"""Why each is 0 with one update a rollout."""
_WHY = {"loss": "the ratios stay near 1", "clip_ratio": "no ratio leaves the clip range"}
"""The same with several."""


def zeros_text(rows: RunSoFar, run: Run) -> str:
    """Whether a loss or clip ratio that reads as 0 is normal; "" where neither reads as 0.

    Args:
        rows: All rows.
        run: The run, for its number of updates a rollout.
    """
    zero = [name for name in _NAMES if _reads_as_zero(rows, name)]
    lost = lost_rows(rows)
    if not zero or (lost.rows and lost.value[-THRESHOLDS.trend_rows :].mean() > THRESHOLDS.half):
        return ""
    shown = " and ".join("the {} is 0 in {} of {} rows".format(_NAMES[name], *_count(rows, name)) for name in zero)
    if rows.idle is not None and rows.idle.rows and rows.idle.value.mean() > THRESHOLDS.half:
        return f"{shown}: most rows have no group with reward variance, so their gradient is 0 too"
    updates = run.settings.refresh_interval
    if float(updates.value or 1.0) > 1.0 and updates.provenance is not Provenance.ASSUMED:
        return f"{shown}. With {updates.value:g} updates a rollout that means small updates: {_WHY[zero[0]]}"
    why = f"{shown}. That is normal with one update a rollout: {' and '.join(_ONE[name] for name in zero)}"
    norm = rows.signals.get("grad_norm", NOTHING)
    if norm.rows < THRESHOLDS.least_rows:
        return f"{why}. Log the gradient norm: it should be above 0"
    if not np.any(norm.value > 0.0):
        return f"{shown}, and so is the gradient norm in every row: nothing is learned"
    return f"{why}. The gradient norm is not 0 (median {np.median(norm.value):.2g})"


def _count(rows: RunSoFar, name: str) -> tuple[int, int]:
    """Rows in which a signal reads as 0, and all rows that have it."""
    signal = rows.signals.get(name, NOTHING)
    return int(np.sum(np.abs(signal.value) <= THRESHOLDS.reads_as_zero)), signal.rows


def _reads_as_zero(rows: RunSoFar, name: str) -> bool:
    many, of = _count(rows, name)
    return of >= THRESHOLDS.direct_rows and many >= THRESHOLDS.mostly_zero * of
