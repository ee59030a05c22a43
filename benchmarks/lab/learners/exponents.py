"""Learns what settings do to a run from pairs of public runs: `bayes_grpo/planning/exponents.json`, and how good it is.

    python -m benchmarks.lab.learners.exponents --index runs/index.csv runs/more/index.csv --cache folder

Of every pair of siblings neither of which failed, the outlook from the one to the settings of the other is held against
the level at which the other ended. Centre and spread of the exponents of a setting are those under which what happened
was most probable, with priors about what theory expects; a sibling counts once, however many look at it. Coverage
is of whole repositories left out. The search starts where the priors are.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

from bayes_grpo.common.files import written_whole
from bayes_grpo.planning.outlook import EXPONENTS_PATH, Exponents, expected_reward, reward_of_one_run
from benchmarks.common import keep, say
from benchmarks.lab.learners.sibling_ends import (
    PAIR_DRAWS,
    PLANNED_PLACES,
    SiblingPair,
    public_reads,
    sibling_pairs,
)
from benchmarks.lab.learners.siblings import sibling_families, siblings_in

_THEORY = {"learning_rate": 1.0, "refresh_interval": 0.0, "group_size": 0.2, "prompts_per_step": 0.2}
_CENTRE_SD, _SPREAD, _SPREAD_SD = 0.3, 0.3, (0.3, 0.7)
"""Priors: of the rate's centre about theory's, of the logarithm of spreads of rate and level about this one. Levels
move neither way on average."""


def ends_of(pair: SiblingPair, exponents: Mapping[str, Sequence[float]], z: np.ndarray) -> np.ndarray:
    """Draws of where one run of a pair's other settings ends, shape (draws,)."""
    learned, ratio = {}, {}
    for i, (name, place) in enumerate(PLANNED_PLACES.items()):
        if pair.change[place]:
            rate, rate_sd, level, level_sd = exponents[name]
            learned[name] = Exponents(rate + rate_sd * z[2 * i], level + level_sd * z[2 * i + 1])
            ratio[name] = float(pair.change[place])
    run = pair.run
    mean = expected_reward(run.base, learned, ratio, run.mean_rate * pair.step, run.scale)
    return reward_of_one_run(replace(run.base, apart=z[-1]), mean, exponents["apart"][0], run.scale)


def even_normals() -> np.ndarray:
    """Standard normal numbers for every exponent, shape (exponents, draws)."""
    even = norm.ppf((np.arange(PAIR_DRAWS) + 0.5) / PAIR_DRAWS)
    rng = np.random.default_rng(1)
    return np.stack([rng.permutation(even) for _ in range(2 * len(PLANNED_PLACES) + 1)])


def score_of_end(pair: SiblingPair, draws: np.ndarray) -> float:
    """Log density of what happened, in standard deviations of the rows, by a kernel as wide as what is read."""
    width = math.hypot(pair.error, 0.1 * pair.run.scale.unit)
    told: Any = logsumexp(norm.logpdf(pair.level, draws, width))
    return float(told) - math.log(len(draws)) + math.log(pair.run.scale.unit)


def learn_apart(pairs: Sequence[SiblingPair]) -> list[float]:
    """Standard deviation, log-odds, of the ends of siblings that no planned setting tells apart, beyond seeds."""
    z, alike = even_normals(), [p for p in pairs if not any(p.change[i] for i in PLANNED_PLACES.values())]
    share = _shares(alike)

    def loss(q: float) -> float:
        values = {"apart": [math.exp(q)]}
        told = sum(w * score_of_end(p, ends_of(p, values, z)) for p, w in zip(alike, share, strict=True))
        return -told + 0.5 * ((q - math.log(_SPREAD)) / _SPREAD_SD[1]) ** 2

    tried: list[float] = np.linspace(-3.0, 0.5, 15).tolist()
    return [math.exp(min(tried, key=loss))]


def learn_setting(name: str, pairs: Sequence[SiblingPair], known: Mapping[str, Sequence[float]]) -> list[float]:
    """Centre and spread of the exponents of rate and plateau of one setting.

    Args:
        name: The setting.
        pairs: Pairs.
        known: What is known of "apart".
    """
    z, alone = even_normals(), _alone(name, pairs)
    share = _shares(alone)

    def loss(q: np.ndarray) -> float:
        values = dict(known) | {name: [q[0], math.exp(q[1]), 0.0, math.exp(q[2])]}
        told = sum(w * score_of_end(p, ends_of(p, values, z)) for p, w in zip(alone, share, strict=True))
        return -told + _prior(name, q)

    start = np.array([_THEORY[name], math.log(_SPREAD), math.log(_SPREAD)])
    found: Any = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 100, "xatol": 0.02, "fatol": 0.02})
    return [float(found.x[0]), math.exp(found.x[1]), 0.0, math.exp(found.x[2])]


def _prior(name: str, q: np.ndarray) -> float:
    """Negative logarithm of the prior of a setting's exponents, but for a constant."""
    centre = ((q[0] - _THEORY[name]) / _CENTRE_SD) ** 2
    return 0.5 * float(centre + (((q[1:3] - math.log(_SPREAD)) / np.array(_SPREAD_SD)) ** 2).sum())


def _alone(name: str, pairs: Sequence[SiblingPair]) -> list[SiblingPair]:
    """Pairs that changed one setting alone."""
    rest = [place for other, place in PLANNED_PLACES.items() if other != name]
    return [
        p for p in pairs if abs(p.change[PLANNED_PLACES[name]]) > 0.01 and all(abs(p.change[i]) <= 0.01 for i in rest)
    ]


def _shares(pairs: Sequence[SiblingPair]) -> list[float]:
    """Weights by which a sibling counts once, however many look at it."""
    seen: dict[tuple[str, str], int] = {}
    for p in pairs:
        seen[p.family, p.to] = seen.get((p.family, p.to), 0) + 1
    return [1.0 / seen[p.family, p.to] for p in pairs]


def learn_all(pairs: Sequence[SiblingPair]) -> dict[str, list[float]]:
    """What is learned from pairs: of every setting, and what siblings of equal settings lie apart."""
    known = {"apart": learn_apart(pairs)}
    return known | {name: learn_setting(name, pairs, known) for name in PLANNED_PLACES}


def covered_ends(pairs: Sequence[SiblingPair], known: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Where the ends lie in their predictions.

    Args:
        pairs: Pairs.
        known: What is known of exponents.
    """
    z, out = even_normals(), []
    for p in pairs:
        draws = ends_of(p, known, z) + p.error * np.random.default_rng(2).standard_normal(PAIR_DRAWS)
        low, high = np.quantile(draws, [0.05, 0.95])
        moved = [n for n, i in PLANNED_PLACES.items() if p.change[i]]
        if not moved:
            continue
        out.append(
            {
                "repo": p.repo,
                "setting": moved[0] if len(moved) == 1 else "several",
                "inside": bool(low <= p.level <= high),
                "log_score": score_of_end(p, draws),
                "width": float((high - low) / p.run.scale.unit),
            }
        )
    return out


def coverage_by_group(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Coverage of 90% intervals, overall, by setting and by repository."""
    groups: dict[str, list[Mapping[str, Any]]] = {"all": list(rows)}
    for row in rows:
        for key in (row["setting"], row["repo"]):
            groups.setdefault(key, []).append(row)
    return {
        key: {
            "pairs": len(some),
            **{
                k: float(np.mean([row[v] for row in some]))
                for k, v in (("coverage", "inside"), ("log_score", "log_score"), ("width", "width"))
            },
        }
        for key, some in groups.items()
    }


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    families = sibling_families(siblings_in(options.index))
    paths = {p.stem: p for index in options.index for p in sorted((index.parent / "csv").glob("*.csv"))}
    pairs = sibling_pairs(families, public_reads(families, paths, options.cache))
    say(f"{len(pairs)} pairs")
    whole = learn_all(pairs)
    table = {
        "about": {
            "made by": "benchmarks/lab/learners/exponents.py",
            "pairs": {r: sum(p.repo == r for p in pairs) for r in sorted({p.repo for p in pairs})},
        },
        "apart": round(whole["apart"][0], 3),
        "exponents": {
            name: {"rate": [round(x, 3) for x in whole[name][:2]], "plateau": [round(x, 3) for x in whole[name][2:]]}
            for name in PLANNED_PLACES
        },
    }
    with written_whole(EXPONENTS_PATH) as temporary:
        temporary.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    say(json.dumps(table))
    rows = []
    for repo in sorted({p.repo for p in pairs}):
        known = learn_all([p for p in pairs if p.repo != repo])
        say(f"without {repo}: {known}")
        rows += covered_ends([p for p in pairs if p.repo == repo], known)
    result = {
        **{name: table[name] for name in ("apart", "exponents")},
        "left_out": coverage_by_group(rows),
        "within": coverage_by_group(covered_ends(pairs, whole)),
    }
    keep("learn_exponents", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
