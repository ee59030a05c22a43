"""What a plan promises of other settings, against what public runs with those settings brought.

    python -m benchmarks.promises --index INDEX.csv ... --cache DIR

A pair is a run that worked and another of its repository, task and model whose planned settings differ and that did
not fail (`benchmarks.lab.learners.sibling_ends`); a pair of runs counts once in each direction. From the first run
alone, by the exponents that the package ships and as `plan` does it, but for its risk, follow where a run of the
other settings ends and what they gain. The other's last tenth of rows is what came. The result is the share of 90%
intervals that contain what came, and the promised gain less the one that came, in standard deviations of the rows of
the family's widest run, by setting and by repository. Runs are read once and kept.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.planning.outlook import expected_reward, exponent_draws, learned_exponents, reward_of_one_run
from benchmarks.common import keep
from benchmarks.lab.learners.sibling_ends import PLANNED_PLACES, SiblingPair, public_reads, sibling_pairs
from benchmarks.lab.learners.siblings import sibling_families, siblings_in


def promised(pair: SiblingPair, unit: float) -> dict[str, Any]:
    """Promise and outcome of one pair, in a unit of reward."""
    run = pair.run
    moved = {name: float(pair.change[i]) for name, i in PLANNED_PLACES.items() if pair.change[i]}
    exponents = exponent_draws(list(moved), len(run.base), True, 0)
    most = math.inf if math.isfinite(run.scale.range.high) else float(np.max(run.y))
    there, here = (
        np.minimum(expected_reward(run.base, exponents, ratio, run.mean_rate * pair.step, run.scale), most)
        for ratio in (moved, {})
    )
    one = reward_of_one_run(run.base, there, learned_exponents().run_sd, run.scale)
    low, high = np.quantile(one + pair.error * np.random.default_rng(2).standard_normal(len(one)), [0.05, 0.95])
    return {
        "repo": pair.repo,
        "setting": next(iter(moved)) if len(moved) == 1 else "several",
        "inside": bool(low <= pair.level <= high),
        "promised": float(np.mean(there - here)) / unit,
        "came": (pair.level - run.end(pair.step)[0]) / unit,
    }


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Coverage of what came and bias of the promised gain, overall, by setting and by repository."""
    groups: dict[str, list[dict[str, Any]]] = {"all": list(rows)}
    for row in rows:
        for key in (row["setting"], row["repo"]):
            groups.setdefault(key, []).append(row)
    out = {}
    for key, some in groups.items():
        inside, gain, came = (np.array([row[x] for row in some]) for x in ("inside", "promised", "came"))
        bias, gains = gain - came, gain > 0.0
        out[key] = {
            "pairs": len(some),
            "coverage": float(inside.mean()),
            "promised": float(gain.mean()),
            "came": float(came.mean()),
            "bias": float(bias.mean()),
            "gains_promised": int(gains.sum()),
            "bias_where_a_gain_is_promised": float(bias[gains].mean()) if gains.any() else None,
        }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    families = sibling_families(siblings_in(options.index))
    paths = {p.stem: p for index in options.index for p in sorted((index.parent / "csv").glob("*.csv"))}
    pairs = [p for p in sibling_pairs(families, public_reads(families, paths, options.cache)) if any(p.change)]
    unit: dict[str, float] = {}
    for p in pairs:
        unit[p.family] = max(unit.get(p.family, 0.0), p.run.scale.unit)
    result = summary([promised(p, unit[p.family]) for p in pairs])
    keep("promises", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
