"""The table of rooms and modules in ARCHITECTURE.md, read and held against the tree."""

from __future__ import annotations

import re
from pathlib import Path

_ROW = re.compile(r"^\|((?:\s*`[\w/]+`,?)+)\s*\|")
_UNLISTED = {"__init__", "__main__"}


def named(text: str, package: Path) -> tuple[set[str], list[str]]:
    """Modules that the table names, as paths without suffix, and names of rooms that do not exist.

    A line "| `rows/` | ..." opens a room, also one inside another ("| `logs/readers/` | ..."); the lines after it name
    its modules. `readers/` among the modules of a room stands for all that this folder of the room holds.
    """
    found: set[str] = set()
    unknown: list[str] = []
    room: str | None = None
    for line in text.splitlines():
        row = _ROW.match(line)
        if row is None:
            room = room if line.startswith("|") else None  # a table ends with its last line
            continue
        names = re.findall(r"`([\w/]+)`", row[1])
        inner = room is not None and (package / room / names[0]).is_dir()
        if len(names) == 1 and names[0].endswith("/") and not inner:
            exists = (package / names[0]).is_dir()
            room = names[0].rstrip("/") if exists else None
            unknown += [] if exists else names
        elif room is not None:
            for name in names:
                inside = modules(package, package / room / name) if name.endswith("/") else set()
                found |= inside or {f"{room}/{name}"}
    return found, unknown


def modules(package: Path, folder: Path) -> set[str]:
    """Modules of a folder and the folders in it, as paths below the package without suffix."""
    paths = (p.relative_to(package).with_suffix("") for p in folder.rglob("*.py"))
    return {p.as_posix() for p in paths if p.name not in _UNLISTED}


def compared(text: str, package: Path) -> tuple[list[str], list[str]]:
    """Modules that the text does not name, and what it names that is not there."""
    found, unknown = named(text, package)
    there = modules(package, package)
    return sorted(there - found), sorted([*unknown, *(found - there)])
