"""A document as one HTML file: nothing from outside, figures as SVG, one script, and a policy that forbids all else."""

from __future__ import annotations

import base64
import hashlib
import unicodedata
import warnings
from contextlib import suppress
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from cycler import cycler

from bayes_grpo.common.document import Document, Drawing
from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.common.intervals import percent
from bayes_grpo.common.text import plain
from bayes_grpo.views.glossary import GLOSSARY, anchor

if TYPE_CHECKING:
    from jinja2 import Environment
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


_LINE = 1000
"""Characters of a line."""
_WIDTHS = {"whole": 9.2, "half": 6.0, "small": 3.6}
"""Inches of a figure on a screen."""
_PHONE = (4.1, 3.4)
"""Inches of a whole figure on a phone."""


class FigureImage(NamedTuple):
    """A figure as an image: for a screen, and for a phone ("" where it is the same)."""

    plot: Drawing
    wide: str
    narrow: str


def html_of(document: Document, images: dict[Drawing, FigureImage | None] | None = None) -> str:
    """The document as HTML, all text escaped; ``images`` are figures drawn already, to which new ones are added."""
    from matplotlib import rc_context

    images = {} if images is None else images
    wanted = [*([] if document.plot is None else [document.plot]), *(p for s in document.sections for p in s.plots)]
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)
        images |= {plot: _drawn(plot) for plot in wanted if plot not in images}
    hero = None if document.plot is None else images[document.plot]
    drawn = {s.key: [x for p in s.plots if (x := images[p])] for s in document.sections}
    css, script = _read("style.css"), _read("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash(css)}; script-src {_hash(script)}; img-src data:; base-uri 'none'; "
        f"form-action 'none'"
    )
    sections = [s for s in document.sections if not s.empty]
    used = {cell.term for s in sections for t in s.tables for line in (t.columns, *t.rows) for cell in line}
    used |= {term for s in sections for term in s.terms}
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=document,
            sections=sections,
            hero=hero,
            drawn=drawn,
            glossary={x: GLOSSARY[x] for x in sorted(used & GLOSSARY.keys(), key=str.lower)},
            css=css,
            script=script,
            policy=policy,
        )
    )


def _drawn(plot: Drawing) -> FigureImage | None:
    """A figure; None where it cannot be drawn, which must not cost the page."""
    from matplotlib.figure import Figure

    def image(size: tuple[float, float]) -> str:
        figure = Figure(figsize=size, layout="constrained")
        plot.draw(figure=figure)
        return image_of(figure)

    with suppress(Exception):
        width = _WIDTHS[plot.size]
        narrow = image(_PHONE) if plot.size == "whole" else ""
        return FigureImage(plot, image((width, width * plot.ratio)), narrow)
    return None


def _hash(text: str) -> str:
    """The source of a policy that lets this text through and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("bayes_grpo.views"),
        autoescape=True,
        finalize=_clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"anchor": anchor, "percent": percent, "line": lambda text: plain(text, _LINE)}
    return found


def _clean(value: Any) -> Any:
    """Text for the page, without control characters, whatever room it comes from."""
    if not isinstance(value, str) or hasattr(value, "__html__") or value.isprintable():  # numbers, HTML, pictures
        return value
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else " " for c in value)


@cache
def _read(name: str) -> str:
    return files("bayes_grpo.views").joinpath("templates", name).read_text(encoding="utf-8")
