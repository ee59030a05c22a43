"""Text from logs made safe to print, to draw and to quote in messages."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,4000}(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Terminal escape sequences: colors, cursor moves, window titles."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def plain(text: object, limit: int = 300) -> str:
    """Text without control characters and escape sequences, cut to ``limit`` characters."""
    shown = ANSI.sub("", str(text))
    shown = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def drawable(text: object, limit: int = 300) -> str:
    """Plain text in which matplotlib sees no formula; it raises on malformed ones."""
    return plain(text, limit).replace("$", r"\$")


def title_lines(text: object, width: int, limit: int = 600) -> str:
    """Drawable text in lines of at most ``width`` characters, for the title of a figure."""
    return "\n".join(textwrap.wrap(drawable(text, limit), width))


def clean(text: object, limit: int = 80) -> str:
    """Text on one line, without escape sequences and control characters, at most ``limit`` long."""
    shown = _CONTROL.sub(" ", ANSI.sub("", str(text)[: 4 * limit])).strip()
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def counted(number: int, noun: str) -> str:
    """A number with its noun, e.g. "1 row", "7 rows"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def every(steps: float) -> str:
    """How often something happens, e.g. "every step", "every 7 steps"."""
    return "every step" if steps == 1 else f"every {steps:g} steps"


def listed(items: Iterable[object], limit: int = 12) -> str:
    """Items as "a, b, c" with the number left out, e.g. "a, b and 7 more"; "nothing" where empty."""
    texts = [clean(item) for item in items]
    if not texts:
        return "nothing"
    more = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {more} more" if more > 0 else "")


def amount(value: float) -> str:
    """A cost or value in words, with no more digits than it has meaning."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if size >= 0.1 else f"{value:.2g}"


class StepName(NamedTuple):
    """A step as a log counts it, by "step", or by "row" where the log has no steps; and by a second counter if any."""

    step: float
    counter: str = "step"
    second: str = ""
    second_value: float = 0.0

    @property
    def first(self) -> str:
        """The first counter, such as "step 141"."""
        return f"{self.counter} {self.step:.6g}"

    @property
    def other(self) -> str:
        """The second counter, such as " (grpo_step 36)"; "" without one."""
        return f" ({self.second} {self.second_value:g})" if self.second else ""

    def __str__(self) -> str:
        """Both, as sentences name the step."""
        return f"{self.first}{self.other}"
