"""`bayes-grpo plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import (
    EXIT_NOT_CONVERGED,
    STOPPING,
    Completions,
    Index,
    LikeRuns,
    LogNames,
    Output,
    Plot,
    Reading,
    Seed,
    Signal,
    Vary,
    check_pictures,
    names_in,
    numbers_in,
    option,
    reference_runs,
)
from bayes_grpo.cli.terminal import progress

Values = typer.Option(metavar="X,X,...", help="Values to try; half, same and double if absent.")


@command("plan outputs/run --learning-rate 1e-6,2e-6,4e-6 --budget 1000")
def plan(
    logs: LogNames,
    vary: Vary = None,
    index: Index = None,
    group_size: Annotated[str | None, Values] = None,
    prompts_per_step: Annotated[str | None, Values] = None,
    learning_rate: Annotated[str | None, Values] = None,
    refresh_interval: Annotated[str | None, Values] = None,
    budget: Annotated[
        float | None, option(STOPPING, help="Largest cost of the next run; that of the present one if absent.")
    ] = None,
    cost_per_step: Annotated[
        float | None, option(STOPPING, help="Cost of a step of the present run; it follows the completions of a step.")
    ] = None,
    value_per_reward: Annotated[
        float | None, option(STOPPING, help="Value of one unit of reward, in the unit of the cost.")
    ] = None,
    reach: Annotated[float | None, option(STOPPING, help="Reward for which steps and cost are wanted.")] = None,
    probability: Annotated[
        float | None, option(STOPPING, help="Probability with which one run shall reach it (default 0.9).")
    ] = None,
    risk: Annotated[float, option(STOPPING, help="Largest probability of failing of what is recommended.")] = 0.15,
    rollouts: Completions = None,
    like: LikeRuns = None,
    signal: Signal = "auto",
    plot: Plot = None,
    seed: Seed = 0,
    *,
    output: Output,
    reading: Reading,
) -> None:
    """Settings of the next run: what candidates are expected to bring, at what cost, and how much of that is prior."""
    check_pictures(plot)
    if (len(logs) > 1) != (vary is not None):
        raise typer.BadParameter("expected one log, or several runs with --vary, the settings that differ between them")
    read = reading.options()
    options: dict[str, Any] = {
        "index": index,
        "group_size": numbers_in("--group-size", group_size),
        "prompts_per_step": numbers_in("--prompts-per-step", prompts_per_step),
        "learning_rate": numbers_in("--learning-rate", learning_rate),
        "refresh_interval": numbers_in("--refresh-interval", refresh_interval),
        "budget": budget,
        "cost_per_step": cost_per_step,
        "value_per_reward": value_per_reward,
        "reach": reach,
        "probability": probability,
        "risk": risk,
        "signal": signal,
        "rollouts": None if rollouts is None else bg.read_rollouts(rollouts),
        "like": reference_runs(like, [Path(logs[0])], reading.sidecar),
    }
    with progress() as tell:
        present, known = bg.read_log(logs[0], **read), None
        if vary is not None:
            bg.check_plan(present, **options)  # before minutes of fitting
            known = bg.family(logs, names_in(vary), index=index, signal=signal, read=read, seed=seed, progress=tell)
        found = bg.plan(present, family=known, seed=seed, progress=tell, **options)
        diagnosis = None if output.json_ else bg.diagnose(present)
        if plot is not None:
            bg.save_plot(bg.plot_plan(found), plot)
    output.show(found, run=present, diagnosis=diagnosis)
    if known is not None and not known.converged:
        raise typer.Exit(EXIT_NOT_CONVERGED)
