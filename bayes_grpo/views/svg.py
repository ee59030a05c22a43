"""Figures as small inline SVG whose colours are variables of the page, so that one drawing serves light and dark.

What Matplotlib writes is rewritten: styles become classes that pictures share, colours become variables with a light
and a dark value, dots become one path, coordinates lose digits that nobody sees, text stays text.
"""

from __future__ import annotations

import colorsys
import re
import xml.etree.ElementTree as ElementTree
from io import StringIO
from typing import TYPE_CHECKING, Any

from cycler import cycler

from bayes_grpo.views.look import look_of, mark_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CROWD = 3000
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
_HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
_FONT = re.compile(r"font:\s*(?:[a-z]+\s+)*([\d.]+)px[^;]*")
_DROPPED = ("stroke-linejoin", "stroke-linecap", "font-family")


class Pictures:
    """Turns figures into SVG and gathers the classes and colours that they use.

    Classes and variables are named by their content, so that pictures of one page share them.
    """

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}
        self._colours: dict[str, str] = {}
        self._drawn = 0

    def whole(self, figure: Figure) -> str:
        """A figure without its title, which the page says in words."""
        _prepare(figure)
        return self._svg(figure, "tight")

    def stylesheet(self) -> str:
        """Classes and variables of all pictures so far."""
        light = "".join(f"{name}:{colour};" for colour, name in self._colours.items())
        dark = "".join(f"{name}:{_dark(colour)};" for colour, name in self._colours.items())
        classes = "".join(f".{name}{{{style}}}" for style, name in self._classes.items())
        return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{classes}"

    def _svg(self, figure: Figure, box: Any) -> str:
        text, panels = StringIO(), mark_axes(figure)
        figure.savefig(
            text, format="svg", transparent=True, bbox_inches=box, dpi=150, metadata={"Date": None, "Creator": None}
        )
        self._drawn += 1
        root = ElementTree.fromstring(text.getvalue())
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        _without(root, {"metadata", "style"})
        look = look_of(panels, root)
        self._rewrite(root, f"p{self._drawn}-")
        width, height = (float(x) for x in root.attrib["viewBox"].split()[2:])
        root.attrib.clear()
        root.attrib |= {"viewBox": f"0 0 {width:.1f} {height:.1f}", "aria-hidden": "true", "focusable": "false"}
        if look:
            root.set("data-look", look)
        return ElementTree.tostring(root, encoding="unicode")

    def _rewrite(self, root: ElementTree.Element, prefix: str) -> None:
        marks = {e.get("id", ""): e for e in root.iter("path") if e.get("id")}
        for parent in list(root.iter()):
            self._dots(parent, marks)
        pointed = {_target(v) for e in root.iter() for v in e.attrib.values()} - {""}
        for element in root.iter():
            style = element.attrib.pop("style", "")
            if style:
                element.set("class", self._class(style))
            for name, value in list(element.attrib.items()):
                plain = name.rpartition("}")[2]
                if plain != name:
                    del element.attrib[name]
                if plain == "id":
                    if value in pointed:
                        element.set("id", prefix + value)
                    else:
                        del element.attrib["id"]
                    continue
                value = re.sub(r"#(?=[\w-])", f"#{prefix}", value) if _target(value) else value
                if plain in ("d", "points", "transform", "x", "y", "width", "height"):
                    value = " ".join(_NUMBER.sub(lambda m: f"{round(float(m[0]), 2):g}", value).split())
                element.set(plain, value)
            if element.tag != "text" and element.tag != "tspan":
                element.text = None
            element.tail = element.tail if element.tag == "tspan" else None
        _unnested(root)

    def _dots(self, parent: ElementTree.Element, marks: dict[str, ElementTree.Element]) -> None:
        """Joins the uses of one round marker under a parent into one path of dots."""
        uses = [e for e in parent if e.tag == "use"]
        if len(uses) < 8:
            return
        mark = marks.get(next((_target(v) for v in uses[0].attrib.values() if _target(v)), ""))
        style = uses[0].get("style", "")
        fill = re.search(r"fill: (#[0-9a-f]{6})", style)
        if mark is None or fill is None or mark.get("d", "").count("C") < 4:
            return
        if len({e.get("style", "") for e in uses}) > 1:
            return
        radius = abs(float(_NUMBER.findall(mark.get("d", "") + " 1.0")[0]))
        edge = re.search(r"stroke-width: ([\d.]+)", mark.get("style", "") + style)
        size = 2.0 * radius + (float(edge[1]) if edge else 1.0)
        faint = re.search(r"(?<!-)(?:fill-opacity|opacity): ([\d.]+)", style)
        look = f"fill: none; stroke: {fill[1]}; stroke-width: {size:.3g}; stroke-linecap: round"
        look += f"; stroke-opacity: {faint[1]}" if faint else ""
        at = dict.fromkeys(f"M{float(e.get('x', 0)):.1f} {float(e.get('y', 0)):.1f}h0" for e in uses)
        first = list(parent).index(uses[0])
        for e in uses:
            parent.remove(e)
        parent.insert(first, ElementTree.Element("path", {"d": "".join(at), "style": look}))

    def _class(self, style: str) -> str:
        size = _FONT.search(style)
        if size:
            style = _FONT.sub(f"font-size: {float(size[1]):g}px", style)
        kept = [x.strip() for x in style.split(";") if x.strip()]
        kept = sorted(x for x in kept if "round" in x or not x.startswith(_DROPPED))
        text = ";".join(kept).replace(": ", ":")
        text = _HEX.sub(lambda m: f"var({self._variable(m[0].lower())})", text)
        return self._classes.setdefault(text, f"s{len(self._classes)}")

    def _variable(self, colour: str) -> str:
        return self._colours.setdefault(colour, f"--c{colour[1:]}")


def _prepare(figure: Figure) -> None:
    """No title above the panels; dots that are many become pixels, and no others."""
    from matplotlib.lines import Line2D

    figures: list[Any] = [figure, *figure.subfigs]
    for part in figures:
        for read, write in ((part.get_suptitle, part.suptitle), (part.get_supxlabel, part.supxlabel),
                            (part.get_supylabel, part.supylabel)):  # fmt: skip
            if read():
                write("")
    for axes in figure.axes:
        for line in axes.get_lines():
            dots = isinstance(line, Line2D) and line.get_marker() not in ("None", None, "", " ")
            line.set_rasterized(dots and len(line.get_xdata()) > CROWD)  # type: ignore[arg-type]


def _target(value: str) -> str:
    """What an attribute points to inside its own drawing; "" for none."""
    if value.startswith("#"):
        return value[1:]
    found = re.fullmatch(r"url\(#([\w-]+)\)", value)
    return found[1] if found else ""


def _without(root: ElementTree.Element, tags: set[str]) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in tags:
                parent.remove(child)


def _unnested(root: ElementTree.Element) -> None:
    """Groups that say nothing give their children to their parents; empty ones go."""
    for parent in root.iter():
        flat: list[ElementTree.Element] = []
        stack = list(parent)
        while stack:
            child = stack.pop(0)
            if child.tag in ("g", "defs") and not len(child):
                continue
            if child.tag == "g" and not child.attrib:
                stack = [*child, *stack]
                continue
            flat.append(child)
        parent[:] = flat


def _dark(colour: str) -> str:
    """The colour on a dark ground: greys turned over, hues lifted until they can be seen."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5))
    hue, light, colourful = colorsys.rgb_to_hls(red, green, blue)
    if max(red, green, blue) - min(red, green, blue) < 0.15:
        light = 0.93 - 0.75 * light
    else:
        light, colourful = max(light, 0.66), min(colourful, 0.85)
    shown = colorsys.hls_to_rgb(hue, light, colourful)
    return "#" + "".join(f"{round(255 * x):02x}" for x in shown)
