"""A decision on a terminal: the sentence, the table of stopping steps, the budget question."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

from bayes_grpo.common.draws import spread
from bayes_grpo.common.text import safe
from bayes_grpo.decision.budget import amount
from bayes_grpo.decision.result import Decision, Stopping
from bayes_grpo.decision.split import Split

_SHOWN = 8
"""Stopping steps in the table, beside the recommended one; JSON holds all of them."""


def render_decision(decision: Decision, console: Console) -> None:
    """Prints a decision.

    Args:
        decision: The decision.
        console: Where to.
    """
    stopping = decision.stopping
    if stopping is not None:
        console.print(stopping.sentence, style="bold", markup=False)
        console.print(_table(stopping))
        best, level = stopping.best_step, f"{stopping.level:.0%}"
        console.print(
            f"best step in hindsight {best.median:g} [{best.low:g}, {best.high:g}] ({level}). {stopping.regrets}",
            markup=False,
        )
        if stopping.choice is not None and not stopping.stops_now:
            console.print(stopping.choice.sentence, markup=False)
        unit = f"in {stopping.unit}" if stopping.unit else "in the unit of the costs given"
        console.print(
            f"values {unit}, of the underlying reward: {amount(stopping.value_per_reward)} a unit of reward, "
            f"{amount(stopping.cost_per_step)} a step",
            style="dim",
            markup=False,
        )
    if decision.budget is not None:
        console.print(decision.budget.sentence, markup=False)
    if decision.cost_told:
        console.print(f"cost from the log: {safe(decision.cost_told)}", style="dim", markup=False)
    for line in decision.warnings:
        console.print(f"[yellow]warning:[/yellow] {line}")


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


def _table(stopping: Stopping) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("stop at step", "expected gain", "net value", f"{stopping.level:.0%} interval", "P(best)"):
        table.add_column(column, justify="right")
    table.add_column("")
    word = "recommended" if stopping.limit is None else "best fixed step"
    bounds = np.unique(np.append(_shown(stopping), len(stopping.step)))
    for i, j in pairwise(bounds):
        mark = word if stopping.step[i] == stopping.recommended else ""
        table.add_row(
            f"{'now, ' if i == 0 else ''}{stopping.step[i]:g}",
            f"{stopping.gain[i]:+.3f}",
            amount(float(stopping.net[i])),
            f"\\[{amount(float(stopping.net_low[i]))}, {amount(float(stopping.net_high[i]))}]",
            f"{stopping.best[i:j].sum():.2f}",
            mark,
        )
    table.caption = "P(best): that the best step lies between this row and the next"
    table.caption_justify = "left"
    return table


def _shown(stopping: Stopping) -> np.ndarray:
    """Rows of the table: evenly spread, with now, the recommended step and the end."""
    n = len(stopping.step)
    picks = np.unique(spread(n, _SHOWN))
    return np.unique(np.append(picks, int(np.argmin(np.abs(stopping.step - stopping.recommended)))))
