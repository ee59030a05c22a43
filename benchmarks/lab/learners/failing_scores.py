"""How good P(fails) is over pairs of siblings: scores beside a base rate's, reliability, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from bayes_grpo.common.intervals import interval

_BINS = (0.0, 0.05, 0.1, 0.2, 0.4, 1.0)
_BOOTSTRAP = 2000


def pair_scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Brier and log score beside the base rate's, means over failed and unfailed pairs, reliability."""
    p, y, rate = (np.array([row[k] for row in rows], float) for k in ("p", "failed", "base_rate"))
    moved = np.array([any(row["change"]) for row in rows])
    repos = np.array([row["repo"] for row in rows])

    def log_score(q: np.ndarray) -> np.ndarray:
        return -np.log(np.where(y > 0, q, 1.0 - q))

    def spread(values: np.ndarray, kept: np.ndarray) -> list[float]:
        """90% interval of a mean by drawing repositories."""
        rng, names = np.random.default_rng(0), sorted(set(repos[kept]))
        sums = {n: (values[kept & (repos == n)].sum(), (kept & (repos == n)).sum()) for n in names}
        means = []
        for _ in range(_BOOTSTRAP):
            total = np.sum([sums[n] for n in rng.choice(names, len(names))], axis=0)
            means.append(total[0] / total[1])
        return list(interval(np.array(means))[1:3])

    failed, held, every = y > 0, y == 0, np.ones(len(y), bool)
    table = []
    for low, high in pairwise(_BINS):
        inside = (p >= low) & (p < high)
        if inside.any():
            table.append(
                {
                    "from": low,
                    "to": high,
                    "pairs": int(inside.sum()),
                    "told": float(p[inside].mean()),
                    "failed": float(y[inside].mean()),
                }
            )
    return {
        "pairs": len(rows),
        "failed": int(y.sum()),
        "moved": int(moved.sum()),
        "brier": float(np.mean((p - y) ** 2)),
        "brier_base_rate": float(np.mean((rate - y) ** 2)),
        "brier_stable": float(np.mean((0.01 - y) ** 2)),
        "log_score": float(log_score(p).mean()),
        "log_score_base_rate": float(log_score(rate).mean()),
        "log_score_stable": float(log_score(np.full(len(y), 0.01)).mean()),
        "p_of_failed": float(p[failed].mean()),
        "p_of_failed_interval": spread(p, failed),
        "p_of_held": float(p[held].mean()),
        "p_of_held_interval": spread(p, held),
        "p_of_held_moved": float(p[held & moved].mean()),
        "brier_interval": spread((p - y) ** 2, every),
        "reliability": table,
    }


def calibration_error(rows: Sequence[Mapping[str, Any]], bins: int = 10) -> float:
    """Mean distance of what was told from what was seen, over bins of equal width weighed by their pairs."""
    p, y = (np.array([row[k] for row in rows], float) for k in ("p", "failed"))
    place = np.minimum((p * bins).astype(int), bins - 1)
    return float(sum(abs((p - y)[place == b].sum()) for b in range(bins)) / len(p))


def both_scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Scores of all pairs, and of those that changed the learning rate alone."""
    sweeps = [row for row in rows if np.count_nonzero(row["change"]) == 1 and row["change"][0] != 0.0]
    return {"all": pair_scores(rows), "learning_rate_alone": pair_scores(sweeps)}
