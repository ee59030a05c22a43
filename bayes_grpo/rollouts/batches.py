"""Tables of completions read in pieces: CSV by pandas, Parquet by pyarrow; and what their columns mean."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import LogReadError, MissingExtraError
from bayes_grpo.common.text import clean, listed
from bayes_grpo.rollouts.columns import CompletionBatch
from bayes_grpo.rollouts.completion import UNKNOWN, was_cut
from bayes_grpo.rollouts.lines import LeftOut, unpacked

if TYPE_CHECKING:
    import pandas as pd

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "step": ("step", "training_step", "train_step", "global_step", "iteration", "rollout_step"),
    "reward": ("reward", "total_reward", "score", "rewards", "reward_total"),
    "prompt": (
        "prompt_id",
        "prompt_hash",
        "question_id",
        "problem_id",
        "example_id",
        "task_id",
        "prompt_idx",
        "prompt",
    ),
    "group": ("group", "group_id", "group_idx", "group_index", "uid"),
    "sample": ("sample", "sample_idx", "sample_id", "traj_idx", "trajectory_index"),
    "version": ("policy_version", "weight_version", "version", "sampling_client_step"),
    "length": (
        "length",
        "clen_tokens",
        "completion_tokens",
        "response_length",
        "n_tokens",
        "completion_length",
        "clen_chars",
    ),
    "truncated": ("truncated", "is_truncated", "clipped", "finish_reason", "stop_reason"),
}
"""Column of a block → names under which tables have it, the first that is there."""
_ROWS = 100_000
_DEEP_ROWS = 2_048
_NOT_PARTS = {"advantage", "advantages", "unnamed: 0", "__index_level_0__", "index", "idx", "seed"}


def csv_batches(path: Path, damage: LeftOut) -> Iterator[pd.DataFrame]:
    """A table of delimited text in pieces.

    Raises:
        LogReadError: No table can be seen in it.
    """
    import pandas as pd

    with unpacked(path) as file:
        try:
            with pd.read_csv(file, chunksize=_ROWS, on_bad_lines="skip", encoding_errors="replace") as reader:
                yield from reader
        except pd.errors.EmptyDataError:
            raise LogReadError(f"{path}: expected a table with a header line, found nothing; check the file") from None
        except (pd.errors.ParserError, csv.Error, EOFError, zlib.error, OSError, ValueError):
            damage.cut += 1


def parquet_batches(path: Path, damage: LeftOut, names: list[str] | None = None) -> Iterator[Any]:
    """A Parquet file in pieces, as Arrow tables.

    Args:
        path: The file.
        damage: Counts a file that breaks off.
        names: Gatherer; all if None.

    Raises:
        MissingExtraError: pyarrow is not installed.
        LogReadError: It is no Parquet file.
    """
    import pyarrow as pa

    file = parquet_file(path)
    try:
        yield from file.iter_batches(batch_size=_DEEP_ROWS, columns=names, use_threads=False)
    except (pa.ArrowException, OSError, ValueError):
        damage.cut += 1


def parquet_file(path: Path) -> Any:
    """A Parquet file, opened.

    Raises:
        MissingExtraError: pyarrow is not installed.
        LogReadError: It is no Parquet file.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError(
            "reading Parquet needs pyarrow, which is not installed; install bayes-grpo[parquet]"
        ) from None
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LogReadError(
            f"{path}: expected a Parquet table, found one that cannot be read ({clean(error)})"
        ) from None


def meanings_of(names: list[str], stated: Mapping[str, str], path: Path) -> dict[str, str]:
    """Which column of a table is which of a block.

    Args:
        names: Names of the table's columns.
        stated: Those that the caller states.
        path: The file, for messages.

    Returns:
        Column of a block → name in the table.

    Raises:
        LogReadError: A stated column is not there.
    """
    missing = [x for x in stated.values() if x not in names]
    if missing:
        raise LogReadError(
            f"{path}: expected a column {clean(missing[0])!r}, found {listed(names, 20)}; correct its name"
        )
    lower = {name.strip().lower(): name for name in reversed(names)}
    found = {ours: next((lower[x] for x in theirs if x in lower), "") for ours, theirs in USUAL_NAMES.items()}
    return {ours: name for ours, name in found.items() if name} | dict(stated)


def block_of(table: pd.DataFrame, columns: Mapping[str, str]) -> CompletionBatch:
    """A piece of a table as a block; numeric columns without a meaning of their own are parts.

    Args:
        table: The piece.
        columns: Column of a block → name in the table.
    """
    import pandas as pd

    n = len(table)

    def numbers(name: str) -> np.ndarray:
        return np.asarray(pd.to_numeric(table[columns[name]], errors="coerce"), np.float64)

    def counts(name: str) -> np.ndarray | None:
        if name not in columns:
            return None
        values = numbers(name)
        return np.where(np.isfinite(values) & (np.abs(values) < 2**31), values, UNKNOWN)

    cut = None
    if "truncated" in columns:
        place, kinds = pd.factorize(table[columns["truncated"]])
        cut = np.array([UNKNOWN, *(was_cut(kind) for kind in kinds.tolist())])[place + 1]
    taken = {*columns.values()} | {name for name in table if str(name).strip().lower() in _NOT_PARTS}
    others = {name for theirs in USUAL_NAMES.values() for name in theirs}
    parts = {
        str(name): table[name].to_numpy(np.float64)
        for name in table
        if name not in taken and str(name).lower() not in others and pd.api.types.is_numeric_dtype(table[name])
    }
    return CompletionBatch(
        step=numbers("step") if "step" in columns else np.zeros(n),
        reward=numbers("reward"),
        prompt=_labels(table, columns.get("prompt")),
        group=_labels(table, columns.get("group")),
        sample=counts("sample"),
        version=counts("version"),
        length=counts("length"),
        truncated=cut,
        parts=parts,
    )


def _labels(table: pd.DataFrame, name: str | None) -> np.ndarray | None:
    if name is None:
        return None
    return table[name].to_numpy()
