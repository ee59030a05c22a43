"""`bayes-grpo compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import (
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
from bayes_grpo.common.errors import OutputError
from bayes_grpo.common.files import check_writable


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
    out: Annotated[
        Path | None,
        typer.Option(
            help="Fit every regime of the table by NUTS and save the fits to this directory, a NetCDF file a regime."
        ),
    ] = None,
    plot: Plot = None,
    seed: Seed = 0,
    *,
    output: Output,
    reading: Reading,
    stated: StatedSettings,
) -> None:
    """Compare regimes on a run: which the data favour, and between which they cannot tell."""
    check_pictures(plot)
    if out is not None:
        _make_directory(out)
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
        if out is not None:
            for i, name in enumerate(found.fits):
                tell(f"{name}: fitting by NUTS", i / len(found.fits))
                bg.save_fit(found.fits[name], out / f"{name}.nc")
        tell("writing", 1.0)
        if plot is not None:
            bg.save_plot(bg.plot_comparison(found), plot)
    output.show(found, run=run)


def _make_directory(out: Path) -> None:
    """The directory of the fits, made now, so that an impossible place fails before minutes of work."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out}: cannot be a directory of fits ({error.strerror}); choose another place") from error
    check_writable(out / "fit.nc")
