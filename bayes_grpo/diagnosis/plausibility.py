"""Plausibility checks of a log: constant columns, copied columns, repeating rewards, and rows that are too smooth.

Several public logs turned out to be made up, or written by a broken logger. A diagnosis lists the findings as notes;
they change no probability.
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
    """Findings that a measured log cannot have, a sentence each."""
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
        why = "every completion hits the length limit, or padding is counted"
        why = why if name == "completion_length" else "a measured signal varies, so check its logger"
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
        f"the standard deviation of a row is {scatter:.2g}, but the one within groups, {within:.2g}, implies at least "
        f"{least:.2g} for {prompts:g} prompts of {size:g}: the rows were smoothed, or these sizes are wrong"
    ]
