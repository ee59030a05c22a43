"""`bayes-grpo fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import (
    EXIT_NOT_CONVERGED,
    AllRows,
    At,
    LogFile,
    LogTo,
    Output,
    Plot,
    Reading,
    Seed,
    Signal,
    StatedSettings,
    check_pictures,
    grouped,
    log_to,
)
from bayes_grpo.cli.priors import overrides
from bayes_grpo.cli.terminal import progress
from bayes_grpo.common.files import check_writable


@grouped
def fit(
    log: LogFile,
    regime: Annotated[
        str,
        typer.Option(
            help="Regime to fit, a law of the reward curve: oscillator, exponential, reduction, hold, flat, bernoulli, "
            "logistic, sigmoid, entropy, or one of an installed package."
        ),
    ] = "oscillator",
    signal: Signal = "auto",
    at: At = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(
            "--prior",
            metavar="NAME=MEDIAN,SPREAD",
            help="Prior of one parameter, e.g. damping_ratio=3,0.5; may be repeated.",
        ),
    ] = None,
    prior_file: Annotated[Path | None, typer.Option(help="TOML file with a table named priors.")] = None,
    all_rows: AllRows = False,
    out: Annotated[Path | None, typer.Option(help="Save the fit to this NetCDF file.")] = None,
    plot: Plot = None,
    log_to_: LogTo = None,
    seed: Seed = 0,
    chains: Annotated[int, typer.Option(help="Chains.")] = 4,
    warmup: Annotated[int, typer.Option(help="Warm-up iterations a chain.")] = 150,
    draws: Annotated[int, typer.Option(help="Kept draws a chain.")] = 1000,
    *,
    output: Output,
    reading: Reading,
    stated: StatedSettings,
) -> None:
    """Fit a regime to a run's reward: posterior of stiffness, damping and fixed point, verdict first."""
    if out is not None:
        check_writable(out)
    check_pictures(plot)
    priors = overrides(prior or [], prior_file)
    run = reading.read(log, at, stated)
    settings = bg.AnalysisSettings(
        regime=regime,
        signal=signal,
        priors=priors,
        seed=seed,
        sampler=bg.SamplerSettings(num_chains=chains, num_warmup=warmup, num_samples=draws),
    )
    parts = ("fit",) if output.json_ else ("fit", "diagnosis")
    with progress() as tell:
        rows: Literal["all", "since_break"] = "all" if all_rows else "since_break"
        found = bg.analyze(run, parts, settings=settings, rows=rows, progress=tell)
        result, summary = found.fit.required
        if out is not None:
            bg.save_fit(result, out)
        if plot is not None:
            bg.save_plot(bg.plot_fit(result, summary.verdict), plot)
    log_to(log_to_, run, "fit", summary.to_dict(), summary.verdict)
    output.show(summary, run=run, top=found.top)
    if not summary.convergence.passed:
        raise typer.Exit(EXIT_NOT_CONVERGED)
