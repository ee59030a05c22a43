"""The frame of a picture: what it is drawn on, and the file it is written to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from bayes_grpo.common.files import atomic_write, check_picture
from bayes_grpo.common.text import title_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from typing_extensions import TypeVar

    Canvas = TypeVar("Canvas", bound=Figure | SubFigure, default=Figure)


def canvas(figure: Canvas | None, size: tuple[float, float]) -> Canvas:
    """The canvas of a picture: the caller's figure, or a part of one, or a new one, not registered with pyplot."""
    from matplotlib.figure import Figure

    return cast("Canvas", Figure(figsize=size, layout="constrained")) if figure is None else figure


def one_panel(
    figure: Canvas | None, size: tuple[float, float], title: str = "", vertical: str = ""
) -> tuple[Canvas, Axes]:
    """The same with one panel over the steps, which has no frame at its top and right; title and axes in words."""
    figure = canvas(figure, size)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel("optimizer step", fontsize=9)
    axes.set_ylabel(vertical, fontsize=9)
    return figure, axes


def headline(figure: Canvas, text: str, width: int = 120, limit: int = 600, size: float = 10) -> None:
    """Writes a sentence above the whole figure, in lines of so many characters."""
    figure.suptitle(title_lines(text, width, limit), fontsize=size, x=0.01, ha="left")


def legend_below(figure: Canvas, axes: Axes) -> None:
    """Writes what axes show below the whole figure, in place of what stood there: over a fan there is no free place.

    In as many columns as fit into the width of the figure.
    """
    for old in list(figure.legends):
        old.remove()
    handles, labels = axes.get_legend_handles_labels()
    wide = figure.bbox.width / figure.dpi > 6.0
    size = 8 if wide else 7
    for columns in range(4 if wide else 2, 0, -1):
        legend = figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=size, frameon=False)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def save_plot(figure: Figure, path: str | Path) -> Path:
    """Writes a figure whole or not at all; the suffix names the format (png, pdf, svg). Returns the path.

    Raises:
        OutputError: The place cannot be written to, or the suffix is no picture format.
    """
    check_picture(path)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=130, format=Path(path).suffix.lstrip(".").lower())
    return Path(path)
