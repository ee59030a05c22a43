"""A plain table: CSV, also gzip, Parquet or JSON lines with a column for the step and one for the reward.

Further columns: prompt_id, group, policy_version, truncated under usual names. Numbers of samples, lengths and
advantages are left out; all other numbers are parts of the reward, or what was measured with it.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import MENDING, Argument, LogReadError
from bayes_grpo.common.text import clean, listed
from bayes_grpo.rollouts.completions import (
    COLUMN_KINDS,
    UNKNOWN,
    CompletionBatch,
    TableColumns,
    hash_of,
    question_of,
    was_cut,
)
from bayes_grpo.rollouts.files import RolloutFile, RolloutPath, SkippedRecords, json_lines, parquet_batches, unpacked

if TYPE_CHECKING:
    import pandas as pd

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "step": ("step", "training_step", "train_step", "global_step", "iteration", "rollout_step"),
    "reward": ("reward", "total_reward", "score", "rewards", "reward_total"),
    "prompt": (
        "prompt_id", "prompt_hash", "question_id", "problem_id", "example_id", "task_id", "prompt_idx", "prompt",
        "input_prompt",
    ),
    "group": ("group", "group_id", "group_idx", "group_index", "uid"),
    "version": ("policy_version", "weight_version", "version", "sampling_client_step"),
    "truncated": ("truncated", "is_truncated", "clipped", "finish_reason", "stop_reason"),
    "answer": ("answer", "completion", "response", "output", "output_response"),
    "length": (
        "completion_tokens", "response_length", "n_tokens", "completion_length", "length", "clen_chars", "clen_tokens",
    ),
}  # fmt: skip
"""Column of a block → names under which tables have it, the first that is there."""
_ROWS = 100_000
_LINES = 4_096
_NOT_PARTS = frozenset((
    "advantage", "advantages", "index", "idx", "seed", "__index_level_0__", "unnamed: 0", "sample", "sample_idx",
    "sample_id", "traj_idx", "trajectory_index",
))  # fmt: skip
"""Numbers that are no parts of the reward: of samples, advantages."""


class PlainTable:
    """The format of a table that anyone may have made."""

    name = "plain_table"
    drops_constant = False

    def sniff(self, place: RolloutPath) -> list[RolloutFile]:
        """The file that is given, or the only one of a folder, where its name is that of a table."""
        found = place.named(r"[^/]+\.(?:csv|csv\.gz|tsv|parquet|jsonl|jsonl\.gz)")
        return [RolloutFile(path) for path, _ in found if len(place.files) == 1]

    def read(self, file: RolloutFile, options: TableColumns, damage: SkippedRecords) -> Iterator[CompletionBatch]:
        """Completions of a table, in pieces; an error where it has no column of rewards, or not the one named."""
        columns: dict[str, str] = {}
        for table in _pieces(file.path, damage):
            if not columns:
                names = [str(x) for x in table.columns]
                columns = _meanings_of(names, options.columns, file.path)
                if "reward" not in columns:
                    raise LogReadError(
                        f"{file.path}: expected a column of rewards ({', '.join(USUAL_NAMES['reward'])}), found "
                        f"{listed(names, 20)}; name it with {MENDING}",
                        mended_by=Argument("columns", "NAME", "reward"),
                    )
            if missing := set(columns.values()) - set(table):  # records of JSON lines need not have all keys
                table = table.assign(**{str(name): np.nan for name in missing})
            yield _batch_of(table, columns)


def _csv_pieces(path: Path, damage: SkippedRecords) -> Iterator[pd.DataFrame]:
    import pandas as pd

    with unpacked(path) as file:
        try:
            with pd.read_csv(file, chunksize=_ROWS, on_bad_lines="skip", encoding_errors="replace") as reader:
                yield from reader
        except pd.errors.EmptyDataError:
            raise LogReadError(f"{path}: expected a table with a header line, found nothing; check the file") from None
        except (pd.errors.ParserError, csv.Error, EOFError, zlib.error, OSError, ValueError):
            damage.cut += 1


def _pieces(path: Path, damage: SkippedRecords) -> Iterator[pd.DataFrame]:
    import pandas as pd

    name = path.name.lower()
    if ".csv" in name or name.endswith(".tsv"):
        yield from _csv_pieces(path, damage)
    elif name.endswith(".parquet"):
        for batch in parquet_batches(path, damage):
            yield batch.to_pandas()
    else:
        lines = json_lines(path, damage)
        while some := list(islice(lines, _LINES)):
            yield pd.DataFrame.from_records(
                [{k: v for k, v in r.items() if not isinstance(v, list | dict)} for r in some]
            )


def _meanings_of(names: list[str], given: Mapping[str, str], path: Path) -> dict[str, str]:
    """Column of a batch → name in the table; a given one that is not there is an error."""
    missing = [x for x in given.values() if x not in names]
    if missing:
        raise LogReadError(
            f"{path}: expected a column {clean(missing[0])!r}, found {listed(names, 20)}; correct its name"
        )
    lower = {name.strip().lower(): name for name in reversed(names)}
    found = {ours: next((lower[x] for x in theirs if x in lower), "") for ours, theirs in USUAL_NAMES.items()}
    return {ours: name for ours, name in found.items() if name} | dict(given)


def _batch_of(table: pd.DataFrame, columns: Mapping[str, str]) -> CompletionBatch:
    """A piece of a table; numeric columns without a meaning of their own are parts."""
    import pandas as pd

    out: dict[str, np.ndarray] = {}
    for name, kind in COLUMN_KINDS.items():
        if name not in columns:
            none = {"step": 0, "prompt": 0, "group": 0, "answer": 0, "length": np.nan}
            out[name] = np.full(len(table), none.get(name, UNKNOWN), kind)
            continue
        values = table[columns[name]]
        if kind is np.uint64:
            out[name] = _hashed(values.to_numpy(), question_of if name == "prompt" else str)
        elif name == "truncated":
            place, reasons = pd.factorize(values)
            out[name] = np.array([UNKNOWN, *(was_cut(reason) for reason in reasons.tolist())])[place + 1]
        else:
            numbers = np.asarray(pd.to_numeric(values, errors="coerce"), np.float64)
            known = np.isfinite(numbers) & (np.abs(numbers) < 2**31)
            out[name] = numbers if kind in (np.float64, np.float32) else np.where(known, numbers, UNKNOWN)
    others = {*_NOT_PARTS, *(name for theirs in USUAL_NAMES.values() for name in theirs)}
    parts = {
        str(name): table[name].to_numpy(np.float64)
        for name in table
        if name not in columns.values()
        and str(name).strip().lower() not in others
        and pd.api.types.is_numeric_dtype(table[name])
    }
    return CompletionBatch(out, parts)


def _hashed(values: np.ndarray, text_of: Callable[[Any], str]) -> np.ndarray:
    import pandas as pd

    places, labels = pd.factorize(values, use_na_sentinel=True)
    names = (str(int(x)) if isinstance(x, float) and x.is_integer() else x for x in labels.tolist())
    return np.array([0, *(hash_of(text_of(x)) for x in names)], np.uint64)[places + 1]
