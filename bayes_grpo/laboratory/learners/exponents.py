"""Learns what settings do to a run from pairs of public runs: `bayes_grpo/planning/exponents.json`, and how good it is.

    python -m bayes_grpo.laboratory.learners.exponents --index runs/index.csv runs/more/index.csv --cache folder

Of every pair of siblings neither of which failed, the outlook from the one to the settings of the other is held against
the level at which the other ended. Centre and spread of the exponents of a setting are those under which what happened
was most probable, with priors about what theory expects; a sibling counts once, however many look at it. Coverage is
of whole repositories left out.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.files import written_whole
from bayes_grpo.families.index import LONGEST
from bayes_grpo.laboratory.learners.lab_siblings import LabSibling, as_run
from bayes_grpo.laboratory.learners.record import keep, say
from bayes_grpo.laboratory.learners.siblings import SiblingFamily, sibling_families, siblings_in
from bayes_grpo.logs import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.planning.lessons import EXPONENTS_PATH
from bayes_grpo.planning.outlook import Base, LearnedExponents, base_of_run, outcome, saturated
from bayes_grpo.rows.reward_range import RewardRange, reward_range
from bayes_grpo.rows.rows_of import rows_of

_SETTINGS = {"learning_rate": 0, "refresh_interval": 1, "group_size": 3, "prompts_per_step": 4}
"""Setting → its place in a change."""
_THEORY = {"learning_rate": 1.0, "refresh_interval": 0.0, "group_size": 0.2, "prompts_per_step": 0.2}
_CENTRE_SD, _SPREAD, _SPREAD_SD = 0.3, 0.3, (0.3, 0.7)
"""Priors: of the rate's centre about theory's, of the logarithm of spreads of rate and level about this one. Levels
move neither way on average."""
_DRAWS = 400
_REACHED = 0.3
"""A pair is compared where the other ran for at least this share of the run."""


class ReadSignal(NamedTuple):
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


class SiblingPair(NamedTuple):
    """A run that worked, and where a sibling ended that did not fail."""

    repo: str
    family: str
    to: str
    run: ReadSignal
    change: np.ndarray
    step: float
    level: float
    error: float


Reads = Mapping[tuple[str, str], ReadSignal | None]
"""(Run, "auto" or "eval") → what was read of it."""


def public_reads(families: Sequence[SiblingFamily], paths: Mapping[str, Path], cache: Path) -> Reads:
    """Runs of public families, read from their logs."""

    def run_of(name: str, signal: str) -> Run | None:
        run = read_log(paths[name])
        few = signal == "eval" and not (run.has_reward and np.isfinite(run.eval_reward).sum() >= 5)
        return None if few else run

    return {
        (run.name, signal): read_signal(lambda n=run.name, s=signal: run_of(n, s), f"{run.name}.{signal}", cache)
        for f in families
        for run in f.runs
        if run.name in paths
        for signal in ("auto", "eval")
    }


def lab_reads(runs: Sequence[LabSibling], cache: Path) -> Reads:
    """Runs of the laboratory that did not fail."""
    return {
        (x.sibling.name, "auto"): read_signal(lambda x=x: as_run(x), f"{x.sibling.name}.auto", cache)
        for x in runs
        if not x.sibling.failed
    }


def read_signal(run_of: Callable[[], Run | None], name: str, cache: Path) -> ReadSignal | None:
    """A run of one signal; None where it has none that a law can be put on.

    Args:
        run_of: The run; None where it has no such signal.
        name: Its name and the signal's, "run.auto" or "run.eval".
        cache: Where what was read is kept.
    """
    file = cache / f"{name}.npz"
    if not file.exists():
        try:
            run = run_of()
            if run is None:
                return None
            table = rows_of(run, name.rpartition(".")[2], LONGEST)
            reward = reward_range(table, dict(run.settings.items()))
            base = base_of_run(table, reward, 7)
        except BayesGrpoError as error:
            say(f"left out: {name}: {error}")
            return None
        arrays: Any = vars(base) | {"step": table.step, "y": table.y, "relrate": table.rate, "signal": table.signal}
        np.savez(file, low=reward.low, high=reward.high, scale=table.scale, **arrays)
    with np.load(file) as kept:
        d = dict(kept)
    some = np.random.default_rng(0).choice(len(d["rate"]), _DRAWS)
    drawn = {k: d[k][some] for k in ("rate", "plateau", "start", "fluctuation", "seed", "swing")}
    base = Base(**drawn, stretch=np.zeros(_DRAWS))
    reward = RewardRange(float(d["low"]), float(d["high"]))
    return ReadSignal(base, d["step"], d["y"], float(np.mean(d["relrate"])), reward, float(d["scale"]))


def sibling_pairs(families: Sequence[SiblingFamily], reads: Reads) -> list[SiblingPair]:
    """Pairs that changed nothing but planned settings."""
    out = []
    for f in families:
        for place, changes, failed in f.views:
            run, others = f.runs[place], [r for r in f.runs if r is not f.runs[place]]
            for other, x, y in zip(others, changes, failed, strict=True):
                rest = np.delete(x, [*_SETTINGS.values(), 2])
                if y or np.abs(rest).max() > 0.01:
                    continue
                x = np.where(np.abs(x) > 0.01, x, 0.0)
                for signal in ("auto", "eval"):
                    a, b = reads.get((run.name, signal)), reads.get((other.name, signal))
                    if a is not None and b is not None:
                        step = min(float(a.step[-1]), float(b.step[-1]))
                        if step >= _REACHED * float(a.step[-1]):
                            out.append(SiblingPair(f.repo, f.name, other.name, a, x, step, *b.end(step)))
                        break
    return out


def ends_of(pair: SiblingPair, exponents: Mapping[str, Sequence[float]], z: np.ndarray) -> np.ndarray:
    """Draws of where one run of a pair's other settings ends, shape (draws,)."""
    learned, ratio = {}, {}
    for i, (name, place) in enumerate(_SETTINGS.items()):
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


def even_normals() -> np.ndarray:
    """Standard normal numbers for every exponent, shape (exponents, draws)."""
    even = norm.ppf((np.arange(_DRAWS) + 0.5) / _DRAWS)
    rng = np.random.default_rng(1)
    return np.stack([rng.permutation(even) for _ in range(2 * len(_SETTINGS) + 1)])


def score_of_end(pair: SiblingPair, draws: np.ndarray) -> float:
    """Log density of what happened, in standard deviations of the rows, by a kernel as wide as what is read."""
    width = math.hypot(pair.error, 0.1 * pair.run.unit)
    told: Any = logsumexp(norm.logpdf(pair.level, draws, width))
    return float(told) - math.log(len(draws)) + math.log(pair.run.unit)


def learn_apart(pairs: Sequence[SiblingPair]) -> list[float]:
    """Standard deviation, log-odds, of the ends of siblings that no planned setting tells apart, beyond seeds."""
    z, alike = even_normals(), [p for p in pairs if not any(p.change[i] for i in _SETTINGS.values())]
    seen: dict[tuple[str, str], int] = {}
    for p in alike:
        seen[p.family, p.to] = seen.get((p.family, p.to), 0) + 1

    def loss(q: float) -> float:
        told = sum(score_of_end(p, ends_of(p, {"apart": [math.exp(q)]}, z)) / seen[p.family, p.to] for p in alike)
        return -told + 0.5 * ((q - math.log(_SPREAD)) / _SPREAD_SD[1]) ** 2

    tried: list[float] = np.linspace(-3.0, 0.5, 15).tolist()
    return [math.exp(min(tried, key=loss))]


def learn_setting(name: str, pairs: Sequence[SiblingPair], apart: list[float]) -> list[float]:
    """Centre and spread of the exponents of rate and plateau of one setting."""
    z, place = even_normals(), _SETTINGS[name]
    alone = [
        p
        for p in pairs
        if abs(p.change[place]) > 0.01 and all(abs(p.change[i]) <= 0.01 for i in _SETTINGS.values() if i != place)
    ]
    seen: dict[tuple[str, str], int] = {}
    for p in alone:
        seen[p.family, p.to] = seen.get((p.family, p.to), 0) + 1

    def loss(q: np.ndarray) -> float:
        values = {name: [q[0], math.exp(q[1]), 0.0, math.exp(q[2])], "apart": apart}
        told = sum(score_of_end(p, ends_of(p, values, z)) / seen[p.family, p.to] for p in alone)
        prior = ((q[0] - _THEORY[name]) / _CENTRE_SD) ** 2
        return -told + 0.5 * (prior + (((q[1:] - math.log(_SPREAD)) / np.array(_SPREAD_SD)) ** 2).sum())

    start = np.array([_THEORY[name], math.log(_SPREAD), math.log(_SPREAD)])
    found: Any = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 100, "xatol": 0.02, "fatol": 0.02})
    return [float(found.x[0]), math.exp(found.x[1]), 0.0, math.exp(found.x[2])]


def learn_all(pairs: Sequence[SiblingPair]) -> dict[str, list[float]]:
    """What is learned from pairs: of every setting, and what siblings of equal settings lie apart."""
    apart = learn_apart(pairs)
    return {"apart": apart} | {name: learn_setting(name, pairs, apart) for name in _SETTINGS}


def covered_ends(
    pairs: Sequence[SiblingPair], by_repo: Mapping[str, Mapping[str, Sequence[float]]]
) -> list[dict[str, Any]]:
    """Where the ends lie in their predictions."""
    z, out = even_normals(), []
    for p in pairs:
        draws = ends_of(p, by_repo[p.repo], z) + p.error * np.random.default_rng(2).standard_normal(_DRAWS)
        low, high = np.quantile(draws, [0.05, 0.95])
        moved = [n for n, i in _SETTINGS.items() if p.change[i]]
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
            "made by": "bayes_grpo/laboratory/learners/exponents.py",
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
        "left_out": coverage_by_group(covered_ends(pairs, by_repo)),
        "within": coverage_by_group(covered_ends(pairs, dict.fromkeys(by_repo, whole))),
    }
    keep("learn_exponents", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
