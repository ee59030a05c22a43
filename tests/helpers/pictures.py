"""Parts of a figure to draw on."""

from typing import Any

from matplotlib.figure import Figure, SubFigure


def halves() -> tuple[SubFigure, SubFigure]:
    """The left and the right half of a new figure."""
    parts: Any = Figure(figsize=(24, 8), layout="constrained").subfigures(1, 2)
    return parts[0], parts[1]
