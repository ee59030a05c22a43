"""P(fails) of public pairs by the curvature that the reward shows, as `plan` had it before it learned from others.

    python benchmarks/plan_before.py --index runs/index.csv runs/more/index.csv --cache folder

Until then a candidate was stable where the gain g = (1 − μ)·rate' of its learning curve lies below the exact threshold
of a held policy, rate' the present run's response rate under exponents that theory expects. The pairs and what is told
of them now are those that `benchmarks.lab.learners.failing` left in the same folder; a run without a log is left
out on both sides.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.dynamics.thresholds import critical_gain
from bayes_grpo.logs import read_log
from benchmarks.common import keep
from benchmarks.lab.learners.failing_scores import both_scores
from benchmarks.lab.learners.sibling_ends import read_signal

EXPONENTS = {"learning_rate": (1.0, 0.3), "refresh_interval": (0.0, 0.1), "group_size": (0.2, 0.2)}
"""Centre and sd of the rate's exponents then; those of the prompts were the group size's."""
LEAST = 0.001
"""Told probabilities are kept this far from 0 and 1, where it told none between, so that its log score is finite."""


def fails_before(
    rate: np.ndarray, log_ratio: dict[str, float], momentum: float, refresh: float, seed: int = 0
) -> float:
    """P(fails) as it was told then.

    Args:
        rate: Draws of the present run's response rate at its highest learning rate, 1/step; 0 without a trend.
        log_ratio: Logarithm of the new over the old value of planned settings.
        momentum: Momentum.
        refresh: Refresh interval of the run to come, steps.
        seed: Seed.
    """
    rng = np.random.default_rng(seed)
    moved = rate.copy()
    for name, x in log_ratio.items():
        centre, sd = EXPONENTS["group_size" if name == "prompts_per_step" else name]
        moved *= np.exp((centre + sd * rng.standard_normal(len(rate))) * x)
    threshold = critical_gain(momentum, math.ceil(refresh), "hold", 1.0)
    return float(np.mean((1.0 - momentum) * moved >= threshold))


def told_before(rows: Sequence[dict[str, Any]], paths: dict[str, Path], cache: Path) -> list[dict[str, Any]]:
    """The pairs of runs with a log, with what was told then in place of what is told now."""
    out, known = [], {}
    names = ("learning_rate", "refresh_interval", "epochs", "group_size", "prompts_per_step")
    for row in rows:
        name = row["from"]
        if name not in known:
            found = read_signal(lambda n=name: read_log(paths[n]), f"{name}.auto", cache) if name in paths else None
            settings = read_log(paths[name]).settings if found is not None else None
            known[name] = None if found is None or settings is None else (found.base.rate, settings)
        if known[name] is None:
            continue
        rate, settings = known[name]
        ratio = {k: x for k, x in zip(names, row["change"], strict=False) if x and k != "epochs"}
        held = float(settings.refresh_interval.value or 1.0) * math.exp(ratio.get("refresh_interval", 0.0))
        p = fails_before(rate, ratio, float(settings.momentum.value or 0.9), max(held, 1.0))
        out.append(row | {"p_now": row["p"], "p": min(max(p, LEAST), 1.0 - LEAST)})
    return out


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    paths = {p.stem: p for index in options.index for p in sorted((index.parent / "csv").glob("*.csv"))}
    rows = told_before(json.loads((options.cache / "pairs.json").read_text()), paths, options.cache)
    before, now = both_scores(rows), both_scores([row | {"p": row["p_now"]} for row in rows])
    keep("plan_before", {"before": before, "now": now})
    print(json.dumps({"before": before, "now": now}, indent=1))


if __name__ == "__main__":
    main()
