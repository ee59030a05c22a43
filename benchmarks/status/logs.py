"""The logs of a folder of public runs, as its index lists them."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable
from pathlib import Path

Row = tuple[dict[str, str], Path]
"""A line of an index, and its folder."""


def indexed(folders: Iterable[Path], labels: Collection[str] | None = None) -> list[Row]:
    """The lines of the folders' index.csv.

    Args:
        folders: Each with index.csv and csv/.
        labels: Values of `outcome_label` that are taken; None for every line.
    """
    found = []
    for folder in folders:
        with (folder / "index.csv").open(encoding="utf-8") as file:
            found += [(row, folder) for row in csv.DictReader(file)]
    return [(row, folder) for row, folder in found if labels is None or row["outcome_label"] in labels]
