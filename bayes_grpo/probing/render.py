"""A probe, and what follows from it, on a terminal."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from bayes_grpo.probing.course import StiffnessCourse
from bayes_grpo.probing.predict import ProbeLimits
from bayes_grpo.probing.result import Probe


def render_probe(probe: Probe, console: Console) -> None:
    """Prints a probe: the sentence, then what was measured.

    Args:
        probe: What was measured.
        console: Where to.
    """
    console.print(probe.sentence, style="bold", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(("stiffness", "K", "90% interval", "on other data", "on its own")):
        table.add_column(column, justify="right" if i else "left")
    rows = [
        ("stiffest", probe.stiffest),
        *((f"{i}th" if i > 3 else ("2nd", "3rd")[i - 2], x) for i, x in enumerate(probe.further, 2)),
    ]
    if probe.along_reward is not None:
        rows.append(("along the reward", probe.along_reward))
    for name, k in rows:
        found = k.interval
        shown = (f"{found.median:.4g}", f"{found.low:.3g} to {found.high:.3g}", f"{k.crossed:.3g}", f"{k.chosen:.3g}")
        table.add_row(name, *shown)
    console.print(table)
    noise = probe.noise
    if noise is not None and noise.trace > 0:
        ratio = noise.signal / noise.trace
        shares = ", ".join(f"{x:.1%}" for x in noise.stiff_share)
        text = f"gradient: signal over noise {ratio:.3g}; of the noise along the stiffest {shares}"
        if math.isfinite(noise.within_share):
            text += f"; by completions of given prompts {noise.within_share:.0%}"
        console.print(text, style="dim", markup=False)
    if probe.ratios is not None:
        r = probe.ratios
        console.print(
            f"ratios: 99% below {r.highest:.3g}, largest {r.largest:.3g}, effective share {r.effective:.0%}",
            style="dim",
            markup=False,
        )


def render_limits(found: ProbeLimits, console: Console, course: StiffnessCourse | None = None) -> None:
    """Prints what a probe says of settings.

    Args:
        found: What it says.
        console: Where to.
        course: The stiffness's course over several probes.
    """
    console.print(found.sentence, markup=False)
    if math.isfinite(found.fluctuation):
        console.print(
            f"At rest the mean reward fluctuates by {found.fluctuation:.2g}, by the mode along its own gradient.",
            style="dim",
            markup=False,
        )
    if course is not None:
        console.print(course.sentence, markup=False)
