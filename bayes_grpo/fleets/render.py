"""A fleet on a terminal: the sentence first, then a line a log, task and law, then what went wrong."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.common.text import safe
from bayes_grpo.fleets.result import Fleet, status_of_row

_SHOWN = 60
"""Lines that are printed; the table has all."""


def render_fleet(fleet: Fleet, console: Console) -> None:
    """Prints a fleet.

    Args:
        fleet: The result.
        console: Where to.
    """
    console.print(f"[bold]{safe(fleet.sentence, 600)}[/bold]")
    rows = fleet.records
    good, bad = ([r for r in rows if bool(r["error"]) is failed] for failed in (False, True))
    if good:
        console.print()
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("log", "task", "regime"):
            table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=36)
        for name in ("rows", "last step"):
            table.add_column(name, justify="right")
        table.add_column(f"median [{LEVEL:.0%} interval], probability", overflow="fold")
        for row in good[:_SHOWN]:
            number = f"{row['last_step']:g}"
            table.add_row(
                safe(row["log"]),
                row["task"],
                safe(row["regime"]),
                str(row["rows"]),
                number,
                safe(SHORT[row["task"]](row)),
            )
        console.print(table)
        _rest(console, len(good))
    if bad:
        console.print()
        for row in bad[:_SHOWN]:
            what = "" if row["task"] == "read" else f", {row['task']} {row['regime']}".rstrip()
            console.print(f"[red]{safe(row['log'])}{safe(what)}[/red]: {safe(row['error'])}")
        _rest(console, len(bad))


def _rest(console: Console, n: int) -> None:
    if n > _SHOWN:
        console.print(f"[dim]… and {n - _SHOWN} more in the table[/dim]")


def _fit(row: dict[str, Any]) -> str:
    failed = "" if row["converged"] else "NOT CONVERGED: "
    growth = row.get("p_growth")
    return f"{failed}settles at {_interval(row, 'fixed_point')}" + (
        "" if growth is None else f", P(growth) {probability_text(growth)}"
    )


def _forecast(row: dict[str, Any]) -> str:
    return (
        f"{_interval(row, 'at_horizon')} at step {row['until']:g} ({row['until_from']}), gain {_interval(row, 'gain')}"
    )


def _diagnose(row: dict[str, Any]) -> str:
    if not row.get("status"):  # a table that was written before there was one
        return f"{status_of_row(row)} {probability_text(row['p_' + row['answer']])}"
    return f"{status_of_row(row)} {probability_text(row['p_status'])}: {row['to_do']}"


SHORT = {"fit": _fit, "forecast": _forecast, "diagnose": _diagnose}
"""A row in a few words."""


def _interval(row: dict[str, Any], name: str) -> str:
    low, median, high = (row.get(f"{name}_{q}") for q in ("5", "50", "95"))
    if low is None or median is None or high is None:
        return "unknown"
    return f"{median:.3g} [{low:.3g}, {high:.3g}]"
