"""`bayes-grpo report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli import checks, options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import EXIT_NOT_CONVERGED, console, progress_bar
from bayes_grpo.common.files import check_writable


@command("report outputs/run --out run.html", "report metrics.jsonl --cost-per-step 2 --value-per-reward 5000")
def report(
    log: options.LogFile,
    out: Annotated[Path, options.in_output(help="Write the page to this file.")] = Path("report.html"),
    horizon: options.HorizonStep = None,
    regime: Annotated[str, typer.Option(help="Regime whose quantities are shown.", **options.REGIME)] = "oscillator",
    signal: options.Signal = "auto",
    up_to_step: options.UpToStep = None,
    without: Annotated[
        str | None,
        typer.Option(
            help="Parts to leave out: fit, regimes, check, forecast, diagnosis, stability.",
            metavar=options.NAMES,
        ),
    ] = None,
    full: Annotated[
        bool, options.in_computing("--full", help="Compare all regimes by leave-one-out and rows ahead too; slower.")
    ] = False,
    rollouts: options.Completions = None,
    reference_runs: options.ReferenceRunsFlag = None,
    seed: options.Seed = 0,
    *,
    output: options.Output,
    stopping: options.StoppingFlags,
    reading: options.Reading,
) -> None:
    """Write one page about a run: what drives it, what is left and whether it pays, what is wrong, and the evidence."""
    check_writable(out)
    settings = bg.AnalysisSettings(
        horizon=horizon,
        costs=stopping.costs(),
        signal=signal,
        regime=regime,
        seed=seed,
        rollouts=None if rollouts is None else bg.read_rollouts(rollouts),
        reference_runs=options.references_or_nearby(reference_runs, log, reading),
    )
    with progress_bar() as progress:
        run = reading.read(log, up_to_step)
        checks.horizon(horizon, run)
        made = bg.report_run(
            run,
            settings=settings,
            without=options.names_in(without),
            full=full,
            progress=progress,
            first=lambda line: progress("fit and forecast", first=line),
            draft=lambda page: bg.save_report(page, out),
        )
        bg.save_report(made, out)
    output.show(made, more={"page": str(out)})
    if not output.json_:
        console().print(f"Page: {out}", markup=False)
    if made.failed:
        raise typer.Exit(EXIT_NOT_CONVERGED)
