"""A table of populations on a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from bayes_grpo.common.text import plain
from bayes_grpo.learning.table import PriorTable


def render_prior_table(table: PriorTable, refused: list[str], out: Path, console: Console) -> None:
    """Prints what was learned.

    Args:
        table: The table.
        refused: Sentences about logs and fits that could not be used.
        out: Where the table was written.
        console: Where to.
    """
    counts = table.provenance["repositories"]
    logs, groups = table.provenance["logs"], len(counts)
    console.print(
        f"Learned from {logs} logs of {groups} {'repository' if groups == 1 else 'repositories'}, written to "
        f"{plain(out)}; use it with --prior corpus --prior-table {plain(out)}",
        style="bold",
        markup=False,
    )
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("law", "parameter"):
        shown.add_column(column)
    for column in ("mean", "sd, new log", "between repositories", "within"):
        shown.add_column(column, justify="right")
    for regime, population in table.regimes.items():
        mean, sd = population.predictive(population.centres)
        for i, name in enumerate(table.parameters[regime]):
            shown.add_row(
                regime if i == 0 else "",
                name,
                f"{mean[i]:+.2f}",
                f"{sd[i]:.2f}",
                f"{population.between[i]:.2f}",
                f"{population.spread[i]:.2f}",
            )
    shown.caption = (
        "times as log(time / length of the log), noises as log(sd / sd of the rows), levels in sds of the rows "
        "(the fixed point in sixths of the way up to 1 where that is more)"
    )
    shown.caption_justify = "left"
    console.print(shown)
    for regime, verdict in table.provenance.get("convergence", {}).items():
        if not verdict["passed"]:
            console.print(f"{plain(regime)}: {plain(verdict['sentence'])}", style="bold red", markup=False)
    if refused:
        console.print(f"{len(refused)} logs or fits were left out, the first: {plain(refused[0])}", markup=False)
