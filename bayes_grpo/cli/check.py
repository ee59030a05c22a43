"""`bayes-grpo check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import (
    EXIT_NOT_CONVERGED,
    AllRows,
    At,
    Output,
    Plot,
    Reading,
    Seed,
    Signal,
    StatedSettings,
    check_pictures,
    grouped,
)
from bayes_grpo.cli.terminal import progress
from bayes_grpo.common.errors import SettingError


@grouped
def check(
    log: Annotated[list[Path], typer.Argument(help="Log file or directory, or a fit saved as NetCDF (.nc).")],
    regime: Annotated[str | None, typer.Option(help="Regime to fit to a log; oscillator if absent.")] = None,
    signal: Signal = "auto",
    at: At = None,
    all_rows: AllRows = False,
    plot: Plot = None,
    seed: Seed = 0,
    *,
    output: Output,
    reading: Reading,
    stated: StatedSettings,
) -> None:
    """Check a fit against its data: autocorrelated residuals, changing noise, outliers, a break."""
    check_pictures(plot)
    with progress() as tell:
        if len(log) == 1 and log[0].suffix == ".nc":
            if regime is not None or signal != "auto":
                raise SettingError(
                    f"check: {log[0]} is a fit, whose regime and signal are settled; leave the flags out"
                )
            fit = bg.load_fit(log[0])
        else:
            run = reading.read(log, at, stated)
            chosen = "all" if all_rows else "since_break"
            fit = bg.fit(run, regime or "oscillator", signal=signal, rows=chosen, seed=seed, progress=tell)
        tell("looking at the residuals")
        found = bg.check(fit)
        if plot is not None:
            bg.save_plot(bg.plot_check(fit, found), plot)
    output.show(found)
    if not found.converged:
        raise typer.Exit(EXIT_NOT_CONVERGED)
