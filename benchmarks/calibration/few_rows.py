"""Noise of a row where too few rows show it: over the range of the first rows, and over the spread of single rewards.

    python -m benchmarks.calibration.few_rows FOLDER ... [--keep]

Each folder holds ``index.csv`` (columns ``run_id``, ``repo``) and ``csv/RUN.csv``. The standard deviation of a row is
that of the path of the whole log; logs of fewer rows than `LEAST` are left out. Means and spreads are over
repositories, each of which counts once.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo import read_log
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.logs.run import Run
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.run_paths import RunPaths
from benchmarks.common import keep

LEAST = 40
FIRST_ROWS = (3, 4, 5, 6, 8, 10, 15, 20, 30, 40)
LEAST_SPREAD = 0.01
"""Of the range of the reward; a smaller spread of single rewards is that of a policy that always does the same."""


class Ratio(NamedTuple):
    """Logarithm of a row's standard deviation over something else.

    Attributes:
        repo: Repository of the log.
        name: The something else: "spread", or the range of so many first rows.
        value: The logarithm.
    """

    repo: str
    name: str | int
    value: float


def logs_of(folder: Path) -> Iterator[tuple[Run, str]]:
    """Runs of a folder with their repositories."""
    with (folder / "index.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            try:
                yield read_log(folder / "csv" / f"{row['run_id']}.csv"), row["repo"]
            except (BayesGrpoError, FileNotFoundError):
                continue


def ratios_of(run: Run, path: SignalPath, repo: str) -> Iterator[Ratio]:
    """Ratios of one log."""
    value = path.logged.value
    for rows in FIRST_ROWS:
        spanned = float(np.ptp(value[:rows]))
        if spanned > 0.0:
            yield Ratio(repo, rows, float(np.log(path.noise / spanned)))
    deviation = run.values("reward_std")
    deviation = deviation[np.isfinite(deviation) & (deviation > 0.0)]
    spread = float(np.sqrt(np.mean(deviation**2))) if len(deviation) else 0.0
    if spread > LEAST_SPREAD * path.span:
        yield Ratio(repo, "spread", float(np.log(path.noise / spread)))


def over_repositories(ratios: list[Ratio]) -> dict[str, float]:
    """Mean and standard deviation over repositories of the mean of each, and their number."""
    by_repo = defaultdict(list)
    for ratio in ratios:
        by_repo[ratio.repo].append(ratio.value)
    means = [float(np.mean(values)) for values in by_repo.values()]
    return {"mean": float(np.mean(means)), "sd": float(np.std(means, ddof=1)), "repositories": len(means)}


def measured(folders: list[Path]) -> dict[str, Any]:
    """All ratios over repositories, and the line through those of the first rows."""
    found: dict[str | int, list[Ratio]] = defaultdict(list)
    for folder in folders:
        for run, repo in logs_of(folder):
            paths = RunPaths.of(run)
            if paths is None or paths.uses_eval:
                continue
            path = paths.reward
            if path.logged.rows < LEAST or path.logged.constant:
                continue
            for ratio in ratios_of(run, path, repo):
                found[ratio.name].append(ratio)
    table = {str(name): over_repositories(ratios) for name, ratios in found.items()}
    by_rows, first = np.polyfit(np.log(FIRST_ROWS), [table[str(n)]["mean"] for n in FIRST_ROWS], 1)
    return {"table": table, "first": float(first), "by_rows": float(-by_rows)}


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
    print(f"over the range of the first n rows: {result['first']:.2f} - {result['by_rows']:.2f} log n")
    if options.keep:
        keep("few_rows", result)


if __name__ == "__main__":
    main()
