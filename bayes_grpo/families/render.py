"""A family and a comparison of recipes on a terminal: the sentence first, then the table, then what not to believe."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from bayes_grpo.common.intervals import LEVEL, Interval, probability_text
from bayes_grpo.common.text import safe
from bayes_grpo.families.compared import Compared
from bayes_grpo.families.result import Exponent, Family


def render_family(family: Family, console: Console) -> None:
    """Prints a family.

    Args:
        family: The family.
        console: Where to.
    """
    studies = f" of {family.studies} studies" if family.studies > 1 else ""
    console.print(
        f"[dim]{len(family.runs)} runs{studies}, law {safe(family.regime)}, signal {safe(family.signal)}; "
        f"{family.replicates} of them share all settings with another[/dim]"
    )
    console.print(family.sentence, style="bold", markup=False)
    console.print()
    console.print(_exponents(family.exponents))
    console.print(
        f"[dim]quantity ∝ setting^exponent; intervals {LEVEL:.0%}; of a level the exponent is its change over its own "
        "size at the middle of the settings; theory: to leading order, and with finite groups; learned: 1 − posterior "
        "over prior variance[/dim]"
    )
    console.print()
    console.print(_runs(family))
    console.print(
        "[dim]between runs of the same settings: "
        + "; ".join(f"{s.words} ± {_short(s.posterior)} (prior {_short(s.prior)})" for s in family.spreads)
        + "[/dim]"
    )
    if family.orders is not None:
        console.print(f"[dim]{safe(family.orders.sentence, 600)}[/dim]")
    for name, other in family.transfer.items():
        console.print()
        console.print(f"{safe(name)}: {safe(other.sentence, 900)}", style="bold")
        console.print(_exponents(other.exponents))
    for line in family.cautions:
        console.print(f"[yellow]note:[/yellow] {safe(line, 600)}")


def _exponents(exponents: tuple[Exponent, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("quantity")
    table.add_column("setting")
    for column in ("exponent", "prior", "theory", "P(as theory)", "P(none)", "learned"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict")
    for e in exponents:
        table.add_row(
            e.words,
            safe(e.setting),
            _short(e.posterior, "+.2f"),
            f"[{e.prior.low:+.2f}, {e.prior.high:+.2f}]".replace("[", r"\["),
            _theory(e),
            "" if math.isnan(e.p_predicted) else probability_text(e.p_predicted),
            probability_text(e.p_zero),
            f"{e.contraction:.2f}",
            e.verdict + ("" if e.relative else " (over the range)"),
        )
    return table


def _theory(e: Exponent) -> str:
    if math.isnan(e.predicted):
        return ""
    return f"{e.predicted:+g}" + ("" if e.finite == e.predicted else f", {e.finite:+.2f}")


def _runs(family: Family) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", max_width=26, overflow="ellipsis", no_wrap=True)
    for name in family.vary:
        table.add_column(safe(name), justify="right", no_wrap=True)
    for column in ("rate, 1/step", "alone", "plateau", "fluctuation"):
        table.add_column(column, justify="right", no_wrap=True)
    for r in family.runs:
        table.add_row(
            safe(r.name),
            *(f"{r.settings[name]:g}" for name in family.vary),
            _short(r.rate, ".2g"),
            f"{r.alone.median:.2g}",
            *(_short(x, ".2f") for x in (r.plateau, r.fluctuation_sd)),
        )
    return table


def _short(x: Interval, form: str = ".3g") -> str:
    return rf"{x.median:{form}} \[{x.low:{form}}, {x.high:{form}}]"


def render_compare_runs(compared: Compared, console: Console) -> None:
    """Prints a comparison of two recipes.

    Args:
        compared: The comparison.
        console: Where to.
    """
    a, b = compared.counts
    console.print(f"[dim]A: {a} run{'s' * (a > 1)}, B: {b} run{'s' * (b > 1)}, signal {safe(compared.signal)}[/dim]")
    console.print(compared.sentence, style="bold", markup=False)
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("where")
    for column in ("A", "B", "B less A", "P(B better)", "P(next seed)"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict")
    for x in compared.answers:
        table.add_row(
            x.words,
            _short(x.a),
            _short(x.b),
            _short(x.difference),
            probability_text(x.p_better),
            probability_text(x.p_next),
            x.verdict,
        )
    console.print(table)
    console.print(
        "[dim]A and B: mean over seeds; P(next seed): that a new seed of B is better than a new one of A; intervals "
        f"{LEVEL:.0%}; seeds lie {_short(compared.answers[0].spread)} apart (sd), "
        f"{safe(compared.spread_from, 300)}[/dim]"
    )
    if compared.same_order is not None:
        console.print(f"[dim]{safe(compared.same_order.sentence, 400)}[/dim]")
    for line in compared.cautions:
        console.print(f"[yellow]note:[/yellow] {safe(line, 600)}")
