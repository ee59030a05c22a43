"""Numbers that README reports as measured: each with a marker behind it that names a kept result.

`0.81<!-- claim: backtest.ratio -->` says that `ratio` in `benchmarks/results/backtest.json` rounds to 0.81, and
`87<!-- claim: % backtest.coverage.origin_30 -->` that 100 times the kept share rounds to 87.
"""

import json
import re
from typing import Any, NamedTuple

from tests.helpers.pages import ROOT

RESULTS = ROOT / "benchmarks" / "results"
MARKER = "<!-- claim:"
_CLAIM = re.compile(
    r"(?P<number>−?\d[\d,]*(?:\.\d+)?)(?P<unit>%| s)?<!-- claim: (?P<share>% )?(?P<name>\w+)\.(?P<key>[^>]+?) -->"
)
_UNITS = re.compile(r"\d+\.\d+|\d+(?:\.\d+)?%")


def kept(name: str) -> dict[str, Any]:
    """The stored result of the benchmark of this name."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["result"]


class Claim(NamedTuple):
    """A printed number and where it comes from.

    Attributes:
        printed: The number as printed, without unit.
        share: Whether it is a hundredfold of what is kept.
        percent: Whether a percent sign follows it.
        name: Name of the kept result.
        key: Keys on the way to the value, joined by dots.
    """

    printed: str
    share: bool
    percent: bool
    name: str
    key: str

    def agrees(self, kept: float) -> bool:
        """Whether a kept value rounds to what is printed."""
        digits = len(self.printed.partition(".")[2])
        value = 100.0 * kept if self.share else kept
        return abs(value - float(self.printed.replace(",", "").replace("−", "-"))) <= 0.5 * 10.0**-digits + 1e-9


def claims_in(text: str) -> list[Claim]:
    """All claims of a text, in order."""
    return [
        Claim(m["number"], m["share"] is not None, m["unit"] == "%", m["name"], m["key"]) for m in _CLAIM.finditer(text)
    ]


def unmarked(text: str, settled: list[str]) -> list[str]:
    """Decimal numbers and percentages of the prose that have no marker, each with the words before it.

    Args:
        text: Markdown.
        settled: Patterns of phrases whose numbers are definitions and not measurements.

    Returns:
        What is left once code, tables, headings, links' targets and settled phrases are taken away.
    """
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = _CLAIM.sub("", text)
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#")))
    text = re.sub(r"`[^`]*`", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"\s+", " ", text)
    for phrase in settled:
        text = re.sub(phrase, "", text)
    return [text[max(0, m.start() - 40) : m.end() + 10] for m in _UNITS.finditer(text)]
