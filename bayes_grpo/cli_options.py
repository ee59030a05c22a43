"""Options that the commands share: which log, how to read it, which settings it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bayes_grpo.logs import Run

Log = Annotated[list[Path], typer.Argument(help="Log file, output directory, or several W&B chart exports.")]
Json = Annotated[bool, typer.Option("--json", help="Everything as JSON on standard output.")]
Format = Annotated[str | None, typer.Option("--format", help="Reader to use where detection is ambiguous.")]
StepColumn = Annotated[str | None, typer.Option(help="Column or key of the optimizer step.")]
RewardColumn = Annotated[str | None, typer.Option(help="Column or key of the train reward.")]
EvalColumn = Annotated[str | None, typer.Option(help="Column or key of the held-out reward.")]
RunName = Annotated[str | None, typer.Option(help="Run to take from a file that holds several.")]
Sidecar = Annotated[
    Path | None, typer.Option(help="TOML or JSON file of settings (else bayes_grpo.toml beside the log).")
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting that the log lacks: group_size, prompts_per_step, momentum, momentum_convention, "
        "refresh_interval, schedule, total_steps, logging_window, reward_low, reward_high, reward_std_kind.",
    ),
]
GroupSize = Annotated[int | None, typer.Option(help="Completions a prompt (G).")]
PromptsPerStep = Annotated[int | None, typer.Option(help="Prompts an optimizer step.")]
Momentum = Annotated[float | None, typer.Option(help="Heavy-ball momentum or Adam's first beta.")]
Refresh = Annotated[float | None, typer.Option(help="Optimizer steps between refreshes of the sampling policy.")]
Schedule = Annotated[str | None, typer.Option(help="Learning rate: logged, constant, linear or cosine.")]
At = Annotated[float | None, typer.Option("--at", help="Use rows up to this step only.")]
TotalSteps = Annotated[float | None, typer.Option(help="Planned length of the run in optimizer steps.")]


def read(
    log: list[Path],
    format_: str | None,
    step_column: str | None,
    reward_column: str | None,
    eval_column: str | None,
    run_name: str | None,
    sidecar: Path | None,
    sets: list[str] | None,
    at: float | None = None,
    **settings: Any,
) -> Run:
    """Reads the log that the options name, up to step ``at``; ``settings`` are those of its flags that were given."""
    from bayes_grpo.logs import read_log

    run = read_log(
        log[0] if len(log) == 1 else log,
        format=format_,
        step_column=step_column,
        reward_column=reward_column,
        eval_column=eval_column,
        run_name=run_name,
        settings=_settings(sets) | settings,
        sidecar=sidecar,
    )
    return run if at is None else run.until(at)


def given(**values: Any) -> dict[str, Any]:
    """Flags that were given."""
    return {k: v for k, v in values.items() if v is not None}


def _settings(sets: list[str] | None) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for text in sets or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set: expected NAME=VALUE, found {text!r}")
        out[name.strip()] = _number(value.strip())
    return out


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
