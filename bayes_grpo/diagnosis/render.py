"""A diagnosis on a terminal: the verdict first, then the probabilities, the evidence, the onset and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.common.text import plain
from bayes_grpo.common.wording import counted
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL, MODES
from bayes_grpo.diagnosis.evidence import weighed_text
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.diagnosis.timeline import Episode

if TYPE_CHECKING:
    from rich.console import Console

_BAR = 24
STYLES: Mapping[Status, str] = {
    "fine": "green", "watch": "yellow", "failing": "red", "failed": "red", "done": "green", "unclear": "yellow",
}  # fmt: skip
"""Status → its colour on a terminal."""


def render_diagnosis(result: Diagnosis, console: Console) -> None:
    """Prints a diagnosis.

    Args:
        result: The diagnosis.
        console: Where to.
    """
    about = result.about
    until = "" if about.at is None else f", as of step {about.at:g}"
    head = (
        f"{plain(about.source)}: {counted(about.rows, 'row')}, {counted(about.evaluations, 'evaluation')}, steps "
        f"{about.first_step:g} to {about.last_step:g}{until}"
    )
    console.print(Text(head, style="dim"))
    console.print(Text(plain(result.top.sentence, 900), style=f"bold {STYLES[result.top.status]}"))
    console.print(Text(plain(result.sentence, 900)))
    console.print()
    console.print(_probabilities(result))
    if result.evidence:
        console.print()
        console.print(Text(f"Evidence ({about.interval_level:.0%} intervals)", style="bold"))
        for name, evidence in result.evidence.items():
            title = label_of(name)
            p = weighed_text(evidence)
            console.print(Text(f"  {title}{p}: {plain(evidence.sentence, 600)}"))
    told = [e for e in result.timeline.episodes if e.probable] if result.timeline is not None else []
    if told:
        console.print()
        console.print(Text("What happened, in order", style="bold"))
        console.print(_episodes(told))
    if result.history is not None:
        console.print(Text(f"What would have been said: {result.history.sentence}"))
    if result.remedies:
        console.print()
        console.print(Text("What to do", style="bold"))
        for mode, lines in result.remedies.items():
            for line in lines:
                console.print(Text(f"  {label_of(mode)}: {plain(line, 400)}"))
    if result.missing:
        console.print(Text(f"Not in the log, which widens the answer: {', '.join(result.missing)}", style="dim"))
    for note in result.notes:
        console.print(Text(f"note: {plain(note)}", style="dim"))


def _episodes(episodes: Sequence[Episode]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("what", "probability", "from step", "to step", ""):
        table.add_column(name, justify="right" if name == "probability" else "left")
    for e in episodes:
        until = (
            f"goes on ({probability_text(e.goes_on)})"
            if not e.over
            else f"{e.end.median:.0f} [{e.end.low:.0f}, {e.end.high:.0f}]"
        )
        begun = f"{e.onset.median:.0f} [{e.onset.low:.0f}, {e.onset.high:.0f}]"
        table.add_row(label_of(e.mode), probability_text(e.probability), begun, until, plain(e.depth, 200))
    return table


def _probabilities(result: Diagnosis) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("answer")
    table.add_column("probability", justify="right")
    table.add_column("")
    table.add_column("prior", justify="right", style="dim")
    table.add_column("under way, alone or not", justify="right")
    for name in ANSWERS:
        p = result.probability[name]
        own = probability_text(result.own[name]) if name in result.own else ""
        style = "red" if name in MODES else "yellow" if name == CANNOT_TELL else "green"
        table.add_row(
            Text(label_of(name), style="bold" if name == result.leads else ""),
            probability_text(p),
            Text("█" * round(_BAR * p), style=style),
            f"{result.prior[name]:.2f}",
            own,
        )
    for name in [name for name in result.own if name not in ANSWERS]:
        # No learned likelihood: it takes no part in the classification.
        table.add_row(label_of(name), "", "", "", probability_text(result.own[name]))
    return table
