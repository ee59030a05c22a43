"""The result: a page with its pictures, the same results as data, and the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayes_grpo.common.files import written_whole
from bayes_grpo.common.results import Shown
from bayes_grpo.report.html import html_of
from bayes_grpo.report.page import Page


@dataclass(frozen=True, eq=False)
class Report(Shown):
    """A page.

    Attributes:
        page: What stands on it.
        style: Classes and colours of its pictures, CSS.
        results: What it rests on, ready for JSON.
        failed: Whether a fit on it did not converge; the page says so first.
    """

    page: Page
    style: str
    results: Mapping[str, Any]
    failed: bool = False

    @property
    def sentence(self) -> str:
        """The sentences at its top."""
        top = self.page.top
        first = [] if top is None else [f"{top.status.upper()}: {top.sentence} Do now: {top.action}"]
        return " ".join([*first, *(lead.sentence for lead in self.page.leads)])

    def html(self) -> str:
        """The whole page: one file that asks for nothing from outside."""
        return html_of(self.page, self.style)

    def to_dict(self) -> dict[str, Any]:
        """The results behind the page, ready for JSON."""
        return dict(self.results)


def save_report(report: Report, path: str | Path) -> Path:
    """Writes a page whole or not at all.

    Returns:
        The path written.

    Raises:
        OutputError: The place cannot be written to.
    """
    with written_whole(path) as temporary:
        temporary.write_text(report.html(), encoding="utf-8")
    return Path(path)
