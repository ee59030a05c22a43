"""Text from logs made safe to print and to draw."""

from __future__ import annotations

import re
import textwrap
import unicodedata

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]")


def plain(text: object, limit: int = 300) -> str:
    """Text without control characters and escape sequences, cut to ``limit`` characters."""
    shown = _ANSI.sub("", str(text))
    shown = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def drawable(text: object, limit: int = 300) -> str:
    """Plain text in which matplotlib sees no formula; it raises on malformed ones."""
    return plain(text, limit).replace("$", r"\$")


def title_lines(text: object, width: int, limit: int = 600) -> str:
    """Drawable text in lines of at most ``width`` characters, for the title of a figure."""
    return "\n".join(textwrap.wrap(drawable(text, limit), width))


def safe(text: object, limit: int = 300) -> str:
    """Plain text in which rich sees no markup."""
    from rich.markup import escape

    return escape(plain(text, limit))
