"""`bayes-grpo sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import (
    EXIT_NOT_CONVERGED,
    Output,
    Plot,
    Reading,
    Seed,
    Signal,
    check_pictures,
    grouped,
    names_in,
)
from bayes_grpo.cli.terminal import progress


@grouped
def sweep(
    logs: Annotated[
        list[str] | None,
        typer.Argument(help="Logs of several runs: files, folders, patterns; the index's folder if absent."),
    ] = None,
    vary: Annotated[
        str | None,
        typer.Option(
            help="Settings that differ, separated by commas: group_size, learning_rate, prompts_per_step, "
            "refresh_interval, model_size, or any column of the index; by default all that differ.",
            metavar="NAME,NAME,...",
        ),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="CSV file with columns run_id and settings that the logs do not state.")
    ] = None,
    signal: Signal = "auto",
    plot: Plot = None,
    seed: Seed = 0,
    *,
    output: Output,
    reading: Reading,
) -> None:
    """What settings do, from runs that differ in them: exponents beside what theory expects."""
    check_pictures(plot)
    if not logs and index is None:
        raise typer.BadParameter("expected logs or --index")
    with progress() as tell:
        found = bg.family(
            logs or ([] if index is None else [str(index.parent)]),
            names_in(vary),
            index=index,
            signal=signal,
            read=reading.options(),
            seed=seed,
            progress=tell,
        )
        if plot is not None:
            bg.save_plot(bg.plot_family(found), plot)
    output.show(found)
    if not found.converged:
        raise typer.Exit(EXIT_NOT_CONVERGED)
