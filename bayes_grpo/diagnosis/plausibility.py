"""What a log shows that is no failure: signals that cannot be what their name says, and how old completions are.

A measured signal that is constant is a note, a KL below 0 has its sentence, and a share that is not of groups is left
out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.records import Finding
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.signals import SIGNALS, UNDEFINED
from bayes_grpo.signals.logged import Logged
from bayes_grpo.signals.thresholds import THRESHOLDS

_REPEATED_ROWS = 10
"""Rows that are equal before a signal is called implausible."""
_SURE_GROUPS = 0.05
"""Of the groups surely without variance, above which a logged share of 0 is of the whole batch."""
_KL_ROWS, _NEGATIVE_KL, _ERRORS = 3, -0.1, 2.0
"""Rows from which a KL is averaged, the mean below which it is named as negative, and standard errors below 0."""
_MEASURED = ("reward_std", "entropy", "grad_norm", "completion_length", "kl")
"""Signals that are means over completions, or norms, and never the same twice."""
_CUMULATIVE = SIGNALS["dropped"].definitions["sofar"].word


def negative_kl(run: Run) -> Finding | None:
    """A KL to the reference that is negative by more than the noise of its rows; None without one.

    A KL is at least 0, and so is the estimate k3. The estimate k1, a mean of log-ratios, has the KL as its mean only
    over tokens that the policy itself sampled.
    """
    known = _finite(run.values("kl"))
    if len(known) < _KL_ROWS:
        return None
    mean = float(known.mean())
    error = float(known.std(ddof=1)) / np.sqrt(len(known))
    if mean >= _NEGATIVE_KL or mean + _ERRORS * error >= 0.0:
        return None
    return Finding.of("negative_kl", "kl", mean=mean, rows=float(len(known)))


def unpaid_parts(run: Run) -> Finding | None:
    """Parts of the reward that gave nothing in any row while others did, penalties left out; None without any."""
    known = {name: _finite(values) for name, values in run.components.items() if "penalt" not in name}
    unpaid = tuple(plain(name, 40) for name, x in known.items() if len(x) >= THRESHOLDS.direct_rows and not x.any())
    if not unpaid or len(unpaid) == len(known):
        return None
    return Finding.of("unpaid_parts", *unpaid)


def freshness(run: Run) -> Finding | None:
    """Mean and largest staleness in updates, and what is dropped a step; None where both are 0 or not logged."""
    numbers: dict[str, float] = {}
    stale = _finite(run.values("staleness"))
    if np.any(stale > 0.0):
        numbers |= {"stale": float(stale.mean()), "stale_most": float(stale.max())}
    word = run.definitions.get("dropped", UNDEFINED)
    logged = Logged.of(run.step, run.values("dropped"))
    dropped = logged.value
    if word == _CUMULATIVE and logged.rows > 1:
        word = "completions a step"
        dropped = np.diff(logged.value) / np.diff(logged.step)
    if len(dropped) and dropped.mean() > 0.0:
        numbers["dropped"] = float(dropped.mean())
    return Finding.of("freshness", word.removesuffix(" a step"), **numbers) if numbers else None


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def implausible(run: Run) -> tuple[str, ...]:
    """Measured signals that have one value, other than 0, in every row, a sentence each."""
    out = []
    for name in _MEASURED:
        values = _finite(run.values(name))
        if len(values) < _REPEATED_ROWS or np.ptp(values) > 0.0 or values[0] == 0.0:
            continue
        why = "every completion hits the length limit, or padding is counted"
        why = why if name == "completion_length" else "a measured signal varies, so check its logger"
        out.append(f"{name} is {values[0]:g} in all {len(values)} rows: {why}")
    return tuple(out)


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
    known = _finite(run.values("frac_reward_zero_std"))
    if not len(known) or np.any((known > 1e-6) & (known < 1.0 - 1e-6)):
        return ""
    if run.settings.group_filter.value == "after" and not np.any(known):
        return "the groups that a filter left, not all that were drawn"
    scaling = run.settings.advantage_scaling.value
    size = run.settings.group_size.value
    p = _finite(run.reward)
    batch = scaling in ("batch", "gdpo")
    if scaling is None and not np.any(known) and size and len(p) and p.min() >= 0.0 and p.max() <= 1.0:
        batch = np.mean(p**size + (1.0 - p) ** size) > _SURE_GROUPS
    return "the whole batch, not its groups" if batch else ""
