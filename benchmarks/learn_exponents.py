"""Learns what settings do to a run from pairs of public runs: `bayes_grpo/planning/exponents.json`, and how good it is.

    python benchmarks/learn_exponents.py --index runs/index.csv runs/more/index.csv --cache folder

Of every pair of siblings neither of which failed, the outlook from the one to the settings of the other is held against
the level at which the other ended. Centre and spread of the exponents of a setting are those under which what happened
was most probable, with priors about what theory expects; a sibling counts once, however many look at it. Coverage is
of whole repositories left out.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.files import written_whole
from bayes_grpo.families.index import LONGEST
from bayes_grpo.logs import read_log
from bayes_grpo.planning.outlook import EXPONENTS_PATH, Base, LearnedExponents, base_of_run, outcome, saturated
from bayes_grpo.rows.reward_range import RewardRange, reward_range
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import keep, say
from benchmarks.failing_cases import Family, families_in, siblings_in

SETTINGS = {"learning_rate": 0, "refresh_interval": 1, "group_size": 3, "prompts_per_step": 4}
"""Setting → its place in a change."""
THEORY = {"learning_rate": 1.0, "refresh_interval": 0.0, "group_size": 0.2, "prompts_per_step": 0.2}
CENTRE_SD, SPREAD, SPREAD_SD = 0.3, 0.3, (0.3, 0.7)
"""Priors: of the rate's centre about theory's, of the logarithm of spreads of rate and level about this one. Levels
move neither way on average."""
DRAWS = 400
REACHED = 0.3
"""A pair is compared where the other ran for at least this share of the run."""


class Read(NamedTuple):
    """A run of one signal, read by its laws."""

    base: Base
    step: np.ndarray
    y: np.ndarray
    mean_rate: float
    reward: RewardRange
    unit: float

    def end(self, step: float) -> tuple[float, float]:
        """Mean of the last tenth of the rows up to a step, and its standard error."""
        y = self.y[self.step <= step]
        size = max(3, len(y) // 10)
        return float(y[-size:].mean()), float(np.std(np.diff(y)) / math.sqrt(2.0 * size))


class Pair(NamedTuple):
    """A run that worked, and where a sibling ended that did not fail."""

    repo: str
    family: str
    to: str
    run: Read
    change: np.ndarray
    step: float
    level: float
    error: float


def read(path: Path, signal: str, cache: Path) -> Read | None:
    """A run of one signal; None where it has none that a law can be put on."""
    file = cache / f"{path.stem}.{signal}.npz"
    if not file.exists():
        try:
            run = read_log(path)
            if signal == "eval" and not (run.has_reward and np.isfinite(run.eval_reward).sum() >= 5):
                return None
            table = rows_of(run, signal, LONGEST)
            reward = reward_range(table, dict(run.settings.items()))
            base = base_of_run(table, reward, 7)
        except BayesGrpoError as error:
            say(f"left out: {path.stem} {signal}: {error}")
            return None
        arrays: Any = vars(base) | {"step": table.step, "y": table.y, "relrate": table.rate, "signal": table.signal}
        np.savez(file, low=reward.low, high=reward.high, scale=table.scale, **arrays)
    with np.load(file) as kept:
        d = dict(kept)
    some = np.random.default_rng(0).choice(len(d["rate"]), DRAWS)
    drawn = {k: d[k][some] for k in ("rate", "plateau", "start", "fluctuation", "seed", "swing")}
    base = Base(**drawn, stretch=np.zeros(DRAWS))
    reward = RewardRange(float(d["low"]), float(d["high"]))
    return Read(base, d["step"], d["y"], float(np.mean(d["relrate"])), reward, float(d["scale"]))


def pairs_in(families: Sequence[Family], paths: Mapping[str, Path], cache: Path) -> list[Pair]:
    """Pairs that changed nothing but planned settings."""
    out = []
    for f in families:
        reads = {
            (run.name, signal): read(paths[run.name], signal, cache)
            for run in f.runs
            if run.name in paths
            for signal in ("auto", "eval")
        }
        for place, changes, failed in f.views:
            run, others = f.runs[place], [r for r in f.runs if r is not f.runs[place]]
            for other, x, y in zip(others, changes, failed, strict=True):
                rest = np.delete(x, [*SETTINGS.values(), 2])
                if y or np.abs(rest).max() > 0.01:
                    continue
                x = np.where(np.abs(x) > 0.01, x, 0.0)
                for signal in ("auto", "eval"):
                    a, b = reads.get((run.name, signal)), reads.get((other.name, signal))
                    if a is not None and b is not None:
                        step = min(float(a.step[-1]), float(b.step[-1]))
                        if step >= REACHED * float(a.step[-1]):
                            out.append(Pair(f.repo, f.name, other.name, a, x, step, *b.end(step)))
                        break
    return out


def ends(pair: Pair, exponents: Mapping[str, Sequence[float]], z: np.ndarray) -> np.ndarray:
    """Draws of where one run of a pair's other settings ends, shape (draws,)."""
    learned, ratio = {}, {}
    for i, (name, place) in enumerate(SETTINGS.items()):
        if pair.change[place]:
            rate, rate_sd, plateau, plateau_sd = exponents[name]
            learned[name] = LearnedExponents(
                rate + rate_sd * z[2 * i], z[0] * 0.0, plateau + plateau_sd * z[2 * i + 1], False
            )
            ratio[name] = float(pair.change[place])
    run = pair.run
    found = outcome(
        run.base, learned, ratio, run.reward, None, None, unit=run.unit, length=run.mean_rate * float(run.step[-1])
    )
    level = found.at(run.mean_rate * pair.step)
    one = (
        saturated(level, exponents["apart"][0] * z[-1], run.reward, run.unit)
        + run.base.seed
        + found.fluctuation * run.base.swing
    )
    return np.clip(one, run.reward.low, run.reward.high)


def normals() -> np.ndarray:
    """Standard normal numbers for every exponent, shape (exponents, draws)."""
    even = norm.ppf((np.arange(DRAWS) + 0.5) / DRAWS)
    rng = np.random.default_rng(1)
    return np.stack([rng.permutation(even) for _ in range(2 * len(SETTINGS) + 1)])


def log_score(pair: Pair, draws: np.ndarray) -> float:
    """Log density of what happened, in standard deviations of the rows, by a kernel as wide as what is read."""
    width = math.hypot(pair.error, 0.1 * pair.run.unit)
    told: Any = logsumexp(norm.logpdf(pair.level, draws, width))
    return float(told) - math.log(len(draws)) + math.log(pair.run.unit)


def learn_apart(pairs: Sequence[Pair]) -> list[float]:
    """Standard deviation, log-odds, of the ends of siblings that no planned setting tells apart, beyond seeds."""
    z, alike = normals(), [p for p in pairs if not any(p.change[i] for i in SETTINGS.values())]
    seen: dict[tuple[str, str], int] = {}
    for p in alike:
        seen[p.family, p.to] = seen.get((p.family, p.to), 0) + 1

    def loss(q: float) -> float:
        told = sum(log_score(p, ends(p, {"apart": [math.exp(q)]}, z)) / seen[p.family, p.to] for p in alike)
        return -told + 0.5 * ((q - math.log(SPREAD)) / SPREAD_SD[1]) ** 2

    tried: list[float] = np.linspace(-3.0, 0.5, 15).tolist()
    return [math.exp(min(tried, key=loss))]


def learn(name: str, pairs: Sequence[Pair], apart: list[float]) -> list[float]:
    """Centre and spread of the exponents of rate and plateau of one setting."""
    z, place = normals(), SETTINGS[name]
    alone = [
        p
        for p in pairs
        if abs(p.change[place]) > 0.01 and all(abs(p.change[i]) <= 0.01 for i in SETTINGS.values() if i != place)
    ]
    seen: dict[tuple[str, str], int] = {}
    for p in alone:
        seen[p.family, p.to] = seen.get((p.family, p.to), 0) + 1

    def loss(q: np.ndarray) -> float:
        values = {name: [q[0], math.exp(q[1]), 0.0, math.exp(q[2])], "apart": apart}
        told = sum(log_score(p, ends(p, values, z)) / seen[p.family, p.to] for p in alone)
        prior = ((q[0] - THEORY[name]) / CENTRE_SD) ** 2
        return -told + 0.5 * (prior + (((q[1:] - math.log(SPREAD)) / np.array(SPREAD_SD)) ** 2).sum())

    start = np.array([THEORY[name], math.log(SPREAD), math.log(SPREAD)])
    found: Any = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 100, "xatol": 0.02, "fatol": 0.02})
    return [float(found.x[0]), math.exp(found.x[1]), 0.0, math.exp(found.x[2])]


def learn_all(pairs: Sequence[Pair]) -> dict[str, list[float]]:
    """What is learned from pairs: of every setting, and what siblings of equal settings lie apart."""
    apart = learn_apart(pairs)
    return {"apart": apart} | {name: learn(name, pairs, apart) for name in SETTINGS}


def coverage(pairs: Sequence[Pair], by_repo: Mapping[str, Mapping[str, Sequence[float]]]) -> list[dict[str, Any]]:
    """Where the ends lie in their predictions."""
    z, out = normals(), []
    for p in pairs:
        draws = ends(p, by_repo[p.repo], z) + p.error * np.random.default_rng(2).standard_normal(DRAWS)
        low, high = np.quantile(draws, [0.05, 0.95])
        moved = [n for n, i in SETTINGS.items() if p.change[i]]
        if not moved:
            continue
        out.append(
            {
                "repo": p.repo,
                "setting": moved[0] if len(moved) == 1 else "several",
                "inside": bool(low <= p.level <= high),
                "log_score": log_score(p, draws),
                "width": float((high - low) / p.run.unit),
            }
        )
    return out


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    families = families_in(siblings_in(options.index))
    paths = {p.stem: p for index in options.index for p in sorted((index.parent / "csv").glob("*.csv"))}
    pairs = pairs_in(families, paths, options.cache)
    say(f"{len(pairs)} pairs")
    whole = learn_all(pairs)
    table = {
        "about": {
            "made by": "benchmarks/learn_exponents.py",
            "pairs": {r: sum(p.repo == r for p in pairs) for r in sorted({p.repo for p in pairs})},
        },
        "apart": round(whole["apart"][0], 3),
        "exponents": {
            name: {"rate": [round(x, 3) for x in v[:2]], "plateau": [round(x, 3) for x in v[2:]]}
            for name, v in whole.items()
            if name != "apart"
        },
    }
    with written_whole(EXPONENTS_PATH) as temporary:
        temporary.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    say(json.dumps(table))
    by_repo = {}
    for repo in sorted({p.repo for p in pairs}):
        by_repo[repo] = learn_all([p for p in pairs if p.repo != repo])
        say(f"without {repo}: {by_repo[repo]}")
    result = {
        "apart": table["apart"],
        "exponents": table["exponents"],
        "left_out": summary(coverage(pairs, by_repo)),
        "within": summary(coverage(pairs, dict.fromkeys(by_repo, whole))),
    }
    keep("learn_exponents", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
