"""Noise of a row where too few rows show it: over the range of the first rows, and over the spread of single rewards.

    python -m benchmarks.calibration.few_rows FOLDER ... [--keep]

Each folder holds ``index.csv`` (columns ``run_id``, ``repo``) and ``csv/RUN.csv``. The standard deviation of a row is
that of the path of the whole log; logs of fewer rows than `LEAST` are left out. Means and spreads are over
repositories, each of which counts once.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.logs.run import Run
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.run_paths import RunPaths
from benchmarks.common import keep
from benchmarks.index import logs_in

LEAST = 40
EVERY = (1, 4, 10)
"""Logs are thinned to every so many rows, as logs of few rows with many steps between them are."""
FIRST_ROWS = (3, 4, 5, 6, 8, 10, 15, 20, 30, 40)
LEAST_SPREAD = 0.01
"""Of the range of the reward; a smaller spread of single rewards is that of a policy that always does the same."""


class Ratio(NamedTuple):
    """Logarithm of a row's standard deviation over something else.

    Attributes:
        repo: Repository of the log.
        rows: Number of first rows over whose range; 0 for the spread of single rewards.
        every: Every how many rows were taken.
        gap: Steps between two of them.
        value: The logarithm.
    """

    repo: str
    rows: int
    every: int
    gap: float
    value: float


def ratios_of(run: Run, path: SignalPath, repo: str) -> Iterator[Ratio]:
    """Ratios of one log."""
    for every in EVERY:
        value = path.logged.value[::every]
        step = path.logged.step[::every]
        for rows in FIRST_ROWS:
            spanned = float(np.ptp(value[:rows]))
            if spanned > 0.0 and len(value) >= rows:
                gap = float(step[rows - 1] - step[0]) / (rows - 1)
                yield Ratio(repo, rows, every, gap, float(np.log(path.noise / spanned)))
    deviation = run.values("reward_std")
    deviation = deviation[np.isfinite(deviation) & (deviation > 0.0)]
    spread = float(np.sqrt(np.mean(deviation**2))) if len(deviation) else 0.0
    if spread > LEAST_SPREAD * path.span:
        yield Ratio(repo, 0, 1, 0.0, float(np.log(path.noise / spread)))


def over_repositories(ratios: list[Ratio]) -> dict[str, float]:
    """Mean and standard deviation over repositories of the mean of each, their number, and the mean as a ratio."""
    by_repo = defaultdict(list)
    for ratio in ratios:
        by_repo[ratio.repo].append(ratio.value)
    means = [float(np.mean(values)) for values in by_repo.values()]
    mean = float(np.mean(means))
    return {
        "mean": mean,
        "ratio": float(np.exp(mean)),
        "sd": float(np.std(means, ddof=1)),
        "repositories": len(means),
    }


def measured(folders: list[Path]) -> dict[str, Any]:
    """All ratios over repositories, and the plane through those of the first rows."""
    found: list[Ratio] = []
    for run, row in logs_in(folders):
        paths = RunPaths.of(run)
        if paths is None or paths.uses_eval:
            continue
        path = paths.reward
        if path.logged.rows < LEAST or path.logged.constant:
            continue
        found.extend(ratios_of(run, path, row["repo"]))
    ranges = [ratio for ratio in found if ratio.rows]
    table = {str(n): over_repositories([r for r in ranges if r.rows == n and r.every == 1]) for n in FIRST_ROWS}
    table["spread"] = over_repositories([ratio for ratio in found if not ratio.rows])
    return {"table": table} | plane(ranges)


def plane(ratios: list[Ratio]) -> dict[str, float]:
    """Least squares of the ratio on the logarithms of rows and gap, each repository with the same weight."""
    count = Counter(ratio.repo for ratio in ratios)
    root = np.sqrt([1.0 / count[ratio.repo] for ratio in ratios])
    columns = np.array([[1.0, -np.log(ratio.rows), -np.log(max(ratio.gap, 1.0))] for ratio in ratios])
    value = np.array([ratio.value for ratio in ratios])
    first, by_rows, by_gap = np.linalg.lstsq(columns * root[:, None], value * root, rcond=None)[0]
    return {"first": float(first), "by_rows": float(by_rows), "by_gap": float(by_gap)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    result = measured(options.folder)
    print(f"{'over':>8s} {'mean log':>8s} {'sd':>5s} repositories")
    for name, row in result["table"].items():
        print(f"{name:>8s} {row['mean']:8.2f} {row['sd']:5.2f} {row['repositories']:12d}")
    numbers = (result["first"], result["by_rows"], result["by_gap"])
    print(
        "over the range of the first n rows with g steps between: {:.2f} - {:.2f} log n - {:.2f} log g".format(*numbers)
    )
    if options.keep:
        keep("few_rows", result)


if __name__ == "__main__":
    main()
