"""A page as one HTML file: nothing from outside, one script of our own, and a policy that forbids all else."""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.text import plain
from bayes_grpo.report.glossary import anchor
from bayes_grpo.report.manual import MANUAL
from bayes_grpo.report.page import Page

if TYPE_CHECKING:
    from jinja2 import Environment


LINE_LIMIT = 1000
"""Characters of a sentence or a line."""


def html_of(page: Page, style: str) -> str:
    """The page as HTML.

    Args:
        page: What stands on it; all of it plain text but the pictures, which Matplotlib drew.
        style: CSS of the pictures.
    """
    css = f"{_read('style.css')}\n{style}"
    script = _read("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash(css)}; script-src {_hash(script)}; img-src data:; base-uri 'none'; "
        f"form-action 'none'"
    )
    return _environment().get_template("page.html.j2").render(page=page, css=css, script=script, policy=policy)


def _hash(text: str) -> str:
    """The source of a policy that lets this text through and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("bayes_grpo.report"),
        autoescape=True,
        finalize=_clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["anchor"] = anchor
    found.globals["manual"] = MANUAL
    found.filters["line"] = lambda text: plain(text, LINE_LIMIT)
    return found


def _clean(value: Any) -> Any:
    """What goes into the page, without control characters, whatever room it comes from."""
    if not isinstance(value, str) or hasattr(value, "__html__"):  # numbers, and what is HTML already
        return value
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else " " for c in value)


@cache
def _read(name: str) -> str:
    return files("bayes_grpo.report").joinpath("templates", name).read_text(encoding="utf-8")
