"""Rows of a run that are in memory: a frame, columns, records, a trainer's state, a run of W&B's client.

Nothing of pandas, Polars, transformers or wandb is imported for them: each is known by what it offers. Only a run that
W&B keeps on its servers, ``wandb://entity/project/run``, needs the client and account of the user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.errors import LogReadError, MissingExtraError
from bayes_grpo.common.text import clean, counted
from bayes_grpo.logs.formats import Parsed
from bayes_grpo.logs.keyindex import without_nan
from bayes_grpo.logs.options import flat_config
from bayes_grpo.logs.row_shapes import parsed_columns, parsed_records
from bayes_grpo.logs.table import flatten

_TRACKER_ROWS, _TRAINER_ROWS = "scan_history", "log_history"


def is_tabular(value: object) -> bool:
    """True if a value holds the rows of a run itself, in place of a path to them."""
    if isinstance(value, str | bytes):
        return False
    if isinstance(value, Sequence):
        return any(isinstance(x, Mapping) for x in value[:10])
    attributes = ("columns", _TRAINER_ROWS, _TRACKER_ROWS, "state")
    return isinstance(value, Mapping) or any(hasattr(value, name) for name in attributes)


def kind_of_value(value: object) -> str:
    """Kind of a value, for "read from"."""
    kind = type(value)
    return clean(f"{kind.__module__.partition('.')[0]}.{kind.__name__}".removeprefix("builtins."))


def parsed_of(data: Any) -> Parsed:
    """The rows of what `is_tabular` takes, read by the same rules as those of a file."""
    from bayes_grpo.logs.readers.json_text import of_document, of_state, with_plan

    if hasattr(data, _TRACKER_ROWS):
        return _of_tracker(data)
    state = getattr(data, "state", data)  # of a trainer
    if hasattr(state, _TRAINER_ROWS):
        rows = _some_records(state.log_history)
        return with_plan(rows, getattr(state, "max_steps", None), getattr(state, "logging_steps", None))
    if isinstance(data, Mapping) and isinstance(data.get(_TRAINER_ROWS), list):
        return of_state(data)
    if isinstance(data, Mapping):
        return of_document({str(k): without_nan(v) if isinstance(v, np.ndarray) else v for k, v in data.items()})
    return _some_records(data) if isinstance(data, Sequence) else parsed_columns(_columns(data))


def _of_tracker(run: Any) -> Parsed:
    """Every row of a run of W&B's client, with its name and configuration."""
    config = {k: v for k, v in dict(getattr(run, "config", None) or {}).items() if not str(k).startswith("_")}
    name = clean(getattr(run, "name", None) or "")
    return replace(_some_records(run.scan_history()), total_steps=None, config=flat_config(config), run_name=name)


def _some_records(records: Iterable[Any]) -> Parsed:
    found = parsed_records({str(k): v for k, v in x.items()} if isinstance(x, Mapping) else x for x in records)
    if not found.table.n:
        raise LogReadError("expected records of metrics, found none; log a step first")
    return found


def _columns(frame: Any) -> dict[str, Any]:
    """Columns of a data frame; structs are flattened with "/"."""
    if hasattr(frame, "iloc"):  # pandas; an index with a name is a column too
        named = [x for x in frame.index.names if x is not None and x not in frame.columns]
        frame = frame.reset_index(level=named) if named else frame
        given = [(str(name), frame.iloc[:, i].to_numpy()) for i, name in enumerate(frame.columns)]
    elif hasattr(frame, "get_columns"):  # Polars
        given = [(x.name, x.to_list()) for x in frame.get_columns()]
    else:
        raise LogReadError(
            f"expected a data frame, columns or records of metrics, found {kind_of_value(frame)}; "
            f"pass a pandas or Polars frame, a list of dicts, or a path"
        )
    columns: dict[str, Any] = {}
    for name, values in given:
        if not isinstance(values, list) and values.dtype.kind not in "fiub":
            values = list(values)
            if not any(v is None or type(v).__name__ == "NAType" for v in values):
                values = [None if v != v else v for v in values]  # NaN is pandas' own word for a missing value
        if isinstance(values, list) and any(isinstance(v, Mapping) for v in values):
            rows = [flatten({name: value}) if isinstance(value, Mapping) else {} for value in values]
            for key in dict.fromkeys(key for row in rows for key in row):
                columns.setdefault(key, [row.get(key) for row in rows])
        else:
            columns.setdefault(name.strip(), values)
    return columns


def run_of_client(path: Path) -> Parsed | None:
    """A run ``wandb://entity/project/run``, or ``project/run`` of the user's own; None where it is another path."""
    if path.parts[:1] != ("wandb:",):  # a Path has made one slash of the two
        return None
    parts = [part for part in path.parts[1:] if part != "runs"]  # as in the address of the web page
    shown = f"wandb://{clean('/'.join(parts if len(parts) in (2, 3) else path.parts[1:]), 200)}"
    if len(parts) not in (2, 3):
        raise LogReadError(
            f"{shown}: expected wandb://entity/project/run, found {counted(len(parts), 'part')}; copy the run's path "
            f"from its overview"
        )
    try:
        import wandb
    except ImportError:
        raise MissingExtraError(
            "reading wandb:// needs W&B's client, which is not installed; install the package wandb and log in"
        ) from None
    try:
        return _of_tracker(wandb.Api(timeout=60).run("/".join(parts)))
    except LogReadError:
        raise
    except Exception as error:  # whatever client, network or account raise
        raise LogReadError(
            f"{shown}: expected a run that your account may read, found "
            f"{clean(f'{type(error).__name__}: {error}', 300)}; check the path and log in"
        ) from None
