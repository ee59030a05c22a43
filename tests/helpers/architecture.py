"""The table of rooms in ARCHITECTURE.md, compared with the tree."""

from __future__ import annotations

import re
from pathlib import Path

_ROW = re.compile(r"^\|((?:\s*`\w+/`,?)+)\s*\|")


def compared(text: str, package: Path) -> tuple[list[str], list[str]]:
    """Rooms (folders of the package) that the table does not name, and rows for rooms that do not exist."""
    rows = (_ROW.match(line) for line in text.splitlines())
    named = {name for row in rows if row for name in re.findall(r"`(\w+)/`", row[1])}
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    return sorted(rooms - named), sorted(named - rooms)
