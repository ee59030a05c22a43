"""`probe.json`: the probes of a training, one after another."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.files import atomic_write
from bayes_grpo.common.results import json_safe
from bayes_grpo.common.text import clean
from bayes_grpo.probing.estimate import Measured, OptimizerKind, Probe

PROBES_FORMAT = 1
LARGEST = 64 * 2**20
"""Bytes of a file that is read: thousands of probes are far below."""
_MAY_LACK = {"freedom": math.inf, "crossed": math.nan, "chosen": math.nan, "step": math.nan}
"""Numbers that need not be finite, and what stands for null."""


def save_probes(probes: Sequence[Probe], path: str | Path) -> None:
    """Writes the probes of a training, whole or not at all.

    Args:
        probes: In the order of their steps; at least one.
        path: Where to, such as ``probe.json``.

    Raises:
        SettingError: No probe.
        OutputError: The place cannot be written to.
    """
    if not probes:
        raise SettingError("save_probes: expected at least one probe, found none")
    content = {"format": PROBES_FORMAT, "kind": "probes", "probes": json_safe(probes)}
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def load_probes(path: str | Path) -> tuple[Probe, ...]:
    """Reads the probes of a training.

    Raises:
        SettingError: The file cannot be read, is something else, or holds a number that cannot be.
    """
    try:
        if Path(path).stat().st_size > LARGEST:
            raise ValueError(f"larger than {LARGEST // 2**20} MiB")
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["kind"] != "probes" or content["format"] != PROBES_FORMAT:
            raise ValueError(f"expected probes of format {PROBES_FORMAT}, found {content['format']!r}")
        if not content["probes"]:
            raise ValueError("no probe in it")
        return tuple(_probe(row) for row in content["probes"])
    except (OSError, AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else error
        raise SettingError(
            f"{clean(path)}: cannot read these probes ({clean(why, 160)}); give a file that save_probes or "
            "CurvatureProbe wrote"
        ) from error


def _probe(row: dict[str, Any]) -> Probe:
    if row["optimizer"] not in get_args(OptimizerKind):
        raise ValueError(f"optimizer: expected one of {', '.join(get_args(OptimizerKind))}, found {row['optimizer']!r}")
    parts = row["parts"]
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise ValueError(f"parts: expected a whole number of at least 1, found {parts!r}")
    plain = {k: _number(k, row[k]) for k in ("late_share", "gradients", "residual")}
    if not 0.0 <= plain["late_share"] <= 1.0:
        raise ValueError(f"late_share: expected 0 to 1, found {plain['late_share']!r}")
    stiffest = Measured(**{field.name: _number(field.name, row["stiffest"][field.name]) for field in fields(Measured)})
    if stiffest.sd < 0.0 or not stiffest.freedom > 0.0:
        raise ValueError(f"stiffness: expected sd >= 0 and freedom > 0, found {stiffest.sd!r}, {stiffest.freedom!r}")
    step = _number("step", row["step"])
    return Probe(optimizer=row["optimizer"], stiffest=stiffest, parts=parts, step=step, **plain)


def _number(name: str, value: Any) -> float:
    if value is None and name in _MAY_LACK:
        return _MAY_LACK[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number, found {value!r}")
    return float(value)
