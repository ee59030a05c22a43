"""How often jumps are found that are there, and that are not.

    python -m benchmarks.calibration.changes [--runs 200] [--seed 0]

Smooth runs of 60 to 150 rows, flat, settling, sigmoid, swinging and with a slow fluctuation, are searched as they are,
and with a jump of four row deviations at a random row from 15 to 85% of the log.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from bayes_grpo.comparison.changes import find_changes
from benchmarks.common import keep

NOISE, HEIGHT = 0.03, 4.0
"""Deviation of a row, and height of a jump in such deviations."""
KINDS = ("flat", "settling", "sigmoid", "swinging", "fluctuating")


def smooth_run(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Steps and rewards of a run without a change."""
    n, kind = int(rng.choice([60, 100, 150])), str(rng.choice(KINDS))
    step, height = np.arange(1.0, n + 1.0), NOISE * rng.uniform(2.0, 15.0)
    if kind == "flat":
        curve = np.zeros(n)
    elif kind == "settling":
        curve = height * (1.0 - np.exp(-step / (n * np.exp(rng.uniform(np.log(0.08), 0.0)))))
    elif kind == "sigmoid":
        curve = height / (1.0 + np.exp(-(step - n * rng.uniform(0.2, 0.8)) / (n * rng.uniform(0.07, 0.25))))
    elif kind == "swinging":
        curve = height * (1.0 - np.exp(-step / (0.25 * n)) * np.cos(step / (n * rng.uniform(0.08, 0.2))))
    else:
        kept, sd = np.exp(-1.0 / rng.uniform(3.0, 15.0)), NOISE * rng.uniform(0.3, 1.0)
        curve, drift = height * (1.0 - np.exp(-step / (0.4 * n))), 0.0
        for i in range(1, n):
            drift = kept * drift + np.sqrt(1.0 - kept**2) * sd * rng.standard_normal()
            curve[i] += drift
    return step, curve + NOISE * rng.standard_normal(n)


def measured(runs: int, seed: int) -> dict[str, Any]:
    """Share of smooth runs in which a change is found, and of jumps that are found at their row."""
    rng, false, hits = np.random.default_rng(seed), 0, 0
    for _ in range(runs):
        step, y = smooth_run(rng)
        false += any(x.clear for x in find_changes(step, y))
        at = int(rng.integers(round(0.15 * len(y)), round(0.85 * len(y))))
        jumped = y + HEIGHT * NOISE * rng.choice([-1.0, 1.0]) * (np.arange(len(y)) >= at)
        found = [x for x in find_changes(step, jumped) if x.kind == "jump" and x.clear]
        hits += any(x.after <= step[at] and x.until >= step[at - 1] for x in found)
    return {"runs": runs, "false": false / runs, "found": hits / runs, "height": HEIGHT}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    result = measured(options.runs, options.seed)
    print(f"{result['runs']} smooth runs: a change is found falsely in {result['false']:.1%}; jumps of {HEIGHT:g} row "
          f"deviations are found in {result['found']:.1%}")  # fmt: skip
    keep("changes", result)


if __name__ == "__main__":
    main()
