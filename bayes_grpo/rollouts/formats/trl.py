"""TRL: ``log_completions=True`` writes ``completions/completions_NNNNN.parquet`` (huggingface/trl PR 4818).

Step, prompt, completion, a column for each reward function, advantage; no total. The total is the sum of the functions
with the weights that a caller states; whether it gives the saved advantages is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bayes_grpo.rollouts.batches import parquet_batches, parquet_file
from bayes_grpo.rollouts.columns import CompletionBatch
from bayes_grpo.rollouts.lines import LeftOut
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "trl"
_OWN = {"step", "prompt", "completion", "advantage", "advantages", "mode", "image", "images", "__index_level_0__"}


def sniff(place: Place) -> list[RolloutFile]:
    """Files at the places where it writes them."""
    found = place.named(r"completions_(\d+)\.parquet")
    return [RolloutFile(path, float(m[1]), place.split(path)) for path, m in found]


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[CompletionBatch]:
    """Pieces of a file; the total is the weighted sum of the columns of numbers.

    Raises:
        MissingExtraError: pyarrow is not installed.
        LogReadError: It is no Parquet file.
    """
    import pyarrow as pa

    schema = parquet_file(part.path).schema_arrow
    functions = [f.name for f in schema if f.name not in _OWN and _is_number(pa, f.type)]
    wanted = [f.name for f in schema if f.name in ("step", "prompt", "completion", "advantage", *functions)]
    for batch in parquet_batches(part.path, damage, wanted):
        yield _block(batch, functions, part, asked)


def _block(batch: Any, functions: list[str], part: RolloutFile, asked: StatedColumns) -> CompletionBatch:
    n = batch.num_rows
    parts = {name: _numbers(batch.column(name)) for name in functions}
    step = _numbers(batch.column("step")) if "step" in batch.schema.names else np.full(n, part.step)
    prompts = batch.column("prompt").to_pylist() if "prompt" in batch.schema.names else [None] * n
    outputs = batch.column("completion").to_pylist() if "completion" in batch.schema.names else [None] * n
    advantage = {"advantage": _numbers(batch.column("advantage"))} if "advantage" in batch.schema.names else {}
    lengths = [len(x) if isinstance(x, str) else _length(x) for x in outputs]
    return CompletionBatch(
        step=step,
        reward=total(parts, asked.weights, n),
        # A list of messages cannot be told apart by pandas: as text it can.
        prompt=np.array([None if x is None else _question(x) for x in prompts] + [None], dtype=object)[:-1],
        length=np.array(lengths),
        parts=parts | advantage,
        texts=tuple((str(_question(p)), _text(o), "") for p, o in zip(prompts, outputs, strict=True))
        if asked.text
        else (),
    )


def total(parts: Mapping[str, np.ndarray], weights: Mapping[str, float], n: int) -> np.ndarray:
    """Sum of reward functions by their weights, 1 where none is stated; a function that gave no value counts as 0.

    Args:
        parts: Function → values, shape (n,).
        weights: Function → weight.
        n: Completions.

    Returns:
        Shape (n,); NaN where no function gave a value.
    """
    if not parts:
        return np.full(n, np.nan)
    values = np.stack(list(parts.values()))
    weight = np.array([weights.get(name, 1.0) for name in parts])
    known = np.isfinite(values)
    return np.where(known.any(axis=0), weight @ np.where(known, values, 0.0), np.nan)


def _is_number(pa: Any, kind: Any) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def _numbers(column: Any) -> np.ndarray:
    values = column.to_numpy(zero_copy_only=False)
    return (
        np.array([np.nan if x is None else float(x) for x in values])
        if values.dtype == object
        else values.astype(float)
    )


def _question(prompt: Any) -> str:
    from bayes_grpo.rollouts.completion import bare

    return bare(prompt)


def _text(output: Any) -> str:
    from bayes_grpo.rollouts.completion import last_turn

    return last_turn(output) or ""


def _length(output: Any) -> int:
    text = _text(output)
    return len(text) if text else -1
