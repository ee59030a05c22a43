"""What a plan promises of other settings, against what public runs with those settings brought.

    python -m benchmarks.promises --index INDEX.csv ... --cache DIR

A pair is a run that worked and another of its repository, task and model whose planned settings differ and that did
not fail (`benchmarks.lab.learners.sibling_ends`); a pair of runs counts once in each direction. From the first run
alone, by the exponents that the package ships, follow where the other ends and what it gains over the first. The
other's last tenth of rows is what came. The result is the share of 90% intervals that contain what came, and the
promised gain less the one that came, in standard deviations of the rows of the family's widest run, by setting and by
repository. Runs are read once and kept.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.planning.lessons import learned_lessons
from bayes_grpo.risk.failing import learned_failures
from benchmarks.common import keep
from benchmarks.lab.learners.exponents import ends_of, even_normals
from benchmarks.lab.learners.sibling_ends import (
    PAIR_DRAWS,
    PLANNED_PLACES,
    SiblingPair,
    public_reads,
    sibling_pairs,
    with_borders,
)
from benchmarks.lab.learners.siblings import sibling_families, siblings_in


def shipped() -> dict[str, list[float]]:
    """What the package knows of exponents, as the learner writes it."""
    lessons = learned_lessons()
    known = {name: [*own["rate"], *own["plateau"]] for name, own in lessons.exponents.items()}
    return known | {"apart": [lessons.run_sd], "nearing": [*lessons.nearing]}


def promised(pair: SiblingPair, z: np.ndarray, unit: float) -> dict[str, Any]:
    """Promise and outcome of one pair, in a unit of reward."""
    own, error = pair.run.end(pair.step)
    still = pair._replace(change=np.zeros_like(pair.change), after=pair.before)
    there, here = ends_of(pair, shipped(), z), ends_of(still, shipped(), z)
    drawn = there + pair.error * np.random.default_rng(2).standard_normal(PAIR_DRAWS)
    low, high = np.quantile(drawn, [0.05, 0.95])
    moved = [name for name, place in PLANNED_PLACES.items() if pair.change[place]]
    return {
        "repo": pair.repo,
        "setting": moved[0] if len(moved) == 1 else "several",
        "inside": bool(low <= pair.level <= high),
        "promised": float(np.mean(there - here)) / unit,
        "came": (pair.level - own) / unit,
        "error": math.hypot(pair.error, error) / unit,
    }


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Coverage of what came and bias of the promised gain, overall, by setting and by repository."""
    groups: dict[str, list[dict[str, Any]]] = {"all": list(rows)}
    for row in rows:
        for key in (row["setting"], row["repo"]):
            groups.setdefault(key, []).append(row)
    out = {}
    for key, some in groups.items():
        bias = np.array([row["promised"] - row["came"] for row in some])
        out[key] = {
            "pairs": len(some),
            "coverage": float(np.mean([row["inside"] for row in some])),
            "promised": float(np.mean([row["promised"] for row in some])),
            "came": float(np.mean([row["came"] for row in some])),
            "bias": float(bias.mean()),
            "bias_where_a_gain_is_promised": float(np.mean([b for b, r in zip(bias, some, strict=True)
                                                            if r["promised"] > 0.0] or [0.0])),
        }  # fmt: skip
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
    z, unit = even_normals(), dict[str, float]()
    for p in pairs:
        unit[p.family] = max(unit.get(p.family, 0.0), p.run.unit)
    result = summary([promised(p, z, unit[p.family]) for p in with_borders(pairs, learned_failures())])
    keep("promises", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
