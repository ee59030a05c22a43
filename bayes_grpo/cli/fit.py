"""`bayes-grpo fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo import internal
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import (
    COMPUTING,
    EXIT_NOT_CONVERGED,
    OUTPUT,
    REGIME,
    AllRows,
    At,
    LogFile,
    LogTo,
    Output,
    Plot,
    Reading,
    RunSettings,
    Seed,
    Signal,
    check_pictures,
    log_to,
)
from bayes_grpo.cli.priors import overrides
from bayes_grpo.cli.terminal import progress
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.files import check_writable

_DEFAULT = "oscillator"


@command("fit outputs/run", "fit wandb.csv --regime sigmoid --set group_size=8 --plot fit.png", "fit saved.nc")
def fit(
    log: LogFile,
    regime: Annotated[
        str | None,
        typer.Option(
            help="Regime to fit, a model of the reward curve: oscillator (default), exponential, reduction, "
            "stiffness_damping, flat, bernoulli, logistic, sigmoid, or one of an installed package.",
            **REGIME,
        ),
    ] = None,
    signal: Signal = "auto",
    at: At = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=MEDIAN,SPREAD", help="Prior of one parameter, e.g. damping_ratio=3,0.5; repeatable."
        ),
    ] = None,
    prior_file: Annotated[Path | None, typer.Option(help="TOML file with a table named priors.")] = None,
    all_rows: AllRows = False,
    out: Annotated[Path | None, typer.Option(help="Save the fit to this NetCDF file.", rich_help_panel=OUTPUT)] = None,
    plot: Plot = None,
    plot_check: Annotated[
        Path | None, typer.Option(help="Save a picture of the residuals.", rich_help_panel=OUTPUT)
    ] = None,
    log_to_: LogTo = None,
    seed: Seed = 0,
    num_chains: Annotated[int, typer.Option(help="Chains.", rich_help_panel=COMPUTING)] = 4,
    num_warmup: Annotated[int, typer.Option(help="Warm-up iterations a chain.", rich_help_panel=COMPUTING)] = 150,
    num_samples: Annotated[int, typer.Option(help="Kept draws a chain.", rich_help_panel=COMPUTING)] = 1000,
    *,
    output: Output,
    reading: Reading,
    known: RunSettings,
) -> None:
    """Fit a regime to a run's reward, and check it: where the reward goes, how fast, what the regime misses."""
    if out is not None:
        check_writable(out)
    check_pictures(plot, plot_check)
    priors = overrides(prior or [], prior_file)
    saved = log[0] if len(log) == 1 and log[0].suffix == ".nc" else None
    if saved is not None and (regime is not None or signal != "auto"):
        raise SettingError(f"fit: {saved} is a fit, whose regime and signal are settled; leave the flags out")
    run = None if saved is not None else reading.read(log, at, known)
    settings = bg.AnalysisSettings(
        regime=regime or _DEFAULT,
        signal=signal,
        priors=priors,
        seed=seed,
        sampler=bg.SamplerSettings(num_chains=num_chains, num_warmup=num_warmup, num_samples=num_samples),
    )
    with progress() as tell:
        found = bg.analyze(
            run,
            ("fit", "check") if output.json_ or run is None else ("fit", "check", "diagnosis"),
            settings=settings,
            rows="all" if all_rows else "since_break",
            fit=None if saved is None else bg.load_fit(saved),
            progress=tell,
        )
        result, summary = found.fit.required
        if out is not None:
            bg.save_fit(result, out)
        if plot is not None:
            bg.save_plot(bg.plot_fit(result, summary.verdict), plot)
        if plot_check is not None:
            bg.save_plot(internal.plot_check(result, found.check.required), plot_check)
    if run is not None:
        log_to(log_to_, run, "fit", summary.to_dict(), summary.verdict)
    output.show(summary, parts={"Check": found.check}, run=run, diagnosis=found.diagnosis.value)
    if not summary.convergence.passed:
        raise typer.Exit(EXIT_NOT_CONVERGED)
