"""Families of runs: exponents of known families, shared families, simulation-based calibration, time.

    python benchmarks/families.py known --families 40 --cache folder
    python benchmarks/families.py shared --index runs/index.csv runs/more/index.csv --cache folder
    python benchmarks/families.py sbc --families 200 --cache folder
    python benchmarks/families.py time
    python benchmarks/families.py keep --cache folder

Each part keeps what it has done in the cache, so that a second call goes on; `keep` writes the table that the README's
numbers come from.
"""

from __future__ import annotations

import json
import math
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.files import written_whole
from bayes_grpo.common.strict_json import json_safe
from bayes_grpo.families.family import family
from benchmarks.common import say
from benchmarks.family_cases import case_of

VARIED = ("group_size", "learning_rate", "prompts_per_step", "model_size")
SEED = 11


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


def known(number: int) -> dict[str, Any]:
    """A family of known exponents."""
    case = case_of(number, SEED)
    found = family(case.runs, case.vary, index=case.index, seed=number)
    effects = []
    for e in found.exponents:
        truth = case.exponents[f"{e.quantity} {e.setting}"]
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
    truth = np.log(case.rates)
    return {
        "runs": len(case.runs),
        "effects": effects,
        "converged": found.converged,
        "retried": found.convergence.retried,
        "nodes": found.nodes,
        "pooled_error": float(np.mean((np.log([r.rate.median for r in found.runs]) - truth) ** 2)),
        "single_error": float(np.mean((np.log([r.alone.median for r in found.runs]) - truth) ** 2)),
        "rate_covered": float(
            np.mean([r.rate.low <= t <= r.rate.high for r, t in zip(found.runs, case.rates, strict=True)])
        ),
    }


def known_summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Coverage, false claims, power and the gain of pooling."""
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
        "pooled_error": float(np.mean([f["pooled_error"] for f in found])),
        "single_error": float(np.mean([f["single_error"] for f in found])),
        "rate_covered": float(np.average([f["rate_covered"] for f in found], weights=[f["runs"] for f in found])),
    }
    for name in ("rate", "plateau"):
        still = [e for e in group if e["quantity"] == name and e["truth"] == 0.0]
        moving = [e for e in group if e["quantity"] == name and abs(e["truth"]) == 0.2]
        out[f"{name}_on_group_size"] = {
            "still": len(still),
            "falsely_moves": float(np.mean([e["verdict"] == "moves" for e in still])) if still else math.nan,
            "said_still": float(np.mean([e["verdict"] == "does not move" for e in still])) if still else math.nan,
            "moving": len(moving),
            "power": float(np.mean([e["verdict"] == "moves" for e in moving])) if moving else math.nan,
            "excludes_zero": float(np.mean([e["low"] > 0 or e["high"] < 0 for e in moving])) if moving else math.nan,
        }
    out["gain_of_pooling"] = out["single_error"] / out["pooled_error"]
    return out
