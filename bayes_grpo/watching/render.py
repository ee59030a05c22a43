"""A look at a run that goes on, on a terminal: how it stands and what to do, the numbers, what to know about them."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from bayes_grpo.common.intervals import Interval, probability_text
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.classes import ANSWERS
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.render import STYLES
from bayes_grpo.watching.result import Update

_SHOWN = 0.01
"""Answers of at least this probability have a line."""
BAR = 24
"""Characters of a probability of 1."""
NOTES = 6
"""Notes that are shown, the last ones."""


def render_update(update: Update, console: Console) -> None:
    """Prints a look.

    Args:
        update: The look.
        console: Where to.
    """
    console.print(view_of(update))


def view_of(update: Update, status: str = "") -> Any:
    """A look as something that rich can draw, again and again in the same place.

    Args:
        update: The look.
        status: What goes on now; a line of its own.
    """
    parts: list[Any] = []
    if update.top is not None:
        parts.append(Text(plain(update.top.sentence, 900), style=f"bold {STYLES[update.top.status]}"))
    told = [a for a in update.told if a not in {x.finding for x in update.alarms}]
    for alarm in update.alarms:
        parts.append(Text(f"ALARM  {plain(alarm.sentence, 600)}", style="bold red"))
        parts += [Text(f"       {plain(x, 300)}", style="red") for x in alarm.remedies]
    if told:
        said = ", ".join(f"{label_of(name)} at step {update.told[name]:g}" for name in told)
        parts.append(Text(f"told before: {said}", style="red"))
    parts.append(Text(plain(update.diagnosis, 800) or "Nothing can be said yet."))
    if update.siblings is not None:
        parts.append(Text(update.beside, style="yellow" if update.siblings["departs"] else ""))
    if update.outlook is not None:
        sentence = plain(update.outlook.sentence, 800)
        parts.append(Text(f"{sentence[:1].upper()}{sentence[1:]}"))
        if update.outlook.advice:
            parts.append(Text(plain(update.outlook.advice, 1000), style="bold"))
    parts += [Text(""), _numbers(update)]
    if update.probability:
        parts += [Text(""), _answers(update)]
    if update.notes:
        parts += [Text(""), *(Text(f"note: {plain(x, 300)}", style="dim") for x in update.notes[-NOTES:])]
    if status:
        parts += [Text(""), Text(plain(status, 500), style="cyan")]
    return Group(*parts)


def line_of(update: Update) -> str:
    """A look in one line, for output that is no terminal."""
    return plain(update.sentence, 3000)


def _numbers(update: Update) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    table.add_row("run", plain(update.name))
    table.add_row("step", f"{update.step:g}, {update.rows} rows; last reward {update.reward:.4g}")
    o = update.outlook
    if o is not None:
        table.add_row("reward now", _interval(o.now))
        table.add_row(f"at step {o.until:g}", f"{_interval(o.at_horizon)}  ({plain(o.until_from)})")
        table.add_row("gain until then", _interval(o.gain))
        chances = [(f"gain above {o.threshold:.2g}", o.p_gain), ("peaked", o.p_peaked)]
        chances += [(name, p) for name, p in (("collapse", o.p_collapse), ("take-off", o.p_takeoff)) if p > 0.0]
        table.add_row("probability of", "; ".join(f"{name} {probability_text(p)}" for name, p in chances))
        if o.stop is not None:
            table.add_row("stop at step", f"{o.stop:g}")
        if o.take is not None:
            table.add_row("best checkpoint", f"step {o.take:g}")
    table.add_row("look took", f"{update.seconds:.1f} s")
    return table


def _answers(update: Update) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for name in sorted(ANSWERS, key=lambda name: -update.probability.get(name, 0.0)):
        p = update.probability.get(name, 0.0)
        if p >= _SHOWN:
            table.add_row(label_of(name), probability_text(p), "█" * round(BAR * p))
    return table


def _interval(i: Interval) -> str:
    return f"{i.median:.4g} [{i.low:.4g}, {i.high:.4g}] ({i.level:.0%})"
