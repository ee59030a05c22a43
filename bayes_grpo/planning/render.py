"""Stability and group sizes on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.planning.result import GroupSizePlan, StabilityReport

_NAMES = {"rule": "published rule", "delay": "constant delay, exact", "hold": "hold, exact"}


def render_stability(report: StabilityReport, console: Console, note: str = "") -> None:
    """Prints a stability report: the sentence first, then a line a lag model.

    Args:
        report: The report.
        console: Where to.
        note: Where the curvature comes from.
    """
    console.print(report.sentence, style="bold", markup=False)
    console.print(_thresholds(report))
    console.print(f"Without lag, oscillation sets in at g = {report.onset:.4g}.", markup=False)
    ratio = report.stiffness_ratio
    if ratio is not None and not report.circular:
        console.print(
            f"P(stable) of a margin by itself, the stiffest direction {ratio.median:.3g} times as stiff as the reward "
            f"shows ({ratio.level:.0%} interval {ratio.low:.3g} to {ratio.high:.3g}, learned from small networks).",
            style="dim",
            markup=False,
        )
    if note:
        console.print(f"curvature: {note}", style="dim", markup=False)


def render_group_sizes(
    plans: Sequence[GroupSizePlan], success_rates: Sequence[float], prompts_per_step: int, console: Console
) -> None:
    """Prints what each group size buys.

    Args:
        plans: A plan a group size.
        success_rates: Success rates that they were made for.
        prompts_per_step: Prompts an optimizer step.
        console: Where to.
    """
    rates = ", ".join(f"{p:g}" for p in success_rates)
    console.print(f"Group sizes at success rates {rates}, {prompts_per_step} prompts a step:", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("G", "fluctuation (to G = 8)", "sd of a logged row", "usable groups", "speed of drift"):
        table.add_column(column, justify="right")
    for p in plans:
        table.add_row(
            str(p.group_size),
            f"{p.fluctuation:.2f}",
            f"{p.row_sd:.3f}",
            f"{p.usable_share:.0%}",
            f"{p.drift_factor:.2f}",
        )
    console.print(table)


def _thresholds(report: StabilityReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    heads = ("lag model", "largest stable g", f"margin ({report.level:.0%} interval)", "P(stable)")
    for column in heads:
        table.add_column(column, justify="left" if column == "lag model" else "right")
    for verdict in (report.rule, report.delay, report.hold):
        m = verdict.margin
        shown = f"{m.median:.3g}" if report.n_draws == 1 else rf"{m.median:.3g} \[{m.low:.3g}, {m.high:.3g}]"
        told = "circular" if report.circular else probability_text(verdict.probability_stable)
        table.add_row(_NAMES[verdict.lag_model], f"{verdict.threshold:.4g}", shown, told)
    g = report.gain
    table.caption = f"g = η K with the convention's factor: {g.median:.4g}" + (
        "" if report.n_draws == 1 else rf" \[{g.low:.3g}, {g.high:.3g}]"
    )
    return table
