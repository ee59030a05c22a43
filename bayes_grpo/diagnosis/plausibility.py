"""Whether a log can be what it says: columns that are constant to the last digit, that repeat, or rows too smooth.

Several public logs turned out to be made up, or written by a logger that was broken. A diagnosis lists what is
found, and it changes no probability: a reader has to look.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Run

_MEASURED = ("reward_std", "entropy", "grad_norm", "completion_length", "kl")
"""Signals that are means over completions, or norms, and never the same twice."""


def implausible(run: Run) -> tuple[str, ...]:
    """What cannot be in a log that was measured, a sentence each."""
    return (*_constant(run), *_copies(run), *_cycles(run), *_too_smooth(run))


def _kept(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _constant(run: Run) -> list[str]:
    """Measured signals that have one value, other than 0, in every row."""
    out = []
    for name in _MEASURED:
        values = _kept(run.signals.get(name, np.empty(0)))
        if len(values) < THRESHOLDS.repeated_rows or np.ptp(values) > 0.0 or values[0] == 0.0:
            continue
        why = "every completion runs into the limit, or padding is counted"
        why = why if name == "completion_length" else "what is measured varies, so look at its logger"
        out.append(f"{name} is {values[0]:g} in all {len(values)} rows: {why}")
    return out


def _copies(run: Run) -> list[str]:
    """Pairs of columns that are equal in every row though both vary."""
    columns = {"reward": run.reward, **{k: v for k, v in run.signals.items() if k in _MEASURED or k == "accuracy"}}
    out = []
    for (one, x), (other, y) in combinations(columns.items(), 2):
        both = np.isfinite(x) & np.isfinite(y)
        if {one, other} == {"reward", "accuracy"} or len(np.unique(x[both])) < THRESHOLDS.repeated_rows:
            continue
        if np.array_equal(x[both], y[both]):
            out.append(
                f"{plain(one)} and {plain(other)} are equal in all {int(both.sum())} rows: one of them is a copy"
            )
    return out


def _cycles(run: Run) -> list[str]:
    """A reward whose rows come again in the same order, to the last digit."""
    y = _kept(run.reward)
    n = len(y)
    for period in range(THRESHOLDS.repeated_rows, n // 2 + 1):
        again = y[period:] == y[: n - period]
        if len(np.unique(y[:period])) >= THRESHOLDS.repeated_rows and again.all():
            return [f"the reward repeats every {period} rows to the last digit: these are not {n} measured rows"]
    return []


def _too_smooth(run: Run) -> list[str]:
    """Rows that scatter less than the spread within their own groups allows.

    A row is a mean over B prompts of G completions, so that its standard deviation is the groups' spread over
    sqrt(BG) at least; what the prompts add comes on top.
    """
    size, prompts = (s.value for s in (run.settings.group_size, run.settings.prompts_per_step))
    spread = run.signals.get("reward_std")
    if spread is None or not size or not prompts:
        return []
    both = np.isfinite(run.reward) & np.isfinite(spread)
    if both.sum() < THRESHOLDS.smooth_rows:
        return []
    y, rows = run.reward[both], np.maximum(run.window[both], 1.0)
    # Second differences leave a straight line out; for white noise their variance is six times that of a row.
    scatter = float(np.sqrt(np.mean(np.diff(y, 2) ** 2) / 6.0))
    least = float(np.sqrt(np.mean(spread[both] ** 2 / (float(size) * float(prompts) * rows))))
    if scatter >= THRESHOLDS.smooth_share * least or least == 0.0:
        return []
    within = float(np.mean(spread[both]))
    return [
        f"rows scatter by {scatter:.2g} (sd), and the spread within their own groups, {within:.2g}, implies at least "
        f"{least:.2g} for {prompts:g} prompts of {size:g}: they were smoothed, or these sizes are wrong"
    ]
