"""Parts of a reward: what each is about, by its name, and the weights with which they add up to the total."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

_ADDS_UP = 0.02
"""Standard deviation that parts may leave of the total, over the total's, to count as adding up to it."""
_ROWS = 50_000
_LEAST = 1e-6
_TASK = re.compile(
    r"correct|accura|\bacc\b|answer|solution|exact|solve|math|equation|pass|test|success|score|outcome", re.I
)
_FORM = re.compile(
    r"format|xml|tag|think|length|len\b|soft|strict|int\b|digit|style|finish|repet|structure|brevity", re.I
)


def is_form(name: str) -> bool:
    """Whether a function by its name rewards format, length or finishing, and nothing of the task."""
    return bool(_FORM.search(name)) and not _TASK.search(name)


def is_task(name: str) -> bool:
    """Whether it rewards the task, and nothing of the form."""
    return bool(_TASK.search(name)) and not _FORM.search(name)


def adding_weights(total: np.ndarray, parts: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Weights, those that count, with which parts add up to a total but for a constant; empty where they do not.

    ``total`` and the parts have the shape (n,); a part that is not always known is left out.
    """
    some = np.linspace(0, len(total) - 1, min(len(total), _ROWS)).astype(int)
    y = total[some]
    known = np.isfinite(y)
    used = {name: values[some].astype(float) for name, values in parts.items()}
    used = {k: v for k, v in used.items() if np.isfinite(v[known]).mean() > 0.99}
    for values in used.values():
        known &= np.isfinite(values)
    used = {k: v for k, v in used.items() if known.any() and np.ptp(v[known]) > 0.0}
    if known.sum() < len(used) + 2 or not used:
        return {}
    x, y = np.column_stack([v[known] for v in used.values()]), y[known]
    if (weight := summing_weights(y, x)) is None:
        return {}
    counts = np.abs(weight) * x.std(axis=0) > _LEAST * float(y.std())
    return {name: float(w) for name, w, counted in zip(used, weight, counts, strict=True) if counted}


def summing_weights(total: np.ndarray, x: np.ndarray) -> np.ndarray | None:
    """Weights, shape (k,), of columns, shape (n, k), that add up to a total but for a constant; None if none do."""
    x, y = x - x.mean(axis=0), total - total.mean()
    scale = np.where(np.ptp(x, axis=0) > 0.0, x.std(axis=0), 1.0)
    weight = np.linalg.lstsq(x / scale, y, rcond=1e-8)[0] / scale
    return weight if float(np.std(y - x @ weight)) < _ADDS_UP * float(y.std()) else None
