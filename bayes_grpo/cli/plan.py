"""`bayes-grpo plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import Json, Reading, Seed, Signal, Stated, grouped, names_in
from bayes_grpo.cli.terminal import console, print_json, progress


@grouped
def plan(
    logs: Annotated[list[str], typer.Argument(help="The log of one run; or those of a family, with --vary.")],
    until: Annotated[float, typer.Option(help="Steps of the next run at the present settings.")],
    vary: Annotated[
        str | None,
        typer.Option(help="Settings that differ between the logs: a family, from which exponents are learned."),
    ] = None,
    index: Annotated[Path | None, typer.Option(help="CSV file with settings that the logs of a family lack.")] = None,
    try_: Annotated[
        list[str] | None,
        typer.Option("--try", metavar="NAME=VALUE,VALUE,...", help="Candidates; all combinations are looked at."),
    ] = None,
    now: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A present setting that the logs do not state.")
    ] = None,
    goal: Annotated[float | None, typer.Option(help="Reward to be reached.")] = None,
    probability: Annotated[float, typer.Option(help="With which probability.")] = 0.9,
    cost_per_completion: Annotated[float | None, typer.Option(help="Money.")] = None,
    signal: Signal = "auto",
    json_: Json = False,
    seed: Seed = 0,
    *,
    reading: Reading,
    stated: Stated,
) -> None:
    """Which settings to take next, for the same completions: expected reward, stability, steps to a goal."""
    candidates = dict(map(_numbers, try_ or [])) or None
    present = {name: values[0] for name, values in map(_numbers, now or [])}
    with progress() as tell:
        if vary is None:
            if len(logs) != 1:
                raise typer.BadParameter("expected one log, or --vary with the logs of a family")
            basis = reading.read([Path(logs[0])], None, stated)
        else:
            options = {k: v for k, v in reading.options(stated).items() if v is not None}
            basis = bg.family(logs, names_in(vary), index=index, signal=signal, read=options, seed=seed, progress=tell)
        found = bg.plan(
            basis,
            until,
            candidates=candidates,
            present=present,
            goal=goal,
            probability=probability,
            cost_per_completion=cost_per_completion,
            momentum=0.9 if stated.momentum is None else stated.momentum,
            signal=signal,
            seed=seed,
            progress=tell,
        )
    if json_:
        print_json(found.to_dict())
    else:
        bg.render_plan(found, console())


def _numbers(text: str) -> tuple[str, list[float]]:
    name, equals, values = text.partition("=")
    try:
        numbers = [float(v) for v in values.split(",") if v.strip()]
    except ValueError:
        numbers = []
    if not equals or not numbers:
        raise typer.BadParameter(f"expected NAME=VALUE or NAME=VALUE,VALUE, found {text!r}")
    return name.strip(), numbers
