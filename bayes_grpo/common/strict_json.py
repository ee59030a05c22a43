"""Values made fit for strict JSON: the one rule by which results, settings and tables become text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np


def json_safe(value: Any) -> Any:
    """A copy of a value in JSON's types.

    Numbers that are not finite are None, NumPy's scalars and arrays Python's numbers and lists, members of an enum
    their values. Records are mappings of their fields: named tuples, such as intervals, and dataclasses, which may
    state another dictionary in `to_dict`.
    """
    if isinstance(value, Mapping):
        return {_key(k): json_safe(v) for k, v in value.items()}
    if hasattr(value, "_asdict"):
        return json_safe(value._asdict())
    if isinstance(value, list | tuple):
        return [json_safe(v) for v in value]
    if is_dataclass(value) and not isinstance(value, type):
        own = getattr(value, "to_dict", None)
        return json_safe({f.name: getattr(value, f.name) for f in fields(value)}) if own is None else own()
    if isinstance(value, np.ndarray):
        return json_safe(value.tolist())
    if isinstance(value, np.generic):
        return json_safe(value.item())
    if isinstance(value, Enum):
        return json_safe(value.value)
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value


def _key(key: Any) -> str:
    """A key; of a number, such as the share of a log's rows, no more digits than it takes to tell it."""
    return f"{key:g}" if isinstance(key, float) else str(key)
