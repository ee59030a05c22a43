"""Figures as small inline SVG without inline styles, which the policy of a page forbids.

Styles become classes that the pictures of a page share. On a dark screen the page turns the colors over
(`templates/style.css`).
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from io import StringIO
from typing import TYPE_CHECKING, Any

from cycler import cycler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CROWD = 400
"""Dots of one series from which on they are pixels."""
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bayes-grpo",
    "font.size": 8.5,
    "axes.edgecolor": "#9ca3af",
    "axes.labelcolor": "#4b5563",
    "axes.titlecolor": "#111827",
    "axes.linewidth": 0.8,
    "xtick.color": "#6b7280",
    "ytick.color": "#6b7280",
    "xtick.labelcolor": "#4b5563",
    "ytick.labelcolor": "#4b5563",
    "legend.labelcolor": "#374151",
    "text.color": "#111827",
    "grid.color": "#e5e7eb",
    "axes.prop_cycle": cycler(color=["#1d4ed8", "#c2410c", "#15803d", "#7e22ce", "#0e7490", "#b45309"]),
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}
"""Settings of Matplotlib under which pictures of a page are drawn."""
_NUMBER = re.compile(r"(?<!\d)-?\d++\.\d+(?:e-?\d+)?")
_FONT = re.compile(r"font:\s*(?:[a-z]+\s+)*([\d.]+)px[^;]*")
_POINTER = re.compile(r"#(?=[\w-])")
_ROUNDED = ("d", "points", "transform", "x", "y", "width", "height")


class Pictures:
    """Turns figures into SVG and gathers the classes that they use."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}
        self._drawn = 0

    def whole(self, figure: Figure) -> str:
        """A figure as SVG, without its title, which the page has in words."""
        _prepare(figure)
        text = StringIO()
        figure.savefig(
            text, format="svg", transparent=True, bbox_inches="tight", dpi=150, metadata={"Date": None, "Creator": None}
        )
        self._drawn += 1
        root = ElementTree.fromstring(text.getvalue())
        width, height = (float(x) for x in root.attrib["viewBox"].split()[2:])
        for parent in list(root.iter()):
            parent.tag = parent.tag.rpartition("}")[2]
            for child in list(parent):
                if child.tag.rpartition("}")[2] in ("metadata", "style"):
                    parent.remove(child)
        for element in root.iter():
            self._rewrite(element, f"p{self._drawn}-")
        root.attrib.clear()
        root.attrib |= {"viewBox": f"0 0 {width:.1f} {height:.1f}", "aria-hidden": "true", "focusable": "false"}
        return ElementTree.tostring(root, encoding="unicode")

    def stylesheet(self) -> str:
        """Classes of all pictures so far."""
        return "".join(f".{name}{{{style}}}" for style, name in self._classes.items())

    def _rewrite(self, element: ElementTree.Element, prefix: str) -> None:
        """Names without a namespace, ids of this picture alone, a class for the style, short numbers."""
        given = dict(element.attrib)
        element.attrib.clear()
        if style := given.pop("style", ""):
            element.set("class", self._class(style))
        for name, value in given.items():
            plain = name.rpartition("}")[2]
            if plain == "id":
                value = prefix + value
            elif plain in ("href", "clip-path"):
                value = value if value.startswith("data:") else _POINTER.sub(f"#{prefix}", value)
            elif plain in _ROUNDED:
                value = " ".join(_NUMBER.sub(lambda m: f"{round(float(m[0]), 2):g}", value).split())
            element.set(plain, value)
        if element.tag not in ("text", "tspan"):
            element.text = None
        element.tail = element.tail if element.tag == "tspan" else None

    def _class(self, style: str) -> str:
        style = _FONT.sub(lambda m: f"font-size: {float(m[1]):g}px", style)
        kept = sorted(x.strip() for x in style.split(";") if x.strip() and "font-family" not in x)
        return self._classes.setdefault(";".join(kept).replace(": ", ":"), f"s{len(self._classes)}")


def _prepare(figure: Figure) -> None:
    """No title above the panels; dots that are many become pixels."""
    parts: list[Any] = [figure, *figure.subfigs]
    for part in parts:
        if part.get_suptitle():
            part.suptitle("")
    for axes in figure.axes:
        for line in axes.get_lines():
            dots = line.get_marker() not in ("None", None, "", " ")
            line.set_rasterized(dots and len(line.get_xdata()) > CROWD)  # type: ignore[arg-type]
