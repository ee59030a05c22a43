"""Families of runs: exponents of known families, shared families, simulation-based calibration, time.

    python benchmarks/families.py known --families 40 --cache folder
    python benchmarks/families.py simulated --families 20 --cache folder
    python benchmarks/families.py shared --index runs/index.csv runs/more/index.csv --cache folder
    python benchmarks/families.py pairs --index runs/index.csv --cache folder
    python benchmarks/families.py laboratory --families 120 --cache folder
    python benchmarks/families.py sbc --families 200 --cache folder
    python benchmarks/families.py time --cache folder
    python benchmarks/families.py keep --cache folder

Each part keeps what it has done in the cache, so that a second call goes on; `keep` writes the table that the README's
numbers come from.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chisquare

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.files import written_whole
from bayes_grpo.common.results import json_safe
from bayes_grpo.families.compare_runs import compare_runs
from bayes_grpo.families.members import SweepMember
from bayes_grpo.families.model import SweepData, sample_sweep, spread_of, sweep_data
from bayes_grpo.families.sweep import sweep
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.simulate.policies import contextual_bandit
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import simulate
from benchmarks.common import keep, say
from benchmarks.lab.learners.seeds import recipes_in, rows_in
from benchmarks.paper.family_cases import Case, case_of, draw_run, run_of, simulated_case, twelve_runs

VARIED = ("group_size", "learning_rate", "prompts_per_step", "model_size")
PARTS = ("known", "simulated", "shared", "pairs", "laboratory", "sbc", "time", "keep")
SEED = 11
RANKS = 99
"""Draws among which a true number is ranked."""


def cached(folder: Path, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a file of the cache holds, made where there is none."""
    path = folder / f"{name}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    found = make()
    found["seconds"] = time.perf_counter() - begin
    found["cpu_seconds"] = resource.getrusage(resource.RUSAGE_SELF).ru_utime - used
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(json_safe(found)) + "\n", encoding="utf-8")
    say(f"{name}: {found['seconds']:.0f} s")
    return json_safe(found)


def known(case: Case, number: int) -> dict[str, Any]:
    """A family of known exponents."""
    found = sweep(case.runs, case.vary, seed=number)
    effects = []
    for e in found.exponents:
        truth = case.exponents.get(f"{e.quantity} {e.setting}")
        if truth is None:
            continue
        effects.append(
            {
                "quantity": e.quantity,
                "setting": e.setting,
                "truth": truth,
                "low": e.posterior.low,
                "median": e.posterior.median,
                "high": e.posterior.high,
                "verdict": e.verdict,
                "contraction": e.contraction,
                "relative": e.relative,
            }
        )
    return {
        "runs": len(case.runs),
        "effects": effects,
        "converged": found.converged,
        "retried": found.convergence.retried,
    }


def moves(effect: Mapping[str, Any]) -> bool:
    """Whether an exponent is called one that moves, its direction known."""
    return effect["verdict"] == "moves" and (effect["low"] > 0.0 or effect["high"] < 0.0)


def known_summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Coverage, false claims, power and the error of the rates."""
    effects = [e for f in found for e in f["effects"]]
    by: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for e in effects:
        by[e["quantity"]].append(e)
        by[f"{e['quantity']} on {e['setting']}"].append(e)
    covered = {
        name: {"coverage": float(np.mean([e["low"] <= e["truth"] <= e["high"] for e in some])), "number": len(some)}
        for name, some in by.items()
    }
    group = [e for e in effects if e["setting"] == "group_size" and e["quantity"] in ("rate", "plateau")]
    out: dict[str, Any] = {
        "families": len(found),
        "converged": sum(f["converged"] for f in found),
        "coverage_all": float(np.mean([e["low"] <= e["truth"] <= e["high"] for e in effects])),
        "coverage": covered,
    }
    for name in ("rate", "plateau"):
        still = [e for e in group if e["quantity"] == name and e["truth"] == 0.0]
        moving = [e for e in group if e["quantity"] == name and abs(e["truth"]) == 0.2]
        out[f"{name}_on_group_size"] = {
            "still": len(still),
            "falsely_moves": float(np.mean([moves(e) for e in still])) if still else math.nan,
            "said_still": float(np.mean([e["verdict"] == "does not move" for e in still])) if still else math.nan,
            "moving": len(moving),
            "power": float(np.mean([moves(e) for e in moving])) if moving else math.nan,
            "excludes_zero": float(np.mean([e["low"] > 0 or e["high"] < 0 for e in moving])) if moving else math.nan,
        }
    return out


def shared_families(indices: Sequence[Path]) -> list[tuple[Path, str, tuple[str, ...]]]:
    """Index, family and settings that vary in it, of every family of at least three runs."""
    out = []
    for index in indices:
        with index.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        names: dict[str, list[dict[str, str]]] = defaultdict(list)
        for row in rows:
            for name in (x.strip() for x in row["family"].split(";")):
                names[name].append(row)
        for name, some in sorted(names.items()):
            if name and len(some) >= 3:
                out.append((index, name, tuple(v for v in VARIED if _varies(some, v))))
    return out


def _varies(rows: Sequence[Mapping[str, str]], setting: str) -> bool:
    """Whether a setting is known of all runs and differs."""
    try:
        return len({_number(row, setting) for row in rows}) > 1
    except ValueError:
        return False


def _number(row: Mapping[str, str], setting: str) -> float:
    return float(row.get({"model_size": "model_params_b"}.get(setting, setting)) or "")


def shared(index: Path, name: str, vary: tuple[str, ...]) -> dict[str, Any]:
    """One shared family: exponents, convergence and the sentence, or why it is none."""
    out: dict[str, Any] = {"family": name, "vary": list(vary)}
    if not vary:
        return out | {"error": "no setting of the index varies in it"}
    with index.open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if name in (x.strip() for x in r["family"].split(";"))]
    logs = [
        read_log(index.parent / "csv" / f"{r['run_id']}.csv", settings={v: _number(r, v) for v in vary}) for r in rows
    ]
    found, error = None, ""
    for signal in ("auto", "eval"):
        try:
            found = sweep(logs, vary, signal=signal)
            break
        except BayesGrpoError as problem:
            error = error or str(problem).replace(str(index.parent), "runs")
    if found is None:
        return out | {"error": error}
    kept = found.to_dict()
    effects = [
        {
            **{k: e[k] for k in ("quantity", "setting", "p_zero", "contraction", "verdict")},
            **{k: e["posterior"][k] for k in ("low", "median", "high")},
        }
        for e in kept["exponents"]
    ]
    return out | {
        "runs": len(found.runs),
        "converged": found.converged,
        "rhat": found.convergence.worst.rhat,
        "divergences": found.convergence.divergences,
        "sentence": found.sentence,
        "effects": effects,
    }


def pair(path: Path, other: Path) -> dict[str, Any]:
    """Two seeds of one recipe: which is better is not known."""
    found = compare_runs(path, other)
    return {"a": path.stem, "b": other.stem} | {
        x.at: {"p_better": x.p_better, "further": x.further} for x in found.answers
    }


def seed_pairs(indices: Sequence[Path]) -> list[tuple[Path, Path]]:
    """All pairs of seeds of one recipe."""
    recipes = recipes_in(rows_in(indices))
    return [(Path(a["path"]), Path(b["path"])) for some in recipes.values() for a, b in combinations(some, 2)]


def laboratory_pairs(number: int) -> dict[str, Any]:
    """Two recipes of simulated updates that differ in learning rate or penalty, one to three seeds of each.

    The truth is the mean reward of 24 seeds of each recipe, without the noise of completions.
    """
    rng = np.random.default_rng([SEED, 7, number])
    structure = Structure(n_steps=150, group_size=8, prompts_per_step=4, optimizer="ema")
    environment = contextual_bandit(rng, difficulty_mean=rng.uniform(0.2, 1.2), difficulty_sd=rng.uniform(1.0, 2.0))
    base = Numbers(learning_rate=float(np.exp(rng.uniform(-2.6, -1.4))), momentum=0.9, kl_weight=rng.uniform(0.2, 0.5))
    factor = np.exp(rng.choice([0.05, 0.2, 0.5]) * rng.standard_normal(2))
    other = base._replace(learning_rate=base.learning_rate * factor[0], kl_weight=base.kl_weight * factor[1])
    counts, sides, truth = rng.integers(1, 4, size=2), [], []
    for side, (numbers, count) in enumerate(zip((base, other), counts, strict=True)):
        batch = simulate(structure, numbers, environment, 1000 * number + 100 * side + np.arange(24))
        truth.append(float(np.mean(np.asarray(batch.true_reward)[:, -5:])))
        steps = np.arange(1.0, structure.n_steps + 1.0)
        sides.append([run_of(f"s{side}{i}", steps, np.asarray(batch.reward)[i]) for i in range(count)])
    found = compare_runs(*sides)
    x = found.answer("step")
    return {
        "counts": counts.tolist(),
        "p_better": x.p_better,
        "truth": truth[1] - truth[0],
        "covered": x.difference.low <= truth[1] - truth[0] <= x.difference.high,
        "verdict": x.verdict,
    }


def reliability(p: np.ndarray, happened: np.ndarray, bins: int = 10) -> tuple[list[dict[str, float]], float]:
    """Reliability table and expected calibration error, over equal bins of the probability."""
    rows, error = [], 0.0
    place = np.minimum((p * bins).astype(int), bins - 1)
    for i in range(bins):
        inside = place == i
        if inside.any():
            rows.append(
                {"said": float(p[inside].mean()), "seen": float(happened[inside].mean()), "n": int(inside.sum())}
            )
            error += inside.mean() * abs(rows[-1]["said"] - rows[-1]["seen"])
    return rows, float(error)


def sbc(number: int) -> dict[str, Any]:
    """Ranks of a family's true numbers among its posterior draws, the truth drawn from the priors; one chain."""
    rng = np.random.default_rng([SEED, 13, number])
    law, n, length = get_regime("exponential"), 4, 40
    sizes = (4.0, 8.0, 16.0, 8.0)
    # About noises of a twentieth of the reward; what the rows' own scale is, is not known to these priors.
    known = {
        "centre": np.array([math.log(8.0), math.log(0.05), math.log(0.04), 0.5, -1.0]),
        "width": np.array([0.7, 0.5, 0.5, 0.8, 0.8]),
        "origin": np.asarray(0.5),
        "unit": np.asarray(0.2),
    }

    def data_of(runs: Sequence[Run]) -> SweepData:
        members = [SweepMember(r, rows_of(r), {"model_size": g}) for r, g in zip(runs, sizes, strict=True)]
        return sweep_data(members, ["model_size"])._replace(**known)

    blank = data_of([run_of(f"r{i}", np.arange(1.0, length + 1.0), np.linspace(0, 1, length)) for i in range(n)])
    size = len(law.parameters)
    mean = blank.centre + blank.width * rng.standard_normal(size)
    slopes = blank.slope * rng.standard_normal((1, size))
    spread = spread_of(rng.standard_normal(size))
    traits = mean + blank.x @ slopes + spread * rng.standard_normal((n, size))
    runs = [draw_run(f"r{i}", length, (*np.exp(t[:3]), *(0.5 + 0.2 * t[3:])), rng) for i, t in enumerate(traits)]
    draws, convergence = sample_sweep(data_of(runs), number, chains=1)
    flat = {name: x.reshape(-1, *x.shape[2:]) for name, x in draws._asdict().items()}
    picks = np.linspace(0, len(flat["mean"]) - 1, RANKS).astype(int)
    return {
        "mean": (flat["mean"][picks] < mean).sum(axis=0).tolist(),
        "slope": (flat["slopes"][picks, 0] < slopes[0]).sum(axis=0).tolist(),
        "spread": (flat["spread"][picks] < spread).sum(axis=0).tolist(),
        "moved": (blank.slope[0] > 0).tolist(),
        "divergences": convergence.divergences,
    }


def sbc_summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How uniform the ranks are: χ² over ten bins of each number, and the coverage of 90% intervals."""
    out: dict[str, Any] = {"families": len(found), "divergences": sum(f["divergences"] for f in found)}
    names = [p.name for p in get_regime("exponential").parameters]
    rows, worst = {}, 1.0
    for kind in ("mean", "slope", "spread"):
        for q, name in enumerate(names):
            ranks = np.array([f[kind][q] for f in found if kind != "slope" or f["moved"][q]])
            if len(ranks):
                share = (ranks + 0.5) / (RANKS + 1.0)
                counts = np.histogram(share, bins=10, range=(0.0, 1.0))[0]
                p = float(chisquare(counts).pvalue)
                inside = float(np.mean((share > 0.05) & (share < 0.95)))
                rows[f"{kind} of {name}"] = {"p": p, "coverage": inside}
                worst = min(worst, p)
    return out | {"ranks": rows, "smallest_p": worst, "numbers": len(rows)}


def timed() -> dict[str, Any]:
    """A family of 12 runs of 200 rows, programs warm."""
    out: dict[str, Any] = {}
    for turn in ("cold", "warm"):
        case = twelve_runs()
        begin = time.perf_counter()
        found = sweep(case.runs, case.vary)
        out[turn] = time.perf_counter() - begin
        out["converged"] = found.converged
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--families", type=int, default=40)
    parser.add_argument("--index", type=Path, nargs="+", default=[])
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    if options.part == "known":
        for i in range(options.families):
            cached(options.cache / "known", f"{i:03d}", lambda i=i: known(case_of(i, SEED), i))
    elif options.part == "simulated":
        for i in range(options.families):
            cached(options.cache / "simulated", f"{i:03d}", lambda i=i: known(simulated_case(i, SEED), i))
    elif options.part == "shared":
        for index, name, vary in shared_families(options.index):
            file = "".join(c if c.isalnum() else "_" for c in f"{index.parent.name}_{name}")
            cached(options.cache / "shared", file, lambda a=(index, name, vary): shared(*a))
    elif options.part == "pairs":
        for a, b in seed_pairs(options.index):
            cached(options.cache / "pairs", f"{a.stem}_{b.stem}", lambda a=a, b=b: pair(a, b))
    elif options.part == "laboratory":
        for i in range(options.families):
            cached(options.cache / "laboratory", f"{i:03d}", lambda i=i: laboratory_pairs(i))
    elif options.part == "sbc":
        for i in range(options.families):
            cached(options.cache / "sbc", f"{i:03d}", lambda i=i: sbc(i))
    elif options.part == "time":
        cached(options.cache / "time", "time", timed)
    else:
        print(json.dumps(json_safe(kept(options.cache)), indent=1, ensure_ascii=False))


def kept(folder: Path) -> dict[str, Any]:
    """All parts of the cache as one result, written where the README's numbers come from."""

    def all_of(part: str) -> list[dict[str, Any]]:
        return [json.loads(p.read_text(encoding="utf-8")) for p in sorted((folder / part).glob("*.json"))]

    result: dict[str, Any] = {}
    if found := all_of("known"):
        result["known"] = known_summary(found)
    if found := all_of("simulated"):
        result["simulated"] = known_summary(found)
    if found := all_of("shared"):
        told = [f for f in found if "error" not in f]
        result["shared"] = {"families": len(told), "converged": sum(f["converged"] for f in told), "each": found}
    if found := all_of("pairs"):
        p = np.array([f["step"]["p_better"] for f in found])
        result["pairs"] = {"pairs": len(p), "undecided": float(np.mean((p >= 0.1) & (p <= 0.9))), "each": found}
    if found := all_of("laboratory"):
        p, truth = (np.array([f[k] for f in found]) for k in ("p_better", "truth"))
        rows, error = reliability(p, truth > 0)
        covered = float(np.mean([f["covered"] for f in found]))
        result["laboratory"] = {"pairs": len(p), "ece": error, "reliability": rows, "coverage": covered}
    if found := all_of("sbc"):
        result["sbc"] = sbc_summary(found)
    if found := all_of("time"):
        result["time"] = found[0]
    keep("families", result)
    return result


if __name__ == "__main__":
    main()
