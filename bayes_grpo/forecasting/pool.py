"""Linear opinion pool of the regimes and the last-value forecaster; its share is learned from many logs.

    share = 1 / (1 + exp(−(intercept + Σ weight · feature)))

The share depends on a few features of the log (Gneiting and Ranjan 2013, https://doi.org/10.1214/13-EJS823;
covariate-dependent stacking, Yao et al. 2022, https://doi.org/10.1214/21-BA1287). `benchmarks/lab/learners/pool.py`
learns the coefficients by the CRPS of forecasts of public logs, with equal weight per repository.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from bayes_grpo.forecasting.fits import Ensemble
from bayes_grpo.forecasting.level import LEVEL_NAME
from bayes_grpo.rows.series import Series

FEATURES = ("trend_evidence", "rows", "ahead", "rise", "late_rise")
"""Features of the share, see `pool_features`."""
BEYOND = 3.0
"""Limit of the standardized features, in standard deviations of the training logs; larger values are clipped."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Coefficients of the pool.

    Attributes:
        intercept: Log odds of the last-value forecaster at average features.
        weight: Change of the log odds by a standard deviation of each of `FEATURES`, shape (5,).
        centre: Mean of the features over the training logs, shape (5,).
        scale: Their standard deviation, shape (5,).
        provenance: Source of the coefficients.
    """

    intercept: float
    weight: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    provenance: Mapping[str, Any]

    def share(self, features: np.ndarray) -> float:
        """Share of the last-value forecaster, in (0, 1)."""
        z = np.clip((features - self.centre) / self.scale, -BEYOND, BEYOND)
        return float(1.0 / (1.0 + np.exp(-(self.intercept + self.weight @ z))))


def pooled(table: Series, fitted: Ensemble, ahead: int) -> dict[str, float]:
    """Weights of the regimes and of the last-value forecaster for so many rows ahead; they sum to 1."""
    share = shipped_pool().share(pool_features(table, fitted.log_evidence, fitted.trending, ahead))
    return {k: (1.0 - share) * w for k, w in fitted.weights.items()} | {LEVEL_NAME: share}


@cache
def shipped_pool() -> Pool:
    """The numbers of the package, which `benchmarks/lab/learners/pool.py` writes."""
    text = resources.files("bayes_grpo.forecasting").joinpath("pool.json").read_text(encoding="utf-8")
    x = json.loads(text)
    weight, centre, scale = (np.array([x[k][f] for f in FEATURES], float) for k in ("weight", "centre", "scale"))
    return Pool(float(x["intercept"]), weight, centre, scale, x["provenance"])


def pool_features(
    table: Series, log_evidence: Mapping[str, float], trending: Mapping[str, bool], ahead: int
) -> np.ndarray:
    """Features of the last-value share, in the order of `FEATURES`, shape (5,).

    Log Bayes factor of the best regime with a trend over the best without one (tens of nats, clipped to [−1, 3]);
    log of the rows over 50; log of the rows ahead over the rows; rise from the first to the last fifth, and from
    the fourth fifth to the last, each over the noise of a row (signed log, clipped to ±3).
    """
    y, n = table.y, len(table.y)
    known = {k: v for k, v in log_evidence.items() if np.isfinite(v)}
    moving, still = ([v for k, v in known.items() if trending[k] == kind] for kind in (True, False))
    gain = (max(moving) - max(still)) / 10.0 if moving and still else 0.0
    k = max(3, n // 5)
    noise = float(np.std(np.diff(y))) / np.sqrt(2.0) + 1e-12
    rise = y[-k:].mean() - y[:k].mean()
    late = y[-k:].mean() - y[-2 * k : -k].mean()

    def size(change: float) -> float:
        x = change / noise
        return float(np.clip(np.sign(x) * np.log1p(abs(x)), -3.0, 3.0))

    return np.array([np.clip(gain, -1.0, 3.0), np.log(n / 50.0), np.log(ahead / n), size(rise), size(late)])
