"""ART: ``trajectories/<split>/<step>.parquet``, one row a trajectory (OpenPipe/ART)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from bayes_grpo.rollouts.batches import parquet_batches, parquet_file
from bayes_grpo.rollouts.columns import CompletionBatch
from bayes_grpo.rollouts.completion import bare, scalars_in
from bayes_grpo.rollouts.lines import LeftOut
from bayes_grpo.rollouts.place import Place, RolloutFile, StatedColumns

NAME = "art"


def sniff(place: Place) -> list[RolloutFile]:
    """Files at the places where it writes them."""
    found = place.named(r"trajectories/([\w.-]+)/(\d+)\.parquet")
    return [RolloutFile(path, float(m[2]), "train" if m[1] == "train" else "eval") for path, m in found]


def read(part: RolloutFile, asked: StatedColumns, damage: LeftOut) -> Iterator[CompletionBatch]:
    """Pieces of a file.

    Raises:
        MissingExtraError: pyarrow is not installed.
        LogReadError: It is no Parquet file.
    """
    names = parquet_file(part.path).schema_arrow.names
    wanted = [x for x in ("group_index", "trajectory_index", "reward", "metrics", "messages") if x in names]
    for batch in parquet_batches(part.path, damage, wanted):
        columns = {name: batch.column(name).to_pylist() for name in wanted}
        n = batch.num_rows
        metrics = [_object(x) for x in columns.get("metrics", [None] * n)]
        keys = dict.fromkeys(k for m in metrics for k in m)
        messages = columns.get("messages", [None] * n)
        prompts = [_prompt(m) for m in messages]
        yield CompletionBatch(
            step=np.full(n, part.step if part.step is not None else np.nan),
            reward=np.array([np.nan if x is None else float(x) for x in columns.get("reward", [None] * n)]),
            prompt=np.array([*prompts, None], dtype=object)[:-1],
            group=np.array([*map(str, columns["group_index"]), None], dtype=object)[:-1]
            if "group_index" in columns
            else None,
            sample=np.array(columns["trajectory_index"]) if "trajectory_index" in columns else None,
            parts={k: np.array([m.get(k, np.nan) for m in metrics]) for k in keys},
            texts=tuple((p or "", _answer(m), "") for p, m in zip(prompts, messages, strict=True))
            if asked.text
            else (),
        )


def _object(text: Any) -> dict[str, float]:
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return scalars_in(found) if isinstance(found, dict) else {}


def _prompt(messages: Any) -> str | None:
    """The first turn of the user: later ones may answer what the policy wrote."""
    asked = [m for m in messages or [] if isinstance(m, dict) and m.get("role") == "user"]
    return bare(asked[:1]) if asked else None


def _answer(messages: Any) -> str:
    texts = [m.get("content") for m in messages or [] if isinstance(m, dict) and m.get("role") == "assistant"]
    return str(texts[-1]) if texts else ""
