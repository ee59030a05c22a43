"""`bayes-grpo sweep`."""

from __future__ import annotations

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import progress_bar


@command("sweep runs/*.jsonl --vary learning_rate,group_size")
def sweep(
    logs: options.LogNames,
    vary: options.Vary = None,
    signal: options.Signal = "auto",
    part: options.RewardPart = None,
    *,
    output: options.OutputWithPlot,
    seed: options.Seed = 0,
    reading: options.Reading,
) -> None:
    """Effects of settings, from runs that differ in them: exponents with intervals."""
    from bayes_grpo.views.plots.runs import plot_sweep

    with progress_bar() as progress:
        found = bg.sweep(
            logs,
            options.names_in(vary),
            signal=signal,
            part=part,
            read=reading.options(),
            seed=seed,
            progress=progress,
        )
        output.save(lambda: plot_sweep(found))
    output.show(found)
    options.end_unless_converged(found.converged)
