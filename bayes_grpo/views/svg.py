"""Figures as SVG images inside a page: addresses that hold the whole picture."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Any

from cycler import cycler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CROWD = 400
"""Dots of one series from which on they are pixels."""
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bayes-grpo",
    "font.sans-serif": ["Segoe UI", "Roboto", "Helvetica Neue", "Noto Sans", "Arial", "DejaVu Sans"],
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


def image_of(figure: Figure) -> str:
    """A figure as a data address, without its title, which the page has in words; dots that are many are pixels."""
    figure.suptitle("")
    for axes in figure.axes:
        for line in axes.get_lines():
            dots = line.get_marker() not in ("None", None, "", " ")
            line.set_rasterized(dots and len(line.get_xdata()) > CROWD)  # type: ignore[arg-type]
    file = BytesIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None}
    figure.savefig(file, format="svg", transparent=True, bbox_inches="tight", dpi=150, metadata=metadata)
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"
