"""A page, the results behind it as data, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayes_grpo.common.files import written_whole
from bayes_grpo.common.results import Shown
from bayes_grpo.views.document import Document, shows
from bayes_grpo.views.html import html_of


@dataclass(frozen=True, eq=False)
class Report(Shown):
    """A page.

    Attributes:
        document: What it shows.
        results: What it rests on, ready for JSON.
        failed: Whether a fit on it did not converge.
    """

    document: Document
    results: Mapping[str, Any]
    failed: bool = False

    @property
    def sentence(self) -> str:
        """The sentences at its top."""
        return " ".join((*self.document.first_lines, *(p.sentence for p in self.document.points)))

    def html(self) -> str:
        """The whole page: one file that asks for nothing from outside."""
        return html_of(self.document)

    def to_dict(self) -> dict[str, Any]:
        """The results behind the page, ready for JSON."""
        return dict(self.results)


@shows(Report)
def report_document(report: Report) -> Document:
    """The document of a page."""
    return report.document


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
