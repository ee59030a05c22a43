"""`bayes-grpo compare-runs`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import progress_bar


def _recipe(name: str) -> Any:
    return typer.Option(
        metavar="LOG ...", help=f"Logs of recipe {name}, one a seed, FILE#RUN likewise.", callback=options.EXISTING_LOGS
    )


@command(
    "compare-runs a.jsonl b.jsonl",
    "compare-runs --a a1.jsonl a2.jsonl --b b1.jsonl b2.jsonl",
    "compare-runs metrics.csv#one metrics.csv#two",
)
def compare_runs(
    logs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Two logs or folders of logs, A and B, or --a and --b; FILE#RUN is one of several runs in a file.",
            metavar="A B",
            callback=options.EXISTING_LOGS,
        ),
    ] = None,
    a: Annotated[list[str] | None, _recipe("A")] = None,
    b: Annotated[list[str] | None, _recipe("B")] = None,
    step: Annotated[
        float | None, typer.Option(help="Step at which to compare; the last one that all runs have if absent.")
    ] = None,
    signal: options.Signal = "auto",
    part: options.RewardPart = None,
    by_prompt: Annotated[
        bool,
        typer.Option(
            "--by-prompt", help="A and B are two folders of saved completions: compare them on the same prompts."
        ),
    ] = False,
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER", help="With --by-prompt: another run on the same prompts, to know how hard they are."
        ),
    ] = None,
    *,
    output: options.OutputWithPlot,
    seed: options.Seed = 0,
    reading: options.Reading,
) -> None:
    """Whether recipe B is better than recipe A, when seeds of one recipe differ too."""
    named = list(logs or [])
    if len(named) not in (0, 2) or bool(named) == bool(a or b) or bool(a) != bool(b):
        raise typer.BadParameter(
            "expected two logs, A and B, or --a LOG ... --b LOG ..., one a seed; "
            "FILE#RUN is one of several runs in a file"
        )
    first, second = (a, b) if a and b else ([named[0]], [named[1]])
    if by_prompt:
        if len(first) != 1 or len(second) != 1 or output.plot is not None or part is not None:
            raise typer.BadParameter(
                "--by-prompt: expected one folder of completions each, and neither --plot nor --part"
            )
        from bayes_grpo.rollouts.paired import compare_by_prompt

        with progress_bar() as progress:
            one, two, *others = (bg.read_rollouts(x, progress=progress) for x in (*first, *second, *(also or [])))
            contrast = compare_by_prompt(one, two, others=others, at=step)
        output.show(contrast)
        return
    from bayes_grpo.views.plots.runs import plot_compare_runs

    with progress_bar() as progress:
        found = bg.compare_runs(
            first,
            second,
            step=step,
            signal=signal,
            part=part,
            read=reading.options(),
            seed=seed,
            progress=progress,
        )
        output.save(lambda: plot_compare_runs(found))
    output.show(found)
