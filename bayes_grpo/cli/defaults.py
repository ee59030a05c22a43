"""Flags in ``bayes_grpo.toml`` next to a log, under ``[flags]`` and ``[costs]``: defaults of the commands.

The file may come with a stranger's log, so it can set a horizon, regimes and costs, and nothing that runs a
command, opens an address or writes a file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import plain

NAME = "bayes_grpo.toml"
COSTS = frozenset(("cost_per_step", "value_per_reward", "budget", "risk"))
FLAGS = frozenset(
    ("until", "signal", "format", "run", "run_name", "regime", "regimes",
     "threshold", "reach", "seed", "alarm", "interval", "idle_timeout", "schedule")
)  # fmt: skip
_PARAMETERS = {"format": "format_"}
_MAX_BYTES = 1_000_000


def defaults_for(words: Sequence[str], parameters: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """Command → parameter → default, from the file next to the log that the words of a call name.

    Args:
        words: The call, without the program's name.
        parameters: Command → names of its parameters.

    Raises:
        SettingError: The file states a flag that no command has, or that a file may not state.
    """
    command = next((word for word in words if word in parameters), None)
    path = None if command is None else _file(words[words.index(command) + 1 :])
    if command is None or path is None:
        return {}
    given = _given(path)
    return {command: {name: value for name, value in given.items() if name in parameters[command]}}


def _file(words: Sequence[str]) -> Path | None:
    """The file that lies next to the first log."""
    for word in words:
        try:
            path = Path(word)
            if not word.startswith("-") and path.exists():
                file = (path if path.is_dir() else path.parent) / NAME
                return file if file.is_file() else None
        except (OSError, ValueError):
            continue
    return None


def _given(path: Path) -> dict[str, Any]:
    """Flags of a file; nothing where it cannot be read, which reading the log reports."""
    try:
        data = path.read_bytes()
        content = tomllib.loads(data.decode("utf-8-sig")) if len(data) <= _MAX_BYTES else {}
    except (OSError, ValueError, RecursionError):
        return {}
    found: dict[str, Any] = {}
    for table, known in (("flags", FLAGS | COSTS), ("costs", COSTS)):
        given = content.get(table, {})
        if not isinstance(given, dict):
            raise SettingError(f"{plain(path)}: expected a table [{table}], found {type(given).__name__}; correct it")
        for flag, value in given.items():
            name = flag.strip().replace("-", "_")
            if name not in known:
                raise SettingError(
                    f"{plain(path)}: [{table}] may state {', '.join(sorted(known))}; found {plain(flag, 60)!r}; "
                    f"give it on the command line"
                )
            if not isinstance(value, str | int | float | list):
                raise SettingError(f"{plain(path)}: expected a number or a text for {name}; found {plain(value, 60)!r}")
            found[_PARAMETERS.get(name) or name] = value
    return found
