"""A plan on a terminal: the sentence first, then the candidates, then what it rests on and what not to believe."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from bayes_grpo.common.intervals import LEVEL, probability_text
from bayes_grpo.common.text import safe
from bayes_grpo.planning.planned import WORDS, Candidate, Plan, amount_of

HEADS = {"group_size": "G", "prompts_per_step": "prompts", "learning_rate": "rate", "refresh_interval": "K_ref"}
_LISTED = 12
"""Candidates that are listed, the present settings besides."""


def render_plan(plan: Plan, console: Console) -> None:
    """Prints a plan.

    Args:
        plan: The plan.
        console: Where to.
    """
    now = ", ".join(
        f"{WORDS[name]} {amount_of(name, value)}"
        if plan.rate_known or name != "learning_rate"
        else "learning rate not known, rates are times it"
        for name, value in plan.present.items()
    )
    console.print(f"[dim]run {safe(plan.run)}, signal {safe(plan.signal)}; present: {safe(now)}[/dim]")
    console.print(plan.sentence, style="bold", markup=False)
    console.print()
    console.print(_candidates(plan))
    reached = (
        "" if plan.target is None else f"; steps and cost to {plan.target:g} with probability {plan.probability:g}"
    )
    unit = "steps of the present run" if plan.unit == "present steps" else "money"
    console.print(
        f"[dim]{len(plan.candidates)} candidates; within a cost of {plan.budget:.4g} {unit}; gain over the present "
        f"settings, mean over seeds, {LEVEL:.0%} intervals; one run: with its seed and fluctuation; better, fails: "
        f"probabilities, the latter by what happened to others; useless: share of groups without spread{reached}[/dim]"
    )
    learned = sorted({WORDS[e.setting] for e in plan.exponents if e.source == "family"})
    if learned:
        g = plan.prior_gain
        console.print(
            f"[dim]learned from the family: {', '.join(learned)}; by the priors alone the gain would be "
            rf"{g.median:+.3g} \[{g.low:+.3g}, {g.high:+.3g}][/dim]"
        )
    best = plan.recommended
    console.print(f"[dim]{safe(f'{plan.changes(best)}: {best.rests}', 400)}[/dim]")
    if plan.siblings is not None:
        console.print(f"[dim]{safe(plan.siblings.sentence, 600)}[/dim]")
    if plan.batch:
        runs = "; ".join(plan.changes(c) for s in plan.batch for c in plan.candidates if c.settings == s)
        console.print(f"side by side: {safe(runs, 600)}", markup=False)
    if len(plan.ladder) > 1:
        rungs = ", then ".join(f"{plan.changes(r)} (fails with {probability_text(r.p_fails)})" for r in plan.ladder)
        console.print(f"[dim]ladder, each rung if those before it hold: {safe(rungs, 600)}[/dim]")
    if plan.difficulty:
        console.print(f"[dim]{safe(plan.difficulty, 400)}[/dim]")
    for line in plan.cautions:
        console.print(f"[yellow]note:[/yellow] {safe(line, 600)}")


def _candidates(plan: Plan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in plan.present:
        table.add_column(HEADS[name], justify="right", no_wrap=True)
    columns = ["steps", "reward", "one run", "gain", "better", "fails", "useless"]
    if plan.value_per_reward is not None:
        columns.insert(3, "net value")
    if plan.target is not None:
        columns += [f"steps to {plan.target:g}", "cost"]
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    shown = list(plan.candidates[:_LISTED])
    for c in shown if plan.kept in shown else [*shown, plan.kept]:
        style = "bold" if c is plan.recommended else ("cyan" if c is plan.kept else None)
        table.add_row(*_row(plan, c), style=style)
    return table


def _row(plan: Plan, c: Candidate) -> list[str]:
    cells = [amount_of(name, value) for name, value in c.settings.items()]
    cells += [f"{c.steps:.0f}", f"{c.expected:.3f}", rf"\[{c.next_run.low:.2f}, {c.next_run.high:.2f}]"]
    if plan.value_per_reward is not None:
        cells.append(f"{c.net_value:.4g}")
    cells += [
        rf"{c.expected_gain:+.3g} \[{c.gain.low:+.3g}, {c.gain.high:+.3g}]",
        probability_text(c.p_better),
        rf"{probability_text(c.p_fails)} \[{probability_text(c.fails.low)}, {probability_text(c.fails.high)}]"
        if c.tried
        else "nobody tried",
        "" if math.isnan(c.useless) else f"{c.useless:.0%}",
    ]
    if plan.target is not None:
        cells += ["no", ""] if c.reach_steps is None else [f"{c.reach_steps:.0f}", f"{c.reach_cost:.4g}"]
    return cells
