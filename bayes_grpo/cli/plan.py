"""`bayes-grpo plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import (
    STOPPING,
    LogFile,
    OutputWithPlot,
    Reading,
    ReferenceRunsFlag,
    Seed,
    Signal,
    numbers_in,
    option,
    progress_bar,
    references_or_nearby,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = typer.Option(metavar="X,X,...", help="Values to try; half, same and double if absent.")


@command("plan outputs/run --learning-rate 1e-6,2e-6,4e-6 --budget 1000")
def plan(
    log: LogFile,
    group_size: Annotated[str | None, Values] = None,
    prompts_per_step: Annotated[str | None, Values] = None,
    learning_rate: Annotated[str | None, Values] = None,
    refresh_interval: Annotated[str | None, Values] = None,
    budget: Annotated[
        float | None,
        option(STOPPING, help="Largest cost of the next run, in steps of the present one (default: its length)."),
    ] = None,
    risk: Annotated[float, option(STOPPING, help="Largest failure probability of a recommendation.")] = 0.1,
    reference_runs: ReferenceRunsFlag = None,
    signal: Signal = "auto",
    *,
    output: OutputWithPlot,
    seed: Seed = 0,
    reading: Reading,
) -> None:
    """Settings of the next run: what candidates are expected to bring, at what cost and risk of failure."""
    run = reading.read(log)
    with progress_bar() as progress:
        found = bg.plan(
            run,
            group_size=numbers_in("--group-size", group_size),
            prompts_per_step=numbers_in("--prompts-per-step", prompts_per_step),
            learning_rate=numbers_in("--learning-rate", learning_rate),
            refresh_interval=numbers_in("--refresh-interval", refresh_interval),
            budget=budget,
            risk=risk,
            signal=signal,
            reference_runs=references_or_nearby(reference_runs, log, reading),
            seed=seed,
            progress=progress,
        )
        diagnosis = None if output.json_ else bg.diagnose(run)
        output.save(lambda: _picture(found))
    output.show(found, run=run, diagnosis=diagnosis)


def _picture(found: bg.Plan) -> Figure:
    from bayes_grpo.views.plots.runs import plot_plan

    return plot_plan(found)
