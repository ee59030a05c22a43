"""Learns what settings do to a run from pairs of public runs: `bayes_grpo/planning/exponents.json`, and how good it is.

    python -m benchmarks.lab.learners.exponents --index runs/index.csv runs/more/index.csv --lab runs \
        --failing kept --cache folder

Of every pair of siblings neither of which failed, the outlook from the one to the settings of the other is held against
the level at which the other ended. Centre and spread of the exponents of a setting are those under which what happened
was most probable, with priors about what theory expects; a sibling counts once, however many look at it. What levels
lose near the border at which runs fail is learned with the learning rate. Coverage is of whole repositories left out,
of what they tell of borders too.

The search starts where the priors are. Its loss is rough, being of a few hundred draws: of four starts the best ended
0.6 lower, at the same spread of the level; two that began narrower ended 3 and 7 higher.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

from bayes_grpo.common.files import written_whole
from bayes_grpo.planning.lessons import EXPONENTS_PATH, Nearing
from bayes_grpo.planning.outlook import LearnedExponents, outcome, saturated
from bayes_grpo.risk.failing import LearnedFailures, learned_failures
from benchmarks.lab.learners.failing import failures_without, lab_families, posterior_of
from benchmarks.lab.learners.record import keep, say
from benchmarks.lab.learners.sibling_ends import (
    PAIR_DRAWS,
    PLANNED_PLACES,
    SiblingPair,
    public_reads,
    sibling_pairs,
    with_borders,
)
from benchmarks.lab.learners.siblings import sibling_families, siblings_in

_THEORY = {"learning_rate": 1.0, "refresh_interval": 0.0, "group_size": 0.2, "prompts_per_step": 0.2}
_CENTRE_SD, _SPREAD, _SPREAD_SD = 0.3, 0.3, (0.3, 0.7)
"""Priors: of the rate's centre about theory's, of the logarithm of spreads of rate and level about this one. Levels
move neither way on average."""
_STRENGTH, _REACH = (0.3, 1.0), (1.0, 1.0)
"""Priors of what is lost near the border: of the strength's median and the spread of its logarithm, of the reach."""
_UNKNOWN = (0.0, 0.0)
"""Nothing is lost near the border."""


def ends_of(pair: SiblingPair, exponents: Mapping[str, Sequence[float]], z: np.ndarray) -> np.ndarray:
    """Draws of where one run of a pair's other settings ends, shape (draws,)."""
    learned, ratio = {}, {}
    for i, (name, place) in enumerate(PLANNED_PLACES.items()):
        if pair.change[place]:
            rate, rate_sd, plateau, plateau_sd = exponents[name]
            learned[name] = LearnedExponents(rate + rate_sd * z[2 * i], z[0] * 0.0, plateau + plateau_sd * z[2 * i + 1])
            ratio[name] = float(pair.change[place])
    run = pair.run
    found = outcome(
        run.base,
        learned,
        ratio,
        run.reward,
        None,
        None,
        unit=run.unit,
        length=run.mean_rate * float(run.step[-1]),
        nearing=Nearing(*exponents["nearing"]).shift(pair.before, pair.after),
    )
    level = found.at(run.mean_rate * pair.step)
    one = (
        saturated(level, exponents["apart"][0] * z[-1], run.reward, run.unit)
        + run.base.seed
        + found.fluctuation * run.base.swing
    )
    return np.clip(one, run.reward.low, run.reward.high)


def even_normals() -> np.ndarray:
    """Standard normal numbers for every exponent, shape (exponents, draws)."""
    even = norm.ppf((np.arange(PAIR_DRAWS) + 0.5) / PAIR_DRAWS)
    rng = np.random.default_rng(1)
    return np.stack([rng.permutation(even) for _ in range(2 * len(PLANNED_PLACES) + 1)])


def score_of_end(pair: SiblingPair, draws: np.ndarray) -> float:
    """Log density of what happened, in standard deviations of the rows, by a kernel as wide as what is read."""
    width = math.hypot(pair.error, 0.1 * pair.run.unit)
    told: Any = logsumexp(norm.logpdf(pair.level, draws, width))
    return float(told) - math.log(len(draws)) + math.log(pair.run.unit)


def learn_apart(pairs: Sequence[SiblingPair]) -> list[float]:
    """Standard deviation, log-odds, of the ends of siblings that no planned setting tells apart, beyond seeds."""
    z, alike = even_normals(), [p for p in pairs if not any(p.change[i] for i in PLANNED_PLACES.values())]
    share = _shares(alike)

    def loss(q: float) -> float:
        values = {"apart": [math.exp(q)], "nearing": _UNKNOWN}
        told = sum(w * score_of_end(p, ends_of(p, values, z)) for p, w in zip(alike, share, strict=True))
        return -told + 0.5 * ((q - math.log(_SPREAD)) / _SPREAD_SD[1]) ** 2

    tried: list[float] = np.linspace(-3.0, 0.5, 15).tolist()
    return [math.exp(min(tried, key=loss))]


def learn_rate(pairs: Sequence[SiblingPair], apart: list[float]) -> dict[str, list[float]]:
    """Centre and spread of the learning rate's exponents, and what levels lose near the border."""
    z, alone = even_normals(), _alone("learning_rate", pairs)
    share = _shares(alone)

    def values(q: np.ndarray) -> dict[str, list[float]]:
        own = [float(q[0]), math.exp(q[1]), 0.0, math.exp(q[2])]
        return {"apart": apart, "learning_rate": own, "nearing": [math.exp(q[3]), float(q[4])]}

    def loss(q: np.ndarray) -> float:
        told = sum(w * score_of_end(p, ends_of(p, values(q), z)) for p, w in zip(alone, share, strict=True))
        near = ((q[3] - math.log(_STRENGTH[0])) / _STRENGTH[1]) ** 2 + ((q[4] - _REACH[0]) / _REACH[1]) ** 2
        return -told + 0.5 * near + _prior("learning_rate", q)

    start = np.array(
        [_THEORY["learning_rate"], math.log(_SPREAD), math.log(_SPREAD), math.log(_STRENGTH[0]), _REACH[0]]
    )
    found: Any = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 200, "xatol": 0.02, "fatol": 0.02})
    return values(found.x)


def learn_setting(name: str, pairs: Sequence[SiblingPair], known: Mapping[str, Sequence[float]]) -> list[float]:
    """Centre and spread of the exponents of rate and plateau of one setting.

    Args:
        name: The setting.
        pairs: Pairs.
        known: What is known of "apart" and "nearing".
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


def learn_all(pairs: Sequence[SiblingPair], failures: LearnedFailures) -> dict[str, list[float]]:
    """What is learned from pairs: of every setting, what siblings of equal settings lie apart, what nears the border.

    Args:
        pairs: Pairs.
        failures: What is known of borders.
    """
    pairs = with_borders(pairs, failures)
    known = learn_rate(pairs, learn_apart(pairs))
    return known | {name: learn_setting(name, pairs, known) for name in PLANNED_PLACES if name != "learning_rate"}


def covered_ends(pairs: Sequence[SiblingPair], known: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Where the ends lie in their predictions.

    Args:
        pairs: Pairs, with their borders.
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
                "width": float((high - low) / p.run.unit),
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
    parser.add_argument("--lab", type=Path, required=True, help="folder of the laboratory's runs")
    parser.add_argument("--families", type=int, default=25, help="of the laboratory, of each seed")
    parser.add_argument("--failing", type=Path, required=True, help="the cache of learners.failing, which comes before")
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    families = sibling_families(siblings_in(options.index))
    paths = {p.stem: p for index in options.index for p in sorted((index.parent / "csv").glob("*.csv"))}
    pairs = sibling_pairs(families, public_reads(families, paths, options.cache))
    say(f"{len(pairs)} pairs")
    whole = learn_all(pairs, learned_failures())
    table = {
        "about": {
            "made by": "benchmarks/lab/learners/exponents.py",
            "pairs": {r: sum(p.repo == r for p in pairs) for r in sorted({p.repo for p in pairs})},
        },
        "apart": round(whole["apart"][0], 3),
        "nearing": [round(x, 3) for x in whole["nearing"]],
        "exponents": {
            name: {"rate": [round(x, 3) for x in whole[name][:2]], "plateau": [round(x, 3) for x in whole[name][2:]]}
            for name in PLANNED_PLACES
        },
    }
    with written_whole(EXPONENTS_PATH) as temporary:
        temporary.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    say(json.dumps(table))
    lab = [f for each in lab_families(options.lab, options.families) for f in each]
    draws, rows = posterior_of(families, options.failing / "whole_with_lab.npz", lab), []
    for repo in sorted({p.repo for p in pairs}):
        failures = failures_without(families, repo, draws, options.failing, lab)
        known = learn_all([p for p in pairs if p.repo != repo], failures)
        say(f"without {repo}: {known}")
        rows += covered_ends(with_borders([p for p in pairs if p.repo == repo], failures), known)
    result = {
        **{name: table[name] for name in ("apart", "nearing", "exponents")},
        "left_out": coverage_by_group(rows),
        "within": coverage_by_group(covered_ends(with_borders(pairs, learned_failures()), whole)),
    }
    keep("learn_exponents", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
