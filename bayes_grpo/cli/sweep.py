"""`bayes-grpo sweep`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import bayes_grpo as bg
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import (
    LogNames,
    OutputWithPlot,
    Reading,
    RewardPart,
    Seed,
    Signal,
    Vary,
    end_unless_converged,
    names_in,
    progress_bar,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayes_grpo.families.result import Sweep


@command("sweep runs/*.jsonl --vary learning_rate,group_size")
def sweep(
    logs: LogNames,
    vary: Vary = None,
    signal: Signal = "auto",
    part: RewardPart = None,
    *,
    output: OutputWithPlot,
    seed: Seed = 0,
    reading: Reading,
) -> None:
    """Effects of settings, from runs that differ in them: exponents with intervals."""
    with progress_bar() as progress:
        found = bg.sweep(
            logs,
            names_in(vary),
            signal=signal,
            part=part,
            read=reading.options(),
            seed=seed,
            progress=progress,
        )
        output.save(lambda: _picture(found))
    output.show(found)
    end_unless_converged(found.converged)


def _picture(found: Sweep) -> Figure:
    from bayes_grpo.views.plots.runs import plot_sweep

    return plot_sweep(found)
