"""The command `diagnose`: what is wrong with a run, with probabilities."""

from __future__ import annotations

from typing import Annotated

import typer

from bayes_grpo.cli_options import (
    EXIT_FAILING,
    At,
    EvalColumn,
    Format,
    GroupSize,
    Json,
    Log,
    Plot,
    PromptsPerStep,
    RewardColumn,
    RunName,
    Sets,
    Sidecar,
    StepColumn,
    check_pictures,
    given,
    read,
)
from bayes_grpo.terminal import console, print_json, progress


def diagnose(
    log: Log,
    at: At = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="MODE:P",
            help="Exit with code 5 if a failure's probability is at least P; MODE may be any. Repeatable.",
        ),
    ] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option("--prior", metavar="NAME=P,…", help="Prior probabilities, e.g. healthy=0.6,reward_hacking=0.1."),
    ] = None,
    plot: Plot = None,
    json_: Json = False,
    format_: Format = None,
    step_column: StepColumn = None,
    reward_column: RewardColumn = None,
    eval_column: EvalColumn = None,
    run_name: RunName = None,
    sidecar: Sidecar = None,
    group_size: GroupSize = None,
    prompts_per_step: PromptsPerStep = None,
    set_: Sets = None,
) -> None:
    """Name what is wrong with a run: probabilities of four failures, the evidence, the onset, what to do."""
    check_pictures(plot)
    limits = _limits(fail_on)
    stated = _prior(prior)
    run = read(log, format_, step_column, reward_column, eval_column, run_name, sidecar, set_, **given(
        group_size=group_size, prompts_per_step=prompts_per_step,
    ))  # fmt: skip
    from bayes_grpo.diagnosis.run import diagnose as diagnose_run
    from bayes_grpo.intervals import probability_text

    with progress() as tell:
        tell("gathering evidence")
        result = diagnose_run(run, at=at, prior=stated)
        if plot is not None:
            from bayes_grpo.report.picture import save_plot
            from bayes_grpo.report.plot_diagnosis import plot_diagnosis

            save_plot(plot_diagnosis(result), plot)
    reached = {mode: result.own[mode] for mode, limit in limits.items() if result.own[mode] >= limit}
    if json_:
        print_json(result.to_dict() | {"fail_on": {"limits": limits, "reached": reached}})
    else:
        from bayes_grpo.report.render_diagnosis import render_diagnosis

        render_diagnosis(result, console())
        for mode, p in reached.items():
            console().print(
                f"--fail-on {mode}:{limits[mode]:g} reached with {probability_text(p)}", style="bold red", markup=False
            )
    if reached:
        raise typer.Exit(EXIT_FAILING)


def _limits(texts: list[str] | None) -> dict[str, float]:
    from bayes_grpo.diagnosis.classes import MODES
    from bayes_grpo.errors import SettingError

    out: dict[str, float] = {}
    for text in texts or []:
        name, colon, number = text.partition(":")
        name = name.strip().replace("-", "_")
        try:
            limit = float(number)
        except ValueError:
            limit = -1.0
        if not colon or name not in (*MODES, "any") or not 0.0 < limit <= 1.0:
            raise SettingError(
                f"--fail-on: expected MODE:P with MODE one of {', '.join(MODES)} or any and P in (0, 1], found {text!r}"
            )
        for mode in MODES if name == "any" else (name,):
            out[mode] = min(limit, out.get(mode, 1.0))
    return out


def _prior(texts: list[str] | None) -> dict[str, float] | None:
    from bayes_grpo.errors import PriorError

    out: dict[str, float] = {}
    for text in texts or []:
        for part in text.split(","):
            name, equals, number = part.partition("=")
            try:
                out[name.strip().replace("-", "_")] = float(number)
            except ValueError:
                raise PriorError(f"--prior: expected NAME=P such as healthy=0.6, found {part!r}; correct it") from None
            if not equals:
                raise PriorError(f"--prior: expected NAME=P such as healthy=0.6, found {part!r}; correct it")
    return out or None
