"""Calibration of the probabilities of failures: as shipped, and with their two shares learned anew.

The package states P = least + (most - least) · share of draws, with two numbers a mode. Learned anew without a log's
repository, they tell whether the shipped ones are those of the repositories that were at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

BINS = np.linspace(0.0, 1.0, 11)
DRAWS = 1000
_PRIOR = 1.0
"""Logs, half of them with the mode, that every learned share counts beside its own."""


class Case(NamedTuple):
    """A log and a mode.

    Attributes:
        repository: Whose log it is.
        share: Share of draws in which the mode holds; NaN where no logged signal could show it.
        probability: What the package states.
        hit: Whether the log is labeled with the mode.
    """

    repository: str
    share: float
    probability: float
    hit: bool


def calibration_error(probability: np.ndarray, hit: np.ndarray) -> float:
    """Expected calibration error in ten bins."""
    inside = [(probability >= a) & ((probability < b) | (b == 1.0)) for a, b in pairwise(BINS)]
    return float(sum(abs(hit[i].mean() - probability[i].mean()) * i.mean() for i in inside if i.any()))


def relearned(cases: Sequence[Case], of: Sequence[Case]) -> np.ndarray:
    """Probabilities by shares that are learned from the cases of other repositories, shape (of,)."""
    found = []
    for case in of:
        others = [x for x in cases if x.repository != case.repository]
        seen = np.array([np.isfinite(x.share) for x in others])
        hit = np.array([x.hit for x in others], float)
        share = np.array([x.share for x in others])
        if not np.isfinite(case.share):
            found.append(_rate(hit[~seen], np.ones(int((~seen).sum()))))
            continue
        least = _rate(hit[seen], 1.0 - share[seen])
        most = _rate(hit[seen], share[seen])
        found.append(least + (most - least) * case.share)
    return np.array(found)


def _rate(hit: np.ndarray, weight: np.ndarray) -> float:
    return float((hit @ weight + 0.5 * _PRIOR) / (weight.sum() + _PRIOR))


def calibration(cases: Sequence[Case], learned_from: Sequence[Case]) -> dict[str, float]:
    """Errors as shipped, of true probabilities on as many logs, and with shares of other repositories; Brier scores."""
    cases = [x for x in cases if np.isfinite(x.probability)]
    shipped = np.array([x.probability for x in cases])
    hit = np.array([x.hit for x in cases])
    learned = relearned(learned_from, cases)
    rng = np.random.default_rng(0)
    true = [calibration_error(shipped, rng.random(len(shipped)) < shipped) for _ in range(DRAWS)]
    found = {
        "ece": calibration_error(shipped, hit),
        "ece if true": np.mean(true),
        "ece learned elsewhere": calibration_error(learned, hit),
        "brier": np.mean((shipped - hit) ** 2),
        "brier learned elsewhere": np.mean((learned - hit) ** 2),
        "share": hit.mean(),
        "mean": shipped.mean(),
    }
    return {name: round(float(x), 4) for name, x in found.items()}
