"""What sections share: figures of the page's sizes, intervals and quantities in cells, sections without a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.text import plain
from bayes_grpo.report.page import Cell, Picture, Section, Size, number
from bayes_grpo.report.svg import Pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE = (9.2, 3.7)
"""Inches of a picture as wide as the page."""
NARROW = (4.1, 3.4)
"""Inches of the same for a phone."""
SMALL = (3.6, 2.4)
"""Inches of a picture of which three stand side by side."""


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def drawn(
    pictures: Pictures,
    draw: Callable[[Figure], object],
    alt: str,
    caption: str = "",
    narrow: Callable[[Figure], object] | None = None,
) -> Picture:
    """A picture as wide as the page, and the same for a phone.

    Args:
        pictures: Where drawings are gathered.
        draw: Draws on an empty figure.
        alt: What it shows, in a sentence.
        caption: Line below it.
        narrow: Draws for a phone; ``draw`` if None.
    """
    wide, small = new_figure(_WIDE), new_figure(NARROW)
    draw(wide)
    (narrow or draw)(small)
    return Picture(pictures.whole(wide), plain(alt, 700), caption, pictures.whole(small))


def panels(
    pictures: Pictures, figure: Figure, told: list[tuple[int, str, str]], size: Size = "small"
) -> tuple[Picture, ...]:
    """Panels of a figure as small pictures.

    Args:
        pictures: Where drawings are gathered.
        figure: The figure.
        told: Place of each panel among the figure's axes, what it shows, and the line below it.
        size: How much of the page's width each takes.
    """
    titles = [untitled(figure.axes[i]) for i, _, _ in told]
    cut = pictures.cut(figure, [figure.axes[i] for i, _, _ in told])
    return tuple(
        Picture(svg, plain(alt, 700), caption, title=title, size=size)
        for svg, title, (_, alt, caption) in zip(cut, titles, told, strict=True)
    )


def untitled(axes: Axes) -> str:
    """Takes the title of a panel out of the drawing; the page sets it, in a size that can be read."""
    title = " ".join((axes.get_title(loc="left") or axes.get_title()).replace(r"\$", "$").split())
    for where in ("left", "center"):
        axes.set_title("", loc=where)
    return plain(title, 120)


def nothing(key: str, title: str, question: str, reason: str) -> Section:
    """A section of which only the reason is known why it is empty."""
    return Section(key, title, question, missing=plain(reason, 600))


def digits(value: float, form: str = ".4g") -> str:
    """A number in few digits; "never" for an infinite step, "" for one that is not known."""
    if math.isnan(value):
        return ""
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    shown = format(value, form)
    return f"{value:,.0f}" if "e+" in shown and abs(value) < 1e7 else shown


def span(i: Interval, form: str = ".4g") -> str:
    """The ends of an interval."""
    return "" if math.isnan(i.median) else f"[{digits(i.low, form)}, {digits(i.high, form)}]"


def estimate(i: Interval, form: str = ".4g") -> tuple[Cell, Cell]:
    """Median and interval, in two cells."""
    return number(digits(i.median, form)), number(span(i, form))
