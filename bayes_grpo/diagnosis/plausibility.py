"""Plausibility checks of a log: constant columns, copied columns, repeating rewards, and rows that are too smooth.

Several public logs turned out to be made up, or written by a broken logger. A diagnosis lists the findings as notes;
they change no probability. A share that is not of groups is left out.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.records import Finding
from bayes_grpo.logs.run import Run

_REPEATED_ROWS = 10
"""Rows that are equal, or repeat, before a log is called implausible."""
_SMOOTH_ROWS = 20
"""Rows whose scatter is compared with the spread within their groups."""
_SMOOTH_SHARE = 0.4
"""Of the least scatter, below which rows are too smooth to be measured."""
_SURE_GROUPS = 0.05
"""Of the groups surely without variance, above which a logged share of 0 is of the whole batch."""
_KL_ROWS, _NEGATIVE_KL, _ERRORS = 3, -0.1, 2.0
"""Rows from which a KL is averaged, the mean below which it is named as negative, and standard errors below 0."""
_MEASURED = ("reward_std", "entropy", "grad_norm", "completion_length", "kl")
"""Signals that are means over completions, or norms, and never the same twice."""


def implausible(run: Run) -> tuple[str, ...]:
    """Findings that a measured log cannot have, a sentence each."""
    return (*_constant(run), *_copies(run), *_cycles(run), *_too_smooth(run))


def negative_kl(run: Run) -> Finding | None:
    """A KL to the reference that is negative by more than the noise of its rows; None without one.

    A KL is at least 0, and so is the estimate k3. The estimate k1, a mean of log-ratios, has the KL as its mean only
    over tokens that the policy itself sampled.
    """
    known = _kept(run.signals.get("kl", np.empty(0)))
    if len(known) < _KL_ROWS:
        return None
    mean = float(known.mean())
    error = float(known.std(ddof=1)) / np.sqrt(len(known))
    if mean >= _NEGATIVE_KL or mean + _ERRORS * error >= 0.0:
        return None
    return Finding(kind="negative_kl", signals=("kl",), numbers={"mean": mean, "rows": float(len(known))})


def _kept(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _constant(run: Run) -> list[str]:
    """Measured signals that have one value, other than 0, in every row."""
    out = []
    for name in _MEASURED:
        values = _kept(run.signals.get(name, np.empty(0)))
        if len(values) < _REPEATED_ROWS or np.ptp(values) > 0.0 or values[0] == 0.0:
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
        if {one, other} == {"reward", "accuracy"} or len(np.unique(x[both])) < _REPEATED_ROWS:
            continue
        if np.array_equal(x[both], y[both]):
            rows = f"are equal in all {int(both.sum())} rows"
            out.append(f"{plain(one)} and {plain(other)} {rows}: one of them is a copy")
    return out


def _cycles(run: Run) -> list[str]:
    """A reward whose rows come again in the same order, to the last digit."""
    y = _kept(run.reward)
    n, least = len(y), _REPEATED_ROWS
    for period in least + np.flatnonzero(y[least : n // 2 + 1] == y[:1]):
        if np.array_equal(y[period:], y[: n - period]) and len(np.unique(y[:period])) >= least:
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
    if both.sum() < _SMOOTH_ROWS:
        return []
    y = run.reward[both]
    rows = np.maximum(run.window[both], 1.0)
    # Second differences leave a straight line out; for white noise their variance is six times that of a row.
    scatter = float(np.sqrt(np.mean(np.diff(y, 2) ** 2) / 6.0))
    least = float(np.sqrt(np.mean(spread[both] ** 2 / (float(size) * float(prompts) * rows))))
    if scatter >= _SMOOTH_SHARE * least or least == 0.0:
        return []
    within = float(np.mean(spread[both]))
    return [
        f"rows scatter by {scatter:.2g}, but the scatter within groups, {within:.2g}, implies {least:.2g} for "
        f"{prompts:g} prompts of {size:g}: rows were smoothed, or these sizes are wrong"
    ]


def of_groups(run: Run) -> Run:
    """The run without a share of zero-variance groups that is not one."""
    if not (what := share_without_spread_of(run)):
        return run
    signals = {name: x for name, x in run.signals.items() if name != "frac_reward_zero_std"}
    return replace(run, signals=signals, notes=(*run.notes, f"in this log frac_reward_zero_std describes {what}"))


def share_without_spread_of(run: Run) -> str:
    """Denominator of the logged frac_reward_zero_std where it is not the groups drawn; else "".

    TRL computes it from the spread that advantages are divided by. Under batch scaling and GDPO that is the whole
    batch's, and the share is 0 or 1 whatever the groups do. After a filter of zero-variance groups none is left, and
    the share is 0. Where the log does not state the scaling, a value between 0 and 1 is of groups. 0 throughout is not,
    where binary rewards of the logged means in groups of the known size must leave some without spread (by Jensen at
    least p^G + (1 - p)^G of them).
    """
    known = _kept(run.signals.get("frac_reward_zero_std", np.empty(0)))
    if not len(known) or np.any((known > 1e-6) & (known < 1.0 - 1e-6)):
        return ""
    if run.settings.group_filter.value == "after" and not np.any(known):
        return "the groups that a filter left, not all that were drawn"
    scaling = run.settings.advantage_scaling.value
    size = run.settings.group_size.value
    p = _kept(run.reward)
    batch = scaling in ("batch", "gdpo")
    if scaling is None and not np.any(known) and size and len(p) and p.min() >= 0.0 and p.max() <= 1.0:
        batch = np.mean(p**size + (1.0 - p) ** size) > _SURE_GROUPS
    return "the whole batch, not its groups" if batch else ""
