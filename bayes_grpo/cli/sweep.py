"""`bayes-grpo sweep`."""

from __future__ import annotations

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
)
from bayes_grpo.cli.printing import progress_bar


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
    from bayes_grpo.views.plots.runs import plot_sweep

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
        output.save(lambda: plot_sweep(found))
    output.show(found)
    end_unless_converged(found.converged)
