"""`bayes-grpo inspect`."""

from __future__ import annotations

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command


@command("inspect outputs/run", "inspect train.ipynb", "inspect wandb://entity/project/run --json")
def inspect(log: options.LogFile, *, output: options.OutputWithPlot, reading: options.Reading) -> None:
    """Show what a log holds and what had to be assumed."""
    run = reading.read(log)
    output.save(lambda: bg.plot_run(run))
    output.show(run, options.OtherParts(run=run))
