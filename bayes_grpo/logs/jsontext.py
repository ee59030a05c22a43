"""JSON from untrusted files: errors say where, depth and size of numbers cannot crash the parser."""

from __future__ import annotations

import json
import re
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import clean
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.options import CONFIG_KEYS
from bayes_grpo.logs.rowkinds import told_apart
from bayes_grpo.logs.source import Source
from bayes_grpo.logs.trainers import GENERIC


def load_json(source: Source, instead: str = "a complete file") -> Any:
    """The document in a file.

    Args:
        source: The file.
        instead: What to pass where the file is cut off.

    Raises:
        LogReadError: It is not JSON; the message says where.
    """
    try:
        return json.loads(source.text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(source.text.rstrip()) - 1 or "Unterminated" in error.msg
        raise LogReadError(
            f"expected JSON, found {'the end of the file' if cut else clean(error.msg)} at line "
            f"{error.lineno} column {error.colno}{' (it is cut off)' if cut else ''}; pass {instead}"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LogReadError(
            f"expected JSON of metrics, found values that cannot be parsed ({clean(error)}); pass {instead}"
        ) from None


def parse_line(text: str) -> Any:
    """The JSON value in a line, None where there is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError, MemoryError):
        return None


CONFIG_NAMES = (
    "config",
    "args",
    "hparams",
    "hyperparameters",
    "hyperparams",
    "settings",
    "params",
    "training_args",
)
"""Names of objects in which scripts keep their settings."""

_CONFIG_NAMES = frozenset(CONFIG_NAMES)
_METRIC = re.compile(r"step|reward|score|loss|iter|update|accuracy", re.IGNORECASE)


def scalars_of(mapping: dict[str, Any]) -> dict[str, Any]:
    """Numbers and texts of a mapping."""
    return {k: v for k, v in mapping.items() if isinstance(v, int | float | str)}


_HEADER = frozenset(("config", "configuration", "start", "run_start", "header", "args", "hparams", "settings", "init"))
_NO_CONFIG = frozenset((*GENERIC.reward, *(key for group in GENERIC.steps for key in group)))


def config_line(row: dict[str, Any]) -> dict[str, Any] | None:
    """Settings of a first record that holds them under their own names, None where it is another record.

    It says what it is, or names two settings at least, and holds neither a step nor a reward.
    """
    if any(normal(key) in _NO_CONFIG for key in row):
        return None
    said = any(isinstance(value, str) and value.strip().lower() in _HEADER for value in row.values())
    named = sum(any(key in row for key in keys) for keys in CONFIG_KEYS.values())
    return scalars_of(row) if named >= (1 if said else 2) else None


def config_in(row: dict[str, Any]) -> dict[str, Any] | None:
    """Settings of a record that holds them instead of metrics, None where it is a record of metrics."""
    if _CONFIG_NAMES.isdisjoint(row):
        return None
    held = [row[name] for name in CONFIG_NAMES if isinstance(row.get(name), dict)]
    if not held or any(_METRIC.search(key) for key in row):
        return None
    return {k: v for part in held for k, v in scalars_of(part).items()}


def mapping_rows(items: list[Any]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The records among the items of a list, and a note on what else was there."""
    rows = [told_apart(item) for item in items if isinstance(item, dict)]
    other = len(items) - len(rows)
    return rows, (f"{other} entries that are not records left out",) if other else ()
