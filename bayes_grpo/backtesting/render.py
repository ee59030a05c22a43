"""A backtest on a terminal: the sentence first, then the table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bayes_grpo.backtesting.result import Backtest
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.text import safe


def render_backtest(backtest: Backtest, console: Console) -> None:
    """Prints a backtest.

    Args:
        backtest: The scores.
        console: Where to.
    """
    console.print(f"[bold]{safe(backtest.sentence, 600)}[/bold]")
    lines = backtest.lines
    if lines:
        console.print()
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("forecaster")
        table.add_column("", style="dim")
        table.add_column("CRPS", justify="right")
        table.add_column("log score", justify="right")
        table.add_column(f"{LEVEL:.0%} coverage", justify="right")
        for origin in lines[0].by_origin:
            table.add_column(f"CRPS (coverage) at {origin:.0%}", justify="right")
        for line in lines:
            table.add_row(
                line.name,
                line.kind,
                f"{line.crps:.3f}",
                f"{line.log_score:.2f}",
                f"{line.coverage:.2f}",
                *(f"{score:.3f} ({share:.2f})" for score, share in line.by_origin.values()),
            )
        console.print(table)
        console.print(
            "[dim]CRPS over the standard deviation of the curve, smaller is better; log score in units of the same, "
            "larger is better; every logged row after the origin counts alike[/dim]"
        )
    for line in backtest.refused:
        console.print(f"[dim]left out: {safe(line)}[/dim]")
