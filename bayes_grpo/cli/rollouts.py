"""`bayes-grpo rollouts`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import progress_bar


@command(
    "rollouts outputs/run/completions",
    "rollouts completions.csv --pass-at-k --right correct",
)
def rollouts(
    folder: Annotated[Path, typer.Argument(help="Folder that a trainer saved completions in, or a table of them.")],
    log: Annotated[Path | None, typer.Option(help="Log of the same run, to compare both.")] = None,
    format_: Annotated[str | None, typer.Option("--format", help="Format to use where several fit.")] = None,
    split: Annotated[str, typer.Option(help="train or eval.")] = "train",
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME=COLUMN", help="Column of a plain table, e.g. reward=score. Repeatable."),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option("--weight", metavar="FUNCTION=W", help="Weight of a reward function, where no total is saved."),
    ] = None,
    formatted: Annotated[
        str | None, typer.Option(help="Part that says whether an answer is formatted; found by its name if absent.")
    ] = None,
    pass_at_k: Annotated[
        bool,
        typer.Option("--pass-at-k", help="pass@1 and pass@k over the training: more prompts solved, or sharpening."),
    ] = False,
    right: Annotated[
        str | None,
        typer.Option(metavar="PART", help="Which answers are right: a part of 0 and 1, or NAME>=X."),
    ] = None,
    *,
    output: options.OutputWithPlot,
    seed: options.Seed = 0,
) -> None:
    """Analyze saved completions: parts of a gain, groups of use, and pass@k."""
    weights = {name: _number(name, value) for name, value in options.named_values("--weight", weight, "FUNCTION=W")}
    columns = dict(options.named_values("--column", column, "NAME=COLUMN"))
    from bayes_grpo.passing.passing import passing
    from bayes_grpo.rollouts.summary import describe_rollouts
    from bayes_grpo.views.plots.rollouts import plot_rollouts

    run = None if log is None else bg.read_log(log)
    then: dict[str, Any] = {}
    with progress_bar() as progress:
        found = bg.read_rollouts(
            folder,
            format=format_,
            split=split,
            columns=columns,
            weights=weights,
            progress=progress,
        )
        progress("counting")
        summary = describe_rollouts(found, run, formatted=formatted, seed=seed)
        if pass_at_k:
            progress("sampling pass@k")
            then["pass_at_k"] = passing(found, right=right, seed=seed)
        output.save(lambda: plot_rollouts(summary))
    output.show(summary, then=then)


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise typer.BadParameter(f"--weight: expected FUNCTION=NUMBER, found {name}={value!r}") from None
