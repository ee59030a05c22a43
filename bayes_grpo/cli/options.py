"""Flags that commands share, in groups: which log, which settings it lacks, when to stop.

A group is a frozen dataclass whose fields are flags. A command takes the group as one parameter, and `grouped` shows
typer its fields instead.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

import bayes_grpo as bg
from bayes_grpo.cli.terminal import console, is_quiet, print_json, tell_read
from bayes_grpo.common.files import check_picture, check_writable
from bayes_grpo.common.results import headline_of
from bayes_grpo.common.text import plain

if TYPE_CHECKING:
    from bayes_grpo import Question, Run, TopLine

EXIT_INPUT, EXIT_NOT_CONVERGED, EXIT_FAILING, EXIT_INTERRUPTED, EXIT_ENDED = 3, 4, 5, 130, 143
"""Exit codes; `bayes_grpo.cli.app` says when each is used. The last two are those of `bayes_grpo.cli.entry`."""

Json = Annotated[bool, typer.Option("--json", help="Everything as JSON on standard output.")]
Seed = Annotated[int, typer.Option(help="Seed; the same seed gives the same numbers.")]
Plot = Annotated[Path | None, typer.Option(help="Save a picture (.png, .pdf, .svg).")]
At = Annotated[float | None, typer.Option("--at", help="Use rows up to this step only.")]
AllRows = Annotated[
    bool, typer.Option("--all-rows", help="Fit all rows; by default those since the reward last collapsed.")
]
Signal = Annotated[str, typer.Option(help="auto, reward (train) or eval (held-out).")]
Jobs = Annotated[int, typer.Option(help="Worker processes; the numbers are the same for every number of them.")]
LikeRuns = Annotated[
    list[str] | None,
    typer.Option(
        "--like",
        metavar="RUNS",
        help="Siblings, other runs of the same task: a file, folder, store or pattern; may be given several times. "
        'Else like = ["runs/"] in bayes_grpo.toml beside the log; --like none for none.',
    ),
]
LogTo = Annotated[
    str | None,
    typer.Option(
        "--log-to",
        metavar="wandb|trackio|tensorboard|mlflow",
        help="Write the numbers beside the run in this tracker too, by its own client.",
    ),
]
LogFile = Annotated[
    list[Path],
    typer.Argument(help="Log file, output directory, a store's file or folder, or several W&B chart exports."),
]


@dataclass(frozen=True, kw_only=True)
class Output:
    """How a result is printed."""

    json_: Json = False
    details: Annotated[bool, typer.Option("--details", help="Print everything, not the first screen alone.")] = False
    short: Annotated[bool, typer.Option("--short", help="Print the answer, why, and what to do; nothing else.")] = False

    def show(
        self,
        result: Any,
        *,
        more: Mapping[str, Any] = {},
        then: Iterable[Any] = (),
        run: Run | None = None,
        top: TopLine | None = None,
        note: str = "",
    ) -> None:
        """Prints a result.

        Args:
            result: The result.
            more: What its JSON holds besides.
            then: Results that are printed after it.
            run: Its run, whose reward is drawn on a terminal.
            top: How the run stands: a failure comes first, and otherwise its action is what to do.
            note: A line for ``--details``.
        """
        if self.json_:
            print_json(result.to_dict() | dict(more), headline_of(result))
            return
        first = bg.view(result)
        if run is not None:
            step, reward = (run.step, run.reward) if run.has_reward else (run.eval_step, run.eval_reward)
            first = first.with_series(step.tolist(), reward.tolist())
        if top is not None:
            first = first.given(top)
        if note:
            first = first.with_note(note)
        for i, document in enumerate((first, *map(bg.view, then))):
            if i:
                console().print()
            bg.print_document(document, console(), details=self.details, short=self.short)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a log."""

    format_: Annotated[
        str | None,
        typer.Option("--format", help="Reader to use where detection is ambiguous."),
    ] = None
    column_: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME=KEY",
            help="Key of a column that is not recognized, repeatable: step, reward, heldout, entropy, kl, grad_norm "
            "or another signal. bayes_grpo.toml has them under [columns].",
        ),
    ] = None
    run_name: Annotated[str | None, typer.Option(help="Name of the run to show.")] = None
    run: Annotated[
        str | None,
        typer.Option(help="Run to take where a store, chart or file holds several: name, id, or its beginning."),
    ] = None
    sidecar: Annotated[
        Path | None, typer.Option(help="TOML or JSON file of settings (else bayes_grpo.toml beside the log).")
    ] = None
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting that the log lacks: group_size, prompts_per_step, momentum, momentum_convention, "
            "refresh_interval, schedule, total_steps, logging_window, reward_low, reward_high, reward_std_kind, "
            "learning_rate, epochs, kl_weight, clip_range, model_size, save_steps.",
        ),
    ] = None

    def read(
        self, log: list[Path], at: float | None = None, stated: StatedSettings | None = None, tell: bool = True
    ) -> Run:
        """Reads a log up to step ``at``, with the settings that were stated; on a terminal says what was read."""
        run = bg.read_log(log[0] if len(log) == 1 else log, **self.options(stated))
        run = run if at is None else run.until(at)
        if tell:
            tell_read(run)
        return run

    def options(self, stated: StatedSettings | None = None) -> dict[str, Any]:
        """What was given, as keyword arguments of `bayes_grpo.read_log`."""
        given = {name.rstrip("_"): value for name, value in asdict(self).items() if value is not None}
        settings = _settings(given.pop("set", None)) | ({} if stated is None else stated.given())
        columns = dict(_pairs("--column", given.pop("column", None)))
        return given | {"settings": settings} | ({"columns": columns} if columns else {})


@dataclass(frozen=True, kw_only=True)
class StatedSettings:
    """Settings of the run that have a flag of their own."""

    group_size: Annotated[int | None, typer.Option(help="Completions a prompt (G).")] = None
    prompts_per_step: Annotated[int | None, typer.Option(help="Prompts an optimizer step.")] = None
    momentum: Annotated[float | None, typer.Option(help="Heavy-ball momentum or Adam's first beta.")] = None
    refresh: Annotated[float | None, typer.Option(help="Optimizer steps between refreshes of the sampling policy.")] = (
        None
    )
    schedule: Annotated[str | None, typer.Option(help="Learning rate: logged, constant, linear or cosine.")] = None
    total_steps: Annotated[float | None, typer.Option(help="Planned length of the run in optimizer steps.")] = None

    def given(self) -> dict[str, Any]:
        """Settings that were given, by their names in the log."""
        names = {"refresh": "refresh_interval"}
        return {names.get(k, k): v for k, v in asdict(self).items() if v is not None}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Flags that ask a forecast when to stop."""

    cost_per_step: Annotated[
        float | None, typer.Option(help="Cost of an optimizer step, in money; asks when to stop.")
    ] = None
    value_per_reward: Annotated[
        float | None,
        typer.Option(help="What one unit of reward is worth: in money, or in GPU hours where no price is given."),
    ] = None
    gpu_hours_per_step: Annotated[
        float | None, typer.Option(help="GPU hours of an optimizer step, in place of a cost.")
    ] = None
    price_per_gpu_hour: Annotated[
        float | None, typer.Option(help="Price of a GPU hour, which turns GPU hours into money.")
    ] = None
    gpus: Annotated[
        float | None, typer.Option(help="GPUs of the run, where the log has the time of a step; in place of a cost.")
    ] = None
    steps_per_point: Annotated[
        float | None, typer.Option(help="How many steps 0.01 of reward is worth; in place of a cost and a value.")
    ] = None
    checkpoints: Annotated[
        float | None, typer.Option(help="Steps between checkpoints, of which the best is kept; else as the run says.")
    ] = None
    prompts: Annotated[
        float | None, typer.Option(help="Completions behind each held-out score; else the scores tell their noise.")
    ] = None
    selector: Annotated[
        str, typer.Option(help="What tells checkpoints apart: held-out, reward, or auto (held-out where there is any).")
    ] = "auto"
    gain: Annotated[float | None, typer.Option(help="Asks how many more steps this gain of reward takes.")] = None
    probability: Annotated[
        float | None, typer.Option(help="Probability with which the gain shall be there (default 0.8).")
    ] = None

    def question(self) -> Question:
        """The question, checked before anything is fitted."""
        return bg.Question(**asdict(self))


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Shows typer the fields of every group of flags among a command's parameters.

    Args:
        command: Function some of whose parameters are dataclasses of flags.

    Returns:
        The same command with the fields as its own parameters.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if inspect.isclass(hint) and is_dataclass(hint)}
    shown: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name not in groups:
            shown.append(parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        own = get_type_hints(groups[parameter.name], include_extras=True)
        shown += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=own[f.name])
            for f in fields(groups[parameter.name])
        ]

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{f.name: given.pop(f.name) for f in fields(group)})
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in shown}
    vars(run)["__signature__"] = inspect.Signature(shown)
    return run


def siblings_asked(like: list[str] | None, log: list[Path], sidecar: Path | None = None) -> list[str] | None:
    """Where siblings are: what was given, else what the file of settings beside the log says; None for none."""
    if like is not None:
        return None if like == ["none"] else like
    return bg.stated_siblings(log[0], sidecar) or None


def names_in(text: str | None) -> list[str]:
    """Names in a list separated by commas."""
    return [x.strip() for x in (text or "").split(",") if x.strip()]


def log_to(tracker: str | None, run: Run, about: str, result: Mapping[str, Any], headline: str) -> None:
    """Writes a result to the tracker that was asked for, and says where on standard error."""
    if tracker is not None:
        where = bg.log_result(tracker, run, about, result, headline)
        if not is_quiet():
            sys.stderr.write(f"bayes-grpo: logged to {tracker}: {plain(where, 300)}\n")


def check_pictures(*paths: Path | None) -> None:
    """Raises `OutputError` where a picture that is asked for cannot be written, before minutes of work."""
    for path in paths:
        if path is not None:
            check_writable(path)
            check_picture(path)


def _settings(sets: list[str] | None) -> dict[str, Any]:
    return {name: _number(value) for name, value in _pairs("--set", sets)}


def _pairs(flag: str, given: list[str] | None) -> list[tuple[str, str]]:
    """Names and what is given for them, as NAME=VALUE."""
    parts = [text.partition("=") for text in given or []]
    wrong = [name for name, equals, value in parts if not (equals and name.strip() and value.strip())]
    if wrong:
        raise typer.BadParameter(
            f"{flag}: expected {'NAME=VALUE' if flag == '--set' else 'NAME=KEY'}, found {wrong[0]!r}"
        )
    return [(name.strip(), value.strip()) for name, _, value in parts]


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
