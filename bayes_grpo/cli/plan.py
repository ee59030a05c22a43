"""`bayes-grpo plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import (
    EXIT_NOT_CONVERGED,
    LikeRuns,
    Output,
    Plot,
    Reading,
    Seed,
    Signal,
    check_pictures,
    grouped,
    names_in,
    siblings_asked,
)
from bayes_grpo.cli.terminal import progress

Values = typer.Option(metavar="X,X,...", help="Values to try; half, same and double if absent.")


def numbers_in(flag: str, text: str | None) -> list[float] | None:
    """Numbers in a list separated by commas; None where the flag is absent."""
    if text is None:
        return None
    try:
        return [float(x) for x in names_in(text)]
    except ValueError:
        raise typer.BadParameter(f"{flag}: expected numbers separated by commas, found {text!r}") from None


@grouped
def plan(
    logs: Annotated[
        list[str], typer.Argument(help="Log of the present run; further logs make a family with it, see --vary.")
    ],
    vary: Annotated[
        str | None, typer.Option(help="Settings that differ between the logs of the family.", metavar="NAME,NAME,...")
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="CSV file with settings of the run, or of the family's runs.")
    ] = None,
    group_size: Annotated[str | None, Values] = None,
    prompts_per_step: Annotated[str | None, Values] = None,
    learning_rate: Annotated[str | None, Values] = None,
    refresh_interval: Annotated[str | None, Values] = None,
    budget: Annotated[
        float | None, typer.Option(help="Largest cost of the next run; that of the present one if absent.")
    ] = None,
    cost_per_step: Annotated[
        float | None, typer.Option(help="Cost of a step of the present run; it follows the completions of a step.")
    ] = None,
    value_per_reward: Annotated[
        float | None, typer.Option(help="Value of one unit of reward, in the unit of the cost.")
    ] = None,
    reach: Annotated[float | None, typer.Option(help="Reward for which steps and cost are wanted.")] = None,
    probability: Annotated[
        float | None, typer.Option(help="Probability with which one run shall reach it (default 0.9).")
    ] = None,
    risk: Annotated[float, typer.Option(help="Largest probability of failing of what is recommended.")] = 0.15,
    rollouts: Annotated[
        Path | None, typer.Option(help="Folder of saved completions of the run: how many groups are of use.")
    ] = None,
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
        raise typer.BadParameter("expected one log, or several of a family with --vary, what differs between them")
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
        "like": siblings_asked(like, [Path(logs[0])], reading.sidecar),
    }
    with progress() as tell:
        present, known = bg.read_log(logs[0], **read), None
        if vary is not None:
            bg.check_plan(present, **options)  # before minutes of fitting
            known = bg.family(logs, names_in(vary), index=index, signal=signal, read=read, seed=seed, progress=tell)
        found = bg.plan(present, family=known, seed=seed, progress=tell, **options)
        top = None if output.json_ else bg.diagnose(present, history=0).top
        if plot is not None:
            bg.save_plot(bg.plot_plan(found), plot)
    output.show(found, run=present, top=top)
    if known is not None and not known.converged:
        raise typer.Exit(EXIT_NOT_CONVERGED)
