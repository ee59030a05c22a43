"""`bayes-grpo compare`."""

from __future__ import annotations

from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import (
    EXIT_NOT_CONVERGED,
    AllRows,
    At,
    LogFile,
    Output,
    Plot,
    Reading,
    Seed,
    Signal,
    StatedSettings,
    check_pictures,
    grouped,
    names_in,
)
from bayes_grpo.cli.terminal import progress


@grouped
def compare(
    log: LogFile,
    regimes: Annotated[
        str | None,
        typer.Option(help="Regimes to compare, separated by commas; all that can be put on the log if absent."),
    ] = None,
    signal: Signal = "auto",
    at: At = None,
    all_rows: AllRows = False,
    no_lfo: Annotated[bool, typer.Option("--no-lfo", help="No forecast scores; faster.")] = False,
    plot: Plot = None,
    seed: Seed = 0,
    *,
    output: Output,
    reading: Reading,
    stated: StatedSettings,
) -> None:
    """Compare regimes on a run: which the data favour, and between which they cannot tell."""
    check_pictures(plot)
    run = reading.read(log, at, stated)
    names = None if regimes is None else names_in(regimes)
    with progress() as tell:
        found = bg.compare(
            run,
            names,
            signal=signal,
            rows="all" if all_rows else "since_break",
            seed=seed,
            lfo=not no_lfo,
            progress=tell,
        )
        tell("writing", 1.0)
        if plot is not None:
            bg.save_plot(bg.plot_comparison(found), plot)
    output.show(found, run=run)
    if found.not_converged:
        raise typer.Exit(EXIT_NOT_CONVERGED)
