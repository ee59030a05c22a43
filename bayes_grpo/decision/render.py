"""How steps are split over runs, on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bayes_grpo.common.text import safe
from bayes_grpo.decision.split import Split


def render_split(split: Split, console: Console) -> None:
    """Prints how steps are split over runs.

    Args:
        split: The split.
        console: Where to.
    """
    console.print(split.sentence, style="bold", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run")
    for column in ("step now", "go on to", "steps", "P(best in the end)"):
        table.add_column(column, justify="right")
    for run in split.runs:
        until = f"{run.until:g}" if run.steps > 0.0 else "stop"
        table.add_row(safe(run.name), f"{run.now:g}", until, f"{run.steps:g}", f"{run.best:.2f}")
    console.print(table)
