"""What a picture says under the pointer: where its axes lie in the drawing, their scales, and the lines on them.

It stands as JSON in an attribute of the drawing, which the page's own script reads (`templates/page.js`).
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.text import drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_POINTS = 160
"""Points of a line that are kept: a pointer cannot aim at more."""
_LINES = 9
"""Lines of a panel whose values are told."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_SCALES = ("linear", "log")


def mark_axes(figure: Figure) -> list[Axes]:
    """Names the ground of every panel, so that its place is found in the drawing; the panels in order."""
    shown = [a for a in figure.axes if a.get_visible() and a.axison and {a.get_xscale(), a.get_yscale()} <= {*_SCALES}]
    for i, axes in enumerate(shown):
        axes.patch.set_gid(f"look-{i}")
    return shown


def look_of(panels: Sequence[Axes], root: ElementTree.Element) -> str:
    """What the panels of a drawing say under the pointer, as JSON; "" where there is nothing.

    Args:
        panels: As `mark_axes` gave them.
        root: The drawing as Matplotlib wrote it.
    """
    grounds = {e.get("id", ""): e.find("path") for e in root.iter("g") if e.get("id", "").startswith("look-")}
    told = []
    for i, axes in enumerate(panels):
        path = grounds.get(f"look-{i}")
        lines = [x for line in axes.get_lines() if (x := _line(axes, line))][:_LINES]
        if path is None or not lines:
            continue
        at = np.array([float(x) for x in _NUMBER.findall(path.get("d", ""))]).reshape(-1, 2)
        box = (*at.min(axis=0), *at.max(axis=0))
        told.append(
            {
                "box": [round(float(v), 1) for v in box],
                "x": [_short(v) for v in axes.get_xlim()],
                "log": axes.get_xscale() == "log",
                "name": drawable(axes.get_xlabel() or "step", 40),
                "lines": lines,
            }
        )
    return json.dumps(told, separators=(",", ":")) if told else ""


def _line(axes: Axes, line: Line2D) -> list[Any] | None:
    """Name, colour and points of a line in order; None for marks, guides and what is not drawn on the data."""
    x, y = (np.asarray(v) for v in (line.get_xdata(), line.get_ydata()))
    if len(x) < 3 or x.dtype.kind not in "fiu" or y.dtype.kind not in "fiu" or line.get_transform() != axes.transData:
        return None
    keep = np.isfinite(x) & np.isfinite(y)
    x, y = x[keep], y[keep]
    if len(x) < 3 or np.any(np.diff(x) < 0):
        return None
    some = np.unique(np.linspace(0, len(x) - 1, min(len(x), _POINTS)).astype(int))
    label = str(line.get_label())
    name = drawable(axes.get_ylabel() if label.startswith("_") else label, 40)
    return [name or "value", [_short(v) for v in x[some]], [_short(v) for v in y[some]]]


def _short(value: float) -> float:
    return float(f"{float(value):.4g}")
