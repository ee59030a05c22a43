"""Rollouts on a terminal: what a gain is made of first, then groups, difficulty and what there is."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bayes_grpo.common.intervals import LEVEL, Interval, probability_text
from bayes_grpo.common.text import plain
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.rollouts.difficulty import PromptDifficulty
from bayes_grpo.rollouts.groups import GroupSummary
from bayes_grpo.rollouts.paired import ByPrompt
from bayes_grpo.rollouts.summary import RolloutSummary


def render_rollouts(summary: RolloutSummary, console: Console) -> None:
    """Prints what rollouts say.

    Args:
        summary: The summary.
        console: Where to.
    """
    r = summary.rollouts
    megabytes = f"{r.bytes / 1e6:.1f} MB in {r.files} file{'s' * (r.files > 1)}"
    console.print(Text(f"{plain(r.source)}: {megabytes}", style="dim"))
    console.print(Text(r.sentence))
    for part in (summary.gain, summary.groups):
        if part is not None:
            console.print(Text(plain(part.sentence, 900), style="bold"))
    if summary.joined is not None:
        style = "" if summary.joined.matches else "yellow"
        console.print(Text(summary.joined.sentence, style=style))
    if summary.gain is not None and (summary.gain.factors or summary.gain.parts):
        console.print()
        console.print(_shares(summary.gain))
    if summary.groups is not None:
        console.print()
        console.print(_sizes(summary.groups))
    if summary.difficulty is not None:
        console.print()
        console.print(Text(_difficulty(summary.difficulty)))
    for note in (*r.notes, *(summary.gain.notes if summary.gain else ()), *summary.missing):
        console.print(Text(f"note: {plain(note)}", style="dim"))


def render_by_prompt(found: ByPrompt, console: Console) -> None:
    """Prints a comparison of two runs on the same prompts.

    Args:
        found: The comparison.
        console: Where to.
    """
    console.print(Text(f"A {plain(found.a)}, B {plain(found.b)}", style="dim"))
    console.print(Text(found.sentence, style="bold"))
    console.print(
        Text(
            f"mean rewards there {found.mean_a:.3g} and {found.mean_b:.3g}; {found.shared:.0%} "
            "of the prompts are in both runs; "
            f"P(B better) {probability_text(found.p_better)} says nothing of other seeds of their recipes"
        )
    )
    for side, gain in (("A", found.gain_a), ("B", found.gain_b)):
        if gain is not None and gain.shares:
            console.print(Text(f"{side}: {plain(gain.sentence, 600)}"))


def _shares(gain: Decomposition) -> Table:
    first, last = (f"steps {a:g} to {b:g}" for a, b in (gain.first, gain.last))
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.add_column(f"of the gain ({LEVEL:.0%} over {gain.clusters})")
    for column in (first, last, "share of the gain"):
        table.add_column(column, justify="right", no_wrap=True)
    for s in gain.factors:
        table.add_row(Text(plain(s.words, 60)), _plain(s.before), _plain(s.after), _percent(s.share))
    for s in () if gain.factors else gain.parts:
        table.add_row(Text(plain(s.name, 50)), _plain(s.before), _plain(s.after), _percent(s.share))
    return table


def _sizes(groups: GroupSummary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("completions a prompt")
    for column in ("groups with spread", "noise of a row of as many completions", "of it which prompts"):
        table.add_column(column, justify="right", no_wrap=True)
    for s in groups.sizes:
        here = "  (now)" if s.group_size == groups.group_size else ""
        useful = "" if s.useful != s.useful else f"{s.useful:.0%}" + ("" if s.exact else " (extrapolated)")
        table.add_row(f"{s.group_size}{here}", useful, f"{s.row_noise:.3g}", f"{s.prompts_share:.0%}")
    return table


def _difficulty(found: PromptDifficulty) -> str:
    some = min(3, found.size)
    hardest = ", ".join(f"{found.expected[i]:.2f} [{found.low[i]:.2f}, {found.high[i]:.2f}]" for i in range(some))
    return f"Difficulty: {found.sentence} The hardest now: {hardest} ({LEVEL:.0%})."


def _plain(x: Interval) -> str:
    return f"{x.median:.3g} [{x.low:.3g}, {x.high:.3g}]"


def _percent(x: Interval) -> str:
    return "no clear gain" if x.median != x.median else f"{x.median:.0%} [{100 * x.low:.0f}, {100 * x.high:.0f}]"
