"""Decisions about the next learning rate in the deep laboratory: what `plan` recommends, beside simple rules.

    python -m benchmarks.lab_plans --lab runs --families 76 --first 25 --cache folder

Every family of `benchmarks.lab.learners.lab_siblings` has a ladder of learning rates, a run of its own seed on
each rung. Each run that held is taken for the one that somebody has; `plan` is asked for the others. What it takes is
the best of its candidates that the laboratory ran. The truth of a rung is that one run: the mean of its reward over
the last tenth, and whether it failed. "before" is what `plan` would have taken when it believed the reward's own
curvature (`plan_before`). Done decisions are kept in the cache, so that a second
call goes on.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.planning.outlook import base_of_run
from bayes_grpo.planning.plan import plan
from bayes_grpo.rows.reward_range import reward_range
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import keep
from benchmarks.families import cached
from benchmarks.lab.learners.failing_scores import calibration_error
from benchmarks.lab.learners.lab_siblings import (
    LAB_SEEDS,
    LADDER,
    MOMENTUM,
    LabSibling,
    lab_siblings,
    logged_run,
)
from benchmarks.plan_before import fails_before

RULES = ("plan", "plan where sure", "before", "keep", "next rung")
STABLE = 0.95
"""What was recommended before had to be stable with this probability."""


def decision(present: LabSibling, ladder: Sequence[LabSibling]) -> dict[str, Any]:
    """One decision: what the plan says of every rung, and what became of it."""
    own = present.sibling.settings
    rates = [x.sibling.settings["learning_rate"] for x in ladder]
    now, run = own["learning_rate"], logged_run(present)
    fixed: dict[str, Any] = {name: [own[name]] for name in ("group_size", "prompts_per_step", "refresh_interval")}
    told = plan(run, learning_rate=rates, **fixed)
    said = [(c, rates.index(r)) for c in told.candidates if (r := c.settings["learning_rate"]) in rates]
    table = rows_of(run, "reward")
    base = base_of_run(table, reward_range(table, dict(run.settings.items())), 7)
    before = [
        fails_before(base.rate, {"learning_rate": math.log(r / now)}, MOMENTUM, own["refresh_interval"]) for r in rates
    ]
    here = rates.index(now)
    chosen = said[0][1]
    then = max(said, key=lambda x: (1.0 - before[x[1]] >= STABLE, x[0].if_it_holds))[1]
    return {
        "rates": rates,
        "present": here,
        "verdict": told.verdict,
        "reward": [float(x.reward[-len(x.reward) // 10 :].mean()) for x in ladder],
        "failed": [bool(x.sibling.failed) for x in ladder],
        "rungs": {
            i: {
                "p_fails": c.p_fails,
                "before": before[i],
                "p_better": c.p_better,
                "low": c.next_run.low,
                "high": c.next_run.high,
            }
            for c, i in said
        },
        "chosen": {
            "plan": chosen,
            "plan where sure": chosen if told.verdict == "change" else here,
            "before": then,
            "keep": here,
            "next rung": min(here + 1, len(rates) - 1),
        },
    }


def summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Regret and failures of every rule, and how good what was told of the other rungs is."""
    out: dict[str, Any] = {"decisions": len(found)}
    best = np.array([max(f["reward"]) for f in found])
    for rule in RULES:
        places = [f["chosen"][rule] for f in found]
        regret = best - np.array([f["reward"][i] for f, i in zip(found, places, strict=True)])
        failed = np.array([f["failed"][i] for f, i in zip(found, places, strict=True)])
        out[rule] = {
            "regret": float(regret.mean()),
            "error": float(regret.std(ddof=1) / math.sqrt(len(found))),
            "failed": float(failed.mean()),
        }
    out["regret_of_keeping"] = out["plan"]["regret"] / out["keep"]["regret"]
    others = [
        (rung, f["failed"][int(i)], f["reward"][int(i)])
        for f in found
        for i, rung in f["rungs"].items()
        if int(i) != f["present"]
    ]
    for name, key in (("now", "p_fails"), ("before", "before")):
        rows = [{"p": rung[key], "failed": failed} for rung, failed, _ in others]
        p, y = np.array([r["p"] for r in rows]), np.array([r["failed"] for r in rows], float)
        out[f"fails_{name}"] = {
            "pairs": len(rows),
            "failed": int(y.sum()),
            "ece": calibration_error(rows),
            "brier": float(np.mean((p - y) ** 2)),
            "brier_base_rate": float(y.mean() * (1.0 - y.mean())),
            "of_failed": float(p[y > 0].mean()),
            "of_held": float(p[y == 0].mean()),
        }
    inside = [rung["low"] <= reward <= rung["high"] for rung, failed, reward in others if not failed]
    out["coverage"] = {"runs": len(inside), "one_run": float(np.mean(inside))}
    out["verdicts"] = {v: sum(f["verdict"] == v for f in found) for v in ("change", "keep", "cannot tell")}
    return out


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=Path, required=True)
    parser.add_argument("--families", type=int, default=12, help="of each seed, up to this number")
    parser.add_argument("--first", type=int, default=0, help="number of the first: those that taught P(fails) stay out")
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    found: dict[int, list[dict[str, Any]]] = {}
    for seed in LAB_SEEDS:
        groups: dict[str, list[LabSibling]] = {}
        for x in lab_siblings(options.lab, seed, range(options.first, options.families)):
            if int(x.sibling.name.rpartition("_")[2]) < len(LADDER):
                groups.setdefault(x.sibling.family, []).append(x)
        found[seed] = [
            cached(options.cache, present.sibling.name, lambda p=present, g=ladder: decision(p, g))
            for ladder in groups.values()
            for present in ladder
            if not present.sibling.failed and len(ladder) > 1
        ]
    every = [f for seed in LAB_SEEDS for f in found[seed]]
    result = summary(every) | {"by_seed": {str(seed): summary(found[seed]) for seed in LAB_SEEDS}}
    keep("lab_plans", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
