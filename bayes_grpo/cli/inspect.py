"""`bayes-grpo inspect`."""

from __future__ import annotations

import bayes_grpo as bg
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import LogFile, Output, Plot, Reading, check_pictures


@command("inspect outputs/run", "inspect train.ipynb", "inspect wandb://entity/project/run --json")
def inspect(log: LogFile, plot: Plot = None, *, output: Output, reading: Reading) -> None:
    """Show what a log holds and what had to be assumed."""
    check_pictures(plot)
    run = reading.read(log)
    if plot is not None:
        bg.save_plot(bg.plot_run(run), plot)
    output.show(run, run=run)
