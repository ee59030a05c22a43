"""Public logs as an index lists them: index.csv (columns run_id, repo, …), and csv/RUN_ID.csv beside it."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run


def rows_in(indices: Iterable[Path], labels: Collection[str] | None = None) -> list[dict[str, str]]:
    """Rows of the indices, each with the path of its log.

    Args:
        indices: CSV files, or folders with an index.csv.
        labels: Values of `outcome_label` that are taken; None for every row.
    """
    out = []
    for given in indices:
        index = given / "index.csv" if given.is_dir() else given
        with index.open(encoding="utf-8", newline="") as file:
            out += [row | {"path": str(index.parent / "csv" / f"{row['run_id']}.csv")} for row in csv.DictReader(file)]
    return [row for row in out if labels is None or row["outcome_label"] in labels]


def repositories(indices: Iterable[Path]) -> dict[str, str]:
    """Run → its repository."""
    return {row["run_id"]: row["repo"] for row in rows_in(indices)}


def logs_in(indices: Iterable[Path]) -> Iterator[tuple[Run, dict[str, str]]]:
    """Runs that can be read, with their rows."""
    for row in rows_in(indices):
        try:
            yield read_log(row["path"]), row
        except (BayesGrpoError, OSError):
            continue
