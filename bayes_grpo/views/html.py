"""A document as one HTML file: nothing from outside, one script of our own, and a policy that forbids all else."""

from __future__ import annotations

import base64
import hashlib
import unicodedata
import warnings
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.common.intervals import percent
from bayes_grpo.common.text import plain
from bayes_grpo.views.document import Document, Drawing
from bayes_grpo.views.glossary import anchor, chosen
from bayes_grpo.views.svg import STYLE, image_of

if TYPE_CHECKING:
    from jinja2 import Environment

_LINE = 1000
"""Characters of a line."""
_WIDTHS = {"whole": 9.2, "half": 6.0, "small": 3.6}
"""Inches of a figure on a screen."""
_PHONE = (4.1, 3.4)
"""Inches of a whole figure on a phone."""


class Drawn(NamedTuple):
    """A figure as an image: for a screen, and for a phone ("" where it is the same)."""

    plot: Drawing
    wide: str
    narrow: str


def html_of(document: Document) -> str:
    """The document as HTML; all text in it is escaped."""
    from matplotlib import rc_context

    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesGrpoWarning)
        hero = None if document.plot is None else _drawn(document.plot)
        drawn = {s.key: [x for p in s.plots if (x := _drawn(p))] for s in document.sections}
    css, script = _read("style.css"), _read("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash(css)}; script-src {_hash(script)}; img-src data:; base-uri 'none'; "
        f"form-action 'none'"
    )
    sections = [s for s in document.sections if not s.empty]
    used = [
        cell.term for s in sections for t in s.tables for line in (t.columns, *t.rows) for cell in line if cell.term
    ]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=document,
            sections=sections,
            hero=hero,
            drawn=drawn,
            glossary=chosen([*used, *(x for s in sections for x in s.terms)]),
            css=css,
            script=script,
            policy=policy,
        )
    )


def _drawn(plot: Drawing) -> Drawn | None:
    """A figure; None where it cannot be drawn, which must not cost the page."""
    from matplotlib.figure import Figure

    def image(size: tuple[float, float]) -> str:
        figure = Figure(figsize=size, layout="constrained")
        plot.draw(figure=figure)
        return image_of(figure)

    with suppress(Exception):
        width = _WIDTHS[plot.size]
        narrow = image(_PHONE) if plot.size == "whole" else ""
        return Drawn(plot, image((width, width * plot.ratio)), narrow)
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
    """What goes into the page, without control characters, whatever room it comes from."""
    if not isinstance(value, str) or hasattr(value, "__html__"):  # numbers, and what is HTML already
        return value
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else " " for c in value)


@cache
def _read(name: str) -> str:
    return files("bayes_grpo.views").joinpath("templates", name).read_text(encoding="utf-8")
