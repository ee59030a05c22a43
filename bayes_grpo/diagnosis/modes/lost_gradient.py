"""Lost gradient: rows with a gradient norm of exactly 0 although their groups have nonzero reward variance.

    loss = −mean(ρ A) + β KL,     ρ: ratio of the new to the sampling policy, A: advantage

Groups with variance have nonzero advantages, so that their gradient cannot be zero: the update or its report is broken
(ms-swift issues 5571 and 5890, where a newer DeepSpeed was the remedy). A loss of 0 is another thing: with one update
a rollout ρ is 1, centered advantages average to 0, and no ratio leaves the clip range, while the gradient is not 0.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.records import Finding
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.rows.series import stretches
from bayes_grpo.signals.logged import Logged
from bayes_grpo.signals.path import fit_path
from bayes_grpo.signals.thresholds import THRESHOLDS

_READS_AS_ZERO = 1e-6
"""Loss or clip ratio up to which a row reads as 0."""
_MOSTLY = 0.9
"""Share of rows that read as 0, from which the reason is given."""


def _holds(view: RunView) -> np.ndarray | None:
    lost = lost_rows(view)
    if lost.rows < THRESHOLDS.direct_rows:
        return None
    path = fit_path(lost.step, lost.value, seed=33, indicator=True)
    return None if path is None else view.on_grid(path) > THRESHOLDS.half


def _text(view: RunView, first: float, last: float) -> str:
    """Number of such rows in the last stretch, and whether the reward rises all the same."""
    lost = lost_rows(view)
    found = stretches(lost.value > 0.0)
    if not found:
        return ""
    inside = lost.between(min(first, float(lost.step[found[-1][0]])), last)
    why = "the reward rises all the same, so the norm is reported wrongly" if view.rose else "the update is lost"
    return f"{int(inside.sum())} of {len(inside)} rows with reward variance have a gradient norm of exactly 0: {why}"


def lost_rows(view: RunView) -> Logged:
    """Of the rows whose groups have variance: whether the gradient norm is 0 at a positive learning rate."""
    idle = view.idle_rows
    norm = view.logged("grad_norm")
    rate = view.logged("learning_rate")
    live = idle.step[idle.value <= THRESHOLDS.half]
    counted = np.isin(norm.step, live) & ~np.isin(norm.step, rate.step[rate.value == 0.0])
    return Logged(norm.step[counted], (norm.value[counted] == 0.0).astype(float))


def zeros_of(view: RunView) -> Finding | None:
    """A loss or clip ratio that reads as 0, by all rows, and what tells whether that is normal; None without one."""
    zero: list[str] = []
    numbers: dict[str, float] = {}
    for name in ("loss", "clip_ratio"):
        signal = view.logged(name)
        many = int(np.sum(np.abs(signal.value) <= _READS_AS_ZERO))
        if signal.rows and many >= _MOSTLY * signal.rows:
            zero.append(name)
            numbers |= {name: many, f"{name}_rows": signal.rows}
    lost = lost_rows(view)
    if not zero or (lost.rows and float(lost.late(THRESHOLDS.half).mean()) > THRESHOLDS.half):
        return None
    idle = view.idle_rows
    if idle.rows and (share := float((idle.value >= THRESHOLDS.dead_groups).mean())) > THRESHOLDS.half:
        numbers["idle"] = share
    updates = view.run.settings.refresh_interval
    if float(updates.explicit or 1.0) > 1.0:
        numbers["updates"] = float(updates.value)
    norm = view.logged("grad_norm")
    if norm.rows:
        numbers["grad_norm"] = float(np.median(norm.value))
    return Finding(kind="reads_zero", signals=tuple(zero), numbers=numbers)


MODE = Mode("lost_gradient", _holds, _text, ("update path",))
