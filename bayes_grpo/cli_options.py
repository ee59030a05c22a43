"""Options that the commands share: which log, how to read it, which settings it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayes_grpo.files import check_picture, check_writable

if TYPE_CHECKING:
    from bayes_grpo.logs import Run

EXIT_INPUT, EXIT_NOT_CONVERGED, EXIT_FAILING, EXIT_INTERRUPTED = 3, 4, 5, 130
"""Exit codes; `bayes_grpo.cli` says when each is used."""

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
Signal = Annotated[str, typer.Option(help="auto, reward (train) or eval (held-out).")]
Seed = Annotated[int, typer.Option(help="Seed; the same seed gives the same numbers.")]
Plot = Annotated[Path | None, typer.Option(help="Save a picture (.png, .pdf, .svg).")]
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


def names_in(text: str | None) -> list[str]:
    """Names in a list separated by commas."""
    return [x.strip() for x in (text or "").split(",") if x.strip()]


def check_pictures(*paths: Path | None) -> None:
    """Raises `OutputError` where a picture that is asked for cannot be written, before minutes of work."""
    for path in paths:
        if path is not None:
            check_writable(path)
            check_picture(path)


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
