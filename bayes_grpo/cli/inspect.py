"""`bayes-grpo inspect`."""

from __future__ import annotations

import bayes_grpo as bg
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import LogFile, OtherParts, OutputWithPlot, Reading


@command("inspect outputs/run", "inspect train.ipynb", "inspect wandb://entity/project/run --json")
def inspect(log: LogFile, *, output: OutputWithPlot, reading: Reading) -> None:
    """Show what a log holds and what had to be assumed."""
    run = reading.read(log)
    output.save(lambda: bg.plot_run(run))
    output.show(run, OtherParts(run=run))
