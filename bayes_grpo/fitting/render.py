"""A fit's summary on a terminal: the verdict first, then the table, then what was assumed."""

from __future__ import annotations

import math

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.common.text import safe
from bayes_grpo.fitting.sensitivity import CONFLICT, STRONG_PRIOR, THRESHOLD
from bayes_grpo.fitting.summary import Summary, SummaryRow


def render_fit(summary: Summary, console: Console) -> None:
    """Prints a summary.

    Args:
        summary: The summary.
        console: Where to.
    """
    about = summary.about
    console.print(
        f"[dim]{safe(about.source)}: {about.rows} rows of {safe(about.signal)}, steps "
        f"{about.first_step:g} to {about.last_step:g}, read as {safe(summary.log_format)}[/dim]"
    )
    style = "bold" if summary.convergence.passed else "bold red"
    console.print(f"[{style}]{safe(summary.verdict, 600)}[/{style}]")
    console.print()
    console.print(_table(summary))
    console.print(
        f"[dim]sensitivity to prior / data by power scaling; from {THRESHOLD:g} on it moves the quantity[/dim]"
    )
    if "overdamped" in summary.probabilities:
        p = summary.probabilities
        console.print(
            "   ".join(
                f"P({name}) {probability_text(p[name])}" for name in ("overdamped", "oscillatory", "unstable", "growth")
            )
        )
    b = summary.bayes_r2
    console.print(
        f"R² of the mean law {summary.r2:.3f}, of the latent reward {summary.r2_latent:.3f}; "
        f"Bayesian R² {b.median:.3f} [{b.low:.3f}, {b.high:.3f}] ({b.level:.0%})"
    )
    console.print(escape(summary.convergence.sentence))
    if summary.measured:
        console.print(safe(summary.measured, 600))
    for line in summary.warnings:
        console.print(f"[yellow]warning:[/yellow] {safe(line, 600)}")
    if summary.assumed:
        console.print("[dim]assumed (nobody stated them; flags or a sidecar change them):[/dim]")
        for line in summary.assumed:
            console.print(f"[dim]  {safe(line)}[/dim]")
    for line in summary.notes:
        console.print(f"[dim]note: {safe(line)}[/dim]")


def _table(summary: Summary) -> Table:
    level = summary.interval_level
    table = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    table.add_column("quantity")
    table.add_column("median", justify="right")
    table.add_column(f"{level:.0%} interval", justify="right")
    table.add_column("unit")
    table.add_column("prior", justify="right", style="dim")
    table.add_column("contraction", justify="right")
    table.add_column("sensitivity")
    for row in summary.rows:
        p, q = row.posterior, row.prior
        mark = " [yellow]mostly prior[/yellow]" if row.mostly_prior else ""
        table.add_row(
            row.name,
            f"{p.median:.4g}",
            f"[{p.low:.4g}, {p.high:.4g}]".replace("[", r"\["),
            row.unit,
            f"[{q.low:.3g}, {q.high:.3g}]".replace("[", r"\["),
            "" if math.isnan(row.contraction) else f"{max(row.contraction, 0.0):.0%}{mark}",
            _sensitivity(row),
        )
    return table


_SHORT = {CONFLICT: " [yellow]both[/yellow]", STRONG_PRIOR: " [yellow]prior[/yellow]"}


def _sensitivity(row: SummaryRow) -> str:
    """Both sensitivities, and what moves the quantity where the prior does."""
    if math.isnan(row.prior_sensitivity):
        return ""
    return f"{row.prior_sensitivity:.2f} / {row.likelihood_sensitivity:.2f}{_SHORT.get(row.diagnosis, '')}"
