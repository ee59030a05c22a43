"""Priors on the command line: overrides of single parameters, and a file of them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import PriorError


def overrides(texts: Sequence[str], file: Path | None) -> dict[str, Any]:
    """Overrides of single parameters, from a file and from flags, which win.

    Raises:
        PriorError: The file cannot be read, or an override is not NAME=MEDIAN,SPREAD.
    """
    out = {} if file is None else _in_file(file)
    for text in texts:
        name, equals, numbers = text.partition("=")
        parts = numbers.split(",")
        if not equals or len(parts) != 2:
            raise PriorError(f"--prior: expected NAME=MEDIAN,SPREAD such as damping_ratio=3,0.5, found {text!r}")
        out[name.strip()] = tuple(parts)
    return out


def _in_file(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PriorError(f"{file}: expected a TOML file with a [priors] table, cannot read it ({error})") from error
    if not isinstance(table.get("priors"), dict):
        raise PriorError(f"{file}: expected a [priors] table like damping_ratio = [3.0, 0.5], found none")
    for name, value in table["priors"].items():
        numbers = list(value.values()) if isinstance(value, dict) else value
        if not (isinstance(numbers, list) and len(numbers) == 2 and all(_is_number(x) for x in numbers)):
            raise PriorError(f"{file}: expected {name} = [median, spread], two numbers, found {value!r}")
    return dict(table["priors"])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
