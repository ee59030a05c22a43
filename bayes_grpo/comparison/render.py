"""A comparison and a check on a terminal: the sentence first, then the table, then what not to believe."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.common.text import safe
from bayes_grpo.comparison.result import Comparison, ComparisonLine


def render_comparison(comparison: Comparison, console: Console) -> None:
    """Prints a comparison.

    Args:
        comparison: The comparison.
        console: Where to.
    """
    about = comparison.about
    console.print(f"[dim]{safe(about.source)}: {about.rows} rows of {safe(about.signal)}[/dim]")
    console.print(comparison.sentence, style="bold", markup=False)
    console.print()
    console.print(_table(comparison))
    origins = comparison.forecast_origins
    console.print(
        "[dim]elpd: log predictive density of every row given all others (PSIS leave-one-out); weight: stacking, which "
        "picks among near equals: 1 is no proof[/dim]"
    )
    if origins:
        console.print(
            f"[dim]LFO: log density of the rows from step {origins[0]:g} on, in {len(origins)} blocks, each row given "
            "all rows before it (chain rule); ahead: mean log density of such a row given the rows before its block of "
            f"{comparison.horizon_rows} alone; its weight: for forecasts, drawn towards equal ones[/dim]"
        )
    for name, p in comparison.damping.items():
        words = "   ".join(f"P({k}) {probability_text(p[k])}" for k in ("overdamped", "oscillatory", "unstable"))
        unseen = p["oscillatory"] > 0.5 and p["half_period_seen"] < 0.5
        note = "   (less than half a period in the data: a slow start, no oscillation)" if unseen else ""
        console.print(f"within {name}: {words}{note}", markup=False)
    for line in comparison.cautions:
        console.print(f"[yellow]note:[/yellow] {safe(line, 600)}")


def _table(comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("law")
    for column in ("elpd", "difference ± error", "p_worse", "weight", "R²", "LFO difference", "ahead", "its weight"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for x in comparison.lines:
        difference = "" if x.verdict == "best" else f"{x.difference:.1f} ± {x.difference_se:.1f}"
        table.add_row(
            x.regime,
            f"{x.elpd:.1f}",
            difference,
            "" if math.isnan(x.p_worse) else probability_text(x.p_worse),
            f"{x.weight:.2f}",
            f"{x.r2 + 0.0:.2f}",
            _ahead(x),
            _number(x.forecast_score, ".2f"),
            _number(x.weight_lfo, ".2f"),
            _verdict(x) + (f", {x.high_k} rows with high Pareto k" if x.high_k else ""),
        )
    return table


def _ahead(x: ComparisonLine) -> str:
    if math.isnan(x.lfo):
        return ""
    return "best" if x.verdict_ahead == "best" else f"{x.lfo_difference:.1f} ± {x.lfo_difference_se:.1f}"


def _verdict(x: ComparisonLine) -> str:
    ahead = x.verdict_ahead
    return f"{x.verdict}, {ahead} ahead" if ahead in ("best", "worse") and ahead != x.verdict else x.verdict


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else format(value, form)
