"""Which runs do the default priors make of shares of successes, and what does their range change in a posterior?

    python -m benchmarks.calibration.prior_runs FOLDER ... [--every 2] [--out RESULTS.jsonl]

For each public log whose rows all lie in [0, 1], at most `MOST` of them: the share of runs drawn from the default
priors of the oscillator that stay in [-0.1, 1.1], and the same with levels by the scale of the rows alone; and how far
the posterior's medians move from those priors to the default ones, in posterior standard deviations of the former.
With --out finished logs are kept, and not run again.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo import read_log
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.fitting.draws import fast_posterior
from bayes_grpo.fitting.fit import prior_side
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.fitting.window import rows_to_fit
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.padding import shared
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series, is_share
from benchmarks.calibration.comparison import run_all
from benchmarks.common import keep

REGIME = get_regime("oscillator")
LOW, HIGH = -0.1, 1.1
LEAST, MOST = 12, 260
"""Rows of a log."""
INTERVAL = 3.29
"""Width of a normal's 90% interval, in standard deviations."""
QUANTITIES = ("fixed_point", "initial_reward", "stiffness", "damping", "half_gain_step", "observation_sd")
LEVELS: tuple[str, ...] = QUANTITIES[:2]


def one(path: str) -> dict[str, Any]:
    """Both priors on a log; without numbers where its rows are no shares."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {"key": Path(path).stem}
    try:
        run, _ = rows_to_fit(read_log(path), "since_break", "auto")
        table = rows_of(run)
    except BayesGrpoError as error:
        return found | {"error": str(error)}
    if not is_share(table.y) or not LEAST <= len(table.y) <= MOST:
        return found | {"error": "no share of successes, or too few or too many rows"}
    scale: dict[str, Any] = dict.fromkeys(LEVELS, (table.centre, 3.0 * table.scale))
    before, after = posterior(table, scale), posterior(table, None)
    shifts = {}
    for name in QUANTITIES:
        low, middle, high = np.nanquantile(before[name], [0.05, 0.5, 0.95])
        shifts[name] = float((np.nanmedian(after[name]) - middle) / ((high - low) / INTERVAL))
    low, high = (np.subtract(*np.quantile(x["fixed_point"], [0.95, 0.05])) for x in (before, after))
    return found | {
        "inside": {"by scale": inside(table, scale), "default": inside(table, None)},
        "shifts": shifts,
        "width": float(high / low),
    }


def inside(table: Series, priors: dict[str, Any] | None) -> float:
    """Share of the prior runs that stay in the range."""
    rows = prior_side(target_of(REGIME, table, priors), 0)[1]
    return float(np.mean((rows.min(axis=1) >= LOW) & (rows.max(axis=1) <= HIGH)))


def posterior(table: Series, priors: dict[str, Any] | None) -> dict[str, np.ndarray]:
    """Draws of the quantities, positive ones as logarithms, shape (draws,) each."""
    target = target_of(REGIME, table, priors, arrays=shared(table))
    draws = fast_posterior(target, seed=0, fallback=False).sample_marginalized(0)
    values = {name: np.asarray(x).ravel() for name, x in draws.values.items()}
    values |= REGIME.derived(values, table)
    return {name: values[name] if name in LEVELS else np.log(np.maximum(values[name], 1e-12)) for name in QUANTITIES}


def totals(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Means and quantiles over the logs."""
    used = [x for x in lines if "inside" in x]

    def sizes(name: str) -> dict[str, float]:
        return dict(
            zip(("median", "90%"), np.quantile([abs(x["shifts"][name]) for x in used], [0.5, 0.9]), strict=True)
        )

    return {
        "logs": len(used),
        "inside": {kind: float(np.mean([x["inside"][kind] for x in used])) for kind in ("by scale", "default")},
        "shift": {name: sizes(name) for name in QUANTITIES},
        "width of the fixed point": float(np.median([x["width"] for x in used])),
    }


def main() -> None:
    """Runs the logs and keeps the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--every", type=int, default=2, help="one log in so many")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    paths = [p for folder in options.folder for p in sorted(folder.glob("*.csv"))[:: options.every]]
    found = totals(run_all(one, {p.stem: str(p) for p in paths}, options.out, jobs=1))
    print(found)
    keep("prior_runs", found)


if __name__ == "__main__":
    main()
