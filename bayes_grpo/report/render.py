"""The top of a page on a terminal: its sentences, each with its probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayes_grpo.common.text import safe
from bayes_grpo.report.result import Report

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"alarm": "bold red", "doubt": "yellow", "good": "green"}


def render_report(report: Report, console: Console) -> None:
    """Prints what stands at the top of a page, and which sections it lacks.

    Args:
        report: The page.
        console: Where to.
    """
    page = report.page
    console.print(f"[dim]{safe(page.title)}: {safe(page.about)}[/dim]")
    if page.alert:
        console.print(f"[bold red]{safe(page.alert, 600)}[/bold red]")
    if page.top is not None:
        top, style = page.top, _STYLES.get(page.top.tone, "bold")
        stands = f"{top.status.upper()} ({top.chance}): {top.sentence} Do now: {top.action}"
        console.print(f"[{style}]{safe(stands, 1200)}[/{style}]")
    for lead in page.leads:
        style = _STYLES.get(lead.tone, "bold")
        chance = f" ({safe(lead.chance)})" if lead.chance else ""
        console.print(f"[{style}]{safe(lead.label)}{chance}[/{style}]: {safe(lead.sentence, 1200)}")
    for section in page.sections:
        if section.missing:
            console.print(f"[yellow]not on the page:[/yellow] {safe(section.title)}: {safe(section.missing, 600)}")
