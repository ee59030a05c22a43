"""Labelled real logs: an index.csv with a folder csv beside it, with label and repository."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run

CLASSES = ("healthy", "plateaued", *MODES)
"""Labels of a run."""


class LabelledLog(NamedTuple):
    """A real log with its label.

    Attributes:
        name: Its name in the index.
        repository: Where it comes from; logs of one author depend on each other.
        label: One of `CLASSES`.
        in_words: Whether the label rests on more than a reader's look at the curve: the authors' words, or counts.
        run: The run.
        group_size: Completions of a prompt by the index, None where it names none.
    """

    name: str
    repository: str
    label: str
    in_words: bool
    run: Run
    group_size: int | None


def labelled_logs(indices: Sequence[Path]) -> list[LabelledLog]:
    """Logs of indices (columns run_id, repo, outcome_label, label_evidence) that have a label and can be read."""
    rows, runs = [], []
    for index in indices:
        with index.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["outcome_label"] not in CLASSES:
                    continue
                try:
                    runs.append(read_log(index.parent / "csv" / f"{row['run_id']}.csv"))
                except BayesGrpoError as error:
                    print(f"{row['run_id']}: {error}")
                    continue
                rows.append(row)
    return [
        LabelledLog(
            row["run_id"],
            row["repo"],
            row["outcome_label"],
            not row["label_evidence"].startswith(("from curve", "curve only")),
            run,
            group_size(row.get("group_size", "")),
        )
        for row, run in zip(rows, runs, strict=True)
    ]


def group_size(text: str) -> int | None:
    """The number at the start of an index's entry, e.g. of "4 (README says 16)"; None without one."""
    found = re.match(r"\d+", text)
    return None if found is None else int(found[0])
