"""`bayes-grpo sweep`."""

from __future__ import annotations

from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo import internal
from bayes_grpo.cli import checks
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import (
    EXIT_NOT_CONVERGED,
    Output,
    Plot,
    Reading,
    Seed,
    Signal,
    Vary,
    check_pictures,
    names_in,
)
from bayes_grpo.cli.terminal import progress_bar


@command("sweep runs/*.jsonl --vary learning_rate,group_size")
def sweep(
    logs: Annotated[
        list[str],
        typer.Argument(help="Logs of several runs: files, folders, patterns.", callback=checks.callback(checks.there)),
    ],
    vary: Vary = None,
    signal: Signal = "auto",
    plot: Plot = None,
    seed: Seed = 0,
    *,
    output: Output,
    reading: Reading,
) -> None:
    """Effects of settings, from runs that differ in them: exponents with intervals."""
    check_pictures(plot)
    with progress_bar() as progress:
        found = bg.sweep(
            logs,
            names_in(vary),
            signal=signal,
            read=reading.options(),
            seed=seed,
            progress=progress,
        )
        if plot is not None:
            bg.save_plot(internal.plot_sweep(found), plot)
    output.show(found)
    if not found.converged:
        raise typer.Exit(EXIT_NOT_CONVERGED)
