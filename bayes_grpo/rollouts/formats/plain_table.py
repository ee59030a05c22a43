"""A plain table: CSV, also gzip, Parquet or JSON lines with a column for the step and one for the reward.

Further columns: prompt_id, group, sample, policy_version, length, truncated under usual names; all other numbers are
parts of the reward, or what was measured beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import listed
from bayes_grpo.rollouts.batches import USUAL_NAMES, block_of, csv_batches, meanings_of, parquet_batches, parquet_file
from bayes_grpo.rollouts.columns import CompletionBatch
from bayes_grpo.rollouts.lines import LeftOut, json_lines
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "plain_table"
_ROWS = 4_096


def sniff(place: Place) -> list[RolloutFile]:
    """Tables with a step and a reward, and with what tells prompts or samples apart."""
    found = place.named(r"[^/]+\.(?:csv|csv\.gz|tsv|parquet|jsonl|jsonl\.gz)")
    if place.root.is_file():
        return [RolloutFile(path, None, "train") for path, _ in found]
    return [RolloutFile(path, None, place.split(path)) for path, _ in found if _fits(path, place)]


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[CompletionBatch]:
    """Pieces of the table.

    Raises:
        LogReadError: It has no column of rewards, or not the one asked for.
    """
    columns: dict[str, str] = {}
    for table in _pieces(part.path, damage):
        if not columns:
            names = [str(x) for x in table.columns]
            columns = meanings_of(names, asked.columns, part.path)
            if "reward" not in columns:
                raise LogReadError(
                    f"{part.path}: expected a column of rewards "
                    f"({', '.join(USUAL_NAMES['reward'])}), found {listed(names, 20)}; "
                    f"name it with --column reward=NAME"
                )
        if missing := set(columns.values()) - set(table):  # records of JSON lines need not have all keys
            table = table.assign(**{str(name): np.nan for name in missing})
        yield block_of(table, columns)


def _pieces(path: Path, damage: LeftOut) -> Iterator:
    import pandas as pd

    name = path.name.lower()
    if ".csv" in name or name.endswith(".tsv"):
        yield from csv_batches(path, damage)
    elif name.endswith(".parquet"):
        for batch in parquet_batches(path, damage):
            yield batch.to_pandas()
    else:
        lines = json_lines(path, damage)
        while some := list(islice(lines, _ROWS)):
            yield pd.DataFrame.from_records(
                [{k: v for k, v in r.items() if not isinstance(v, list | dict)} for r in some]
            )


def _fits(path: Path, place: Place) -> bool:
    """Whether a table's columns are those of completions: other tables lie beside them."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        names = list(parquet_file(path).schema_arrow.names)
    elif ".jsonl" in name:
        names = list(place.keys(path))
    else:
        first = next(csv_batches(path, LeftOut()), None) if path.stat().st_size < 2**16 else _header(path)
        names = [] if first is None else [str(x) for x in first]
    found = meanings_of(names, {}, path)
    return {"step", "reward"} <= set(found) and bool({"prompt", "group", "sample"} & set(found))


def _header(path: Path) -> list[str]:
    from bayes_grpo.rollouts.lines import unpacked

    with unpacked(path) as file:
        return [x.strip().strip('"') for x in file.readline(2**16).decode("utf-8", "replace").split(",")]
