"""A forecast and a backtest on a terminal: the sentence first, then the numbers, then what was assumed."""

from __future__ import annotations

import math

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bayes_grpo.common.intervals import Interval, probability_text
from bayes_grpo.common.text import safe
from bayes_grpo.forecasting.horizon import Horizon
from bayes_grpo.forecasting.reach import Reached
from bayes_grpo.forecasting.summary import ForecastSummary


def render_forecast(summary: ForecastSummary, console: Console) -> None:
    """Prints a forecast.

    Args:
        summary: The summary of the forecast.
        console: Where to.
    """
    s, about = summary, summary.about
    console.print(
        f"[dim]{safe(about.run)}: {about.rows} rows of {safe(about.signal)} up to step {about.last_step:g}[/dim]"
    )
    console.print(f"[bold]{safe(s.sentence, 600)}[/bold]")
    console.print()
    until, level = f"step {s.until:g}", f"{s.interval_level:.0%}"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (("quantity", "left"), ("median", "right"), (f"{level} interval", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for name, value in (
        ("underlying reward now", s.now),
        (f"underlying reward at {until}", s.at_horizon),
        (f"logged row at {until}", s.row_at_horizon),
        ("remaining gain until then", s.remaining_gain),
        ("reward at infinity, constant learning rate", s.at_infinity),
        ("reward in the end, remaining schedule", s.final),
        ("gain until the end", s.final_gain),
    ):
        table.add_row(name, f"{value.median:.4g}", escape(_interval(value)))
    for reached in s.reached:
        table.add_row(f"step of {reached.share:.0%} of the final gain", *_reached(reached, about.last_step))
    console.print(table)
    console.print(
        f"P(gain until {until} > {s.threshold:.3g}) {probability_text(s.p_gain)}   "
        f"P(curve has peaked) {probability_text(s.p_peaked)}"
    )
    events = [f"P({name}) {probability_text(p)}" for name, p in
              (("collapse", s.p_collapse), ("take-off", s.p_takeoff)) if p > 0.0]  # fmt: skip
    if events:
        console.print(f"events that no law knows, until {until}: {'   '.join(events)}")
    for asked in s.reach:
        console.print(asked.sentence, markup=False)
    weights = sorted(s.weights.items(), key=lambda x: -x[1])
    console.print("weights: " + escape(", ".join(f"{name} {weight:.2f}" for name, weight in weights)))
    horizon = Horizon(s.until, s.until_from).sentence
    for line in (*([horizon] if horizon else []), *s.assumed):
        console.print(f"[dim]assumed: {safe(line)}[/dim]")
    for line in s.notes:
        console.print(f"[dim]note: {safe(line)}[/dim]")


def _reached(reached: Reached, now: float) -> tuple[str, str]:
    i = reached.step

    def step(value: float) -> str:
        if math.isnan(value):
            return "no trend"
        return "never" if math.isinf(value) else f"by now ({now:g})" if value <= now else f"{value:.4g}"

    return step(i.median), escape(f"[{step(i.low)}, {step(i.high)}]")


def _interval(i: Interval) -> str:
    return f"[{i.low:.4g}, {i.high:.4g}]"
