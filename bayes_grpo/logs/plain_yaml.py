"""The plain part of YAML that stores write: nested mappings by indentation, lists, scalars. Nothing is built by tags.

What goes beyond it (anchors, tags, braces, folded text) is kept as text or passed over: no setting is made of it.
"""

from __future__ import annotations

import re
from typing import Any

_MAX_LINES = 20_000
_MAX_DEPTH = 20
_PAIR = re.compile(r"(?:'((?:[^']|'')*)'|\"([^\"]*)\"|([^\s'\"#\-?][^:]*|-[^\s:][^:]*))\s*:(?:\s+(.*))?$")
_WORDS = {"null": None, "~": None, "": None, "true": True, "false": False}


def plain_yaml(text: str) -> dict[str, Any]:
    """The mapping in a text; lines that are none of the plain part are passed over."""
    lines = []
    for raw in text.splitlines()[:_MAX_LINES]:
        content = raw.strip()
        if content and not content.startswith(("#", "---", "...")):
            lines.append((len(raw) - len(raw.lstrip(" ")), content))
    return _mapping(lines, 0, 0, _MAX_DEPTH)[0]


def _mapping(lines: list[tuple[int, str]], at: int, indent: int, depth: int) -> tuple[dict[str, Any], int]:
    """The mapping whose lines begin at ``at`` and are indented by ``indent`` at least, and the line behind it."""
    found: dict[str, Any] = {}
    while at < len(lines) and lines[at][0] >= indent:
        own, content = lines[at]
        at += 1
        pair = _PAIR.match(content)
        if pair is None:
            continue
        key = next(part for part in pair.groups()[:3] if part is not None).strip()
        value = (pair[4] or "").strip()
        found[key] = _scalar(value)
        if value or at >= len(lines):
            continue
        inner, listed = lines[at][0], lines[at][1].startswith("-")
        if listed and inner >= own:
            found[key], at = _items(lines, at, inner)
        elif depth and inner > own:
            found[key], at = _mapping(lines, at, inner, depth - 1)
    return found, at


def _items(lines: list[tuple[int, str]], at: int, indent: int) -> tuple[list[Any], int]:
    """The scalars of a list; what is nested in it is passed over."""
    items = []
    while at < len(lines) and (lines[at][0] > indent or (lines[at][0] == indent and lines[at][1].startswith("-"))):
        if lines[at][0] == indent:
            items.append(_scalar(lines[at][1][1:].strip()))
        at += 1
    return items, at


def _scalar(text: str) -> Any:
    """A scalar as Python has it: text, number, truth value or None."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace("''", "'")
    text = text.partition(" #")[0].strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if len(text) <= 64:
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
    return text
