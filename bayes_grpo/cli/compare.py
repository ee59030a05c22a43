"""`bayes-grpo compare`."""

from __future__ import annotations

from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import (
    COMPUTING,
    EXIT_NOT_CONVERGED,
    AllRows,
    LogFile,
    Output,
    Plot,
    Reading,
    Regimes,
    Seed,
    Signal,
    UpToStep,
    check_pictures,
    names_in,
    option,
)
from bayes_grpo.cli.terminal import progress_bar


@command("compare metrics.jsonl", "compare metrics.jsonl --regimes flat,sigmoid --no-lfo")
def compare(
    log: LogFile,
    regimes: Regimes = None,
    signal: Signal = "auto",
    up_to_step: UpToStep = None,
    all_rows: AllRows = False,
    no_lfo: Annotated[bool, option(COMPUTING, "--no-lfo", help="No forecast scores; faster.")] = False,
    plot: Plot = None,
    seed: Seed = 0,
    *,
    output: Output,
    reading: Reading,
) -> None:
    """Compare regimes on a run: which the data favor, and which fit equally well."""
    check_pictures(plot)
    run = reading.read(log, up_to_step)
    with progress_bar() as progress:
        found = bg.compare(
            run,
            names_in(regimes) or None,
            signal=signal,
            rows="all" if all_rows else "since_break",
            seed=seed,
            lfo=not no_lfo,
            progress=progress,
        )
        progress("writing", 1.0)
        if plot is not None:
            bg.save_plot(bg.plot_comparison(found), plot)
    output.show(found, run=run)
    if found.not_converged:
        raise typer.Exit(EXIT_NOT_CONVERGED)
