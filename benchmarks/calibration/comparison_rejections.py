"""How often does a comparison reject the regime that made a log?

    python -m benchmarks.calibration.comparison_rejections [--runs 8] [--rows 100] [--out RESULTS.jsonl]

Logs are those of `benchmarks.calibration.comparison`, shorter: drawn from each regime's own state space with the noise
and the gains of real logs. Counted by leave-one-out and by the rows ahead: verdicts "worse" of the true regime, and
its probabilities of being worse that reach 95%. Those of the rows ahead are counted by Student's t distribution over
the blocks, as reported, and by a normal distribution. With --out finished logs are kept, and not run again.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

from scipy.stats import beta, norm

from bayes_grpo import compare
from bayes_grpo.common.errors import BayesGrpoWarning
from benchmarks.calibration.comparison import LAWS, SURE, run_all, simulated_run
from benchmarks.common import keep


def one(task: tuple[str, int, int]) -> dict[str, Any]:
    """The true regime's line of the table."""
    warnings.simplefilter("ignore", BayesGrpoWarning)
    name, index, rows = task
    found = compare(simulated_run(name, index, rows), LAWS)
    line = found.line(name)
    return {
        "key": f"{name}-{index}-{rows}",
        "difference": line.difference,
        "p_worse": line.p_worse,
        "verdict": line.verdict,
        "ahead": line.lfo_difference,
        "ahead_se": line.lfo_difference_se,
        "p_worse_ahead": line.p_worse_ahead,
        "verdict_ahead": line.verdict_ahead,
        "sentence": found.sentence,
    }


def totals(lines: list[dict[str, Any]], rows: int) -> dict[str, Any]:
    """Counts over the logs. Probabilities of a regime that is best are NaN, and compare as false."""
    count = len(lines)
    by_normal = [norm.cdf(-x["ahead"] / max(x["ahead_se"], 1e-12)) for x in lines if x["ahead"] < 0.0]
    rejected = sum("worse" in (x["verdict"], x["verdict_ahead"]) for x in lines)
    return {
        "logs": count,
        "rows": rows,
        "regimes": len(LAWS),
        "best": sum(x["verdict"] == "best" for x in lines),
        "best_ahead": sum(x["verdict_ahead"] == "best" for x in lines),
        "sure": sum(x["p_worse"] >= SURE for x in lines),
        "sure_ahead": sum(x["p_worse_ahead"] >= SURE for x in lines),
        "sure_ahead_by_normal": sum(p >= SURE for p in by_normal),
        "rejected": rejected,
        "rejected_share": rejected / count,
        "rejected_share_upper": float(beta.ppf(0.95, rejected + 1, count - rejected)),
    }


def main() -> None:
    """Runs the logs and keeps the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tasks = {f"{name}-{i}-{options.rows}": (name, i, options.rows) for i in range(options.runs) for name in LAWS}
    found = totals(run_all(one, tasks, options.out, jobs=1), options.rows)
    print(found)
    keep("comparison_rejections", found)


if __name__ == "__main__":
    main()
