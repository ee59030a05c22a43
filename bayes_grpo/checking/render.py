"""A check on a terminal: the sentence first, then the table, then each finding."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bayes_grpo.checking.result import ALERT, Check
from bayes_grpo.common.text import safe


def render_check(check: Check, console: Console) -> None:
    """Prints a check.

    Args:
        check: The check.
        console: Where to.
    """
    about = check.about
    console.print(f"[dim]{safe(about.source)}: {about.rows} rows of {safe(about.signal)}[/dim]")
    if not check.converged:
        console.print("NOT CONVERGED, do not rely on this:", style="bold red", markup=False)
    console.print(check.sentence, style="bold", markup=False)
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("check", "statistic", "replicated median", "95% of replicates below", "tail probability"):
        table.add_column(column, justify="left" if column == "check" else "right")
    for f in check.findings:
        shown = f"{f.tail:.3f}" if f.tail >= 0.001 else "< 0.001"
        mark = "[yellow]" if f.tail < ALERT else ""
        table.add_row(f.name, f"{f.statistic:.3g}", f"{f.expected:.3g}", f"{f.limit:.3g}", f"{mark}{shown}")
    console.print(table)
    for f in check.findings:
        console.print(f.sentence, markup=False)
