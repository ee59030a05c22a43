"""Learns how much of a forecast the level of the last rows gets beside the laws, and writes the package's numbers.

    python -m benchmarks.lab.learners.pool CACHE --index RUNS/index.csv ... [--out pool.json]

CACHE is a folder of finished logs as `benchmarks.forecast.backtest --cache` keeps them. The CRPS of the pool, in
standard deviations of each curve, is least on average over origins; the forecasts of one repository count as `_MOST`
at most, because they are much alike.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bayes_grpo import forecasting
from bayes_grpo.common.files import atomic_write
from bayes_grpo.forecasting.pool import BEYOND, FEATURES, Pool
from benchmarks.common import keep
from benchmarks.index import repositories
from benchmarks.lab.learners.pieces import Piece

_TARGET = Path(forecasting.__file__).with_name("pool.json")
_MOST = 15.0
"""Forecasts of a repository count as this many at most: five logs at three origins."""
WEIGHT_PENALTY, INTERCEPT_PENALTY = 1e-3, 1e-4
"""Penalties on squared numbers, in CRPS: a change of .5 in the log odds of a feature has to bring 2.5e-4."""


def learn_pool(pieces: Sequence[tuple[str, Piece]], provenance: Mapping[str, Any] | None = None) -> Pool:
    """The numbers of least penalised mean CRPS.

    Args:
        pieces: Repository and piece of every forecast.
        provenance: What is said of where they come from.
    """
    features = np.array([p.features for _, p in pieces])
    laws, level, apart = (np.array([getattr(p, k) for _, p in pieces]) for k in ("laws", "level", "apart"))
    count = Counter(repo for repo, _ in pieces)
    weight = np.array([min(1.0, _MOST / count[repo]) for repo, _ in pieces])
    weight = weight / weight.sum()
    centre, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
    z = np.clip((features - centre) / scale, -BEYOND, BEYOND)

    def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        share = 1.0 / (1.0 + np.exp(-(numbers[0] + z @ numbers[1:])))
        score = (1.0 - share) * laws + share * level - share * (1.0 - share) * apart
        slope = weight * (level - laws - (1.0 - 2.0 * share) * apart) * share * (1.0 - share)
        penalty = np.concatenate([[INTERCEPT_PENALTY], np.full(len(FEATURES), WEIGHT_PENALTY)])
        value = float(weight @ score + penalty @ numbers**2)
        return value, np.concatenate([[slope.sum()], slope @ z]) + 2.0 * penalty * numbers

    found = minimize(loss, np.zeros(1 + len(FEATURES)), jac=True, method="L-BFGS-B").x
    return Pool(float(found[0]), found[1:], centre, scale, dict(provenance or {}))


def content_of(pool: Pool) -> dict[str, Any]:
    """The numbers as the package's file holds them; `shipped_pool` reads them."""
    numbers = {"weight": pool.weight, "centre": pool.centre, "scale": pool.scale}
    by_feature = {name: dict(zip(FEATURES, x.tolist(), strict=True)) for name, x in numbers.items()}
    return {"provenance": dict(pool.provenance), "intercept": pool.intercept, **by_feature}


def pieces_of(cache: Path, indices: Sequence[Path]) -> list[tuple[str, Piece]]:
    """Repository and piece of every forecast that a cache of `benchmarks.forecast.backtest` holds."""
    repos = repositories(indices)
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(cache.glob("*.json"))]
    return [(repos[f["log"]], Piece(**p)) for f in found for p in f.get("pieces", ())]


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, default=_TARGET)
    options = parser.parse_args()
    pieces = pieces_of(options.cache, options.index)
    logs = len({p.log for _, p in pieces})
    about = {
        "made by": "benchmarks/lab/learners/pool.py",
        "repositories": len({r for r, _ in pieces}),
        "logs": logs,
        "forecasts": len(pieces),
    }
    pool = learn_pool(pieces, about)
    with atomic_write(options.out) as temporary:
        temporary.write_text(json.dumps(content_of(pool), indent=1) + "\n", encoding="utf-8")
    shares = [pool.share(np.array(p.features)) for _, p in pieces]
    if options.out == _TARGET:
        keep("learn_pool", {"logs": logs, "forecasts": len(pieces), "mean_share": float(np.mean(shares))})
    print(json.dumps(content_of(pool), indent=1))
    print("share of the level, quantiles:", np.round(np.quantile(shares, [0.05, 0.25, 0.5, 0.75, 0.95]), 3).tolist())


if __name__ == "__main__":
    main()
