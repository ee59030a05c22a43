"""Flags that commands share, each in one place.

A group of flags is a frozen dataclass; a command takes it as one parameter (`bayes_grpo.cli.command`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli import checks
from bayes_grpo.cli.printing import EXIT_NOT_CONVERGED, console, print_json
from bayes_grpo.common.files import check_picture, check_writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayes_grpo import Diagnosis, Run, StoppingCosts
    from bayes_grpo.analysis.result import Part
    from bayes_grpo.common.document import Document
    from bayes_grpo.diagnosis.records import Action
    from bayes_grpo.diagnosis.status import Status
    from bayes_grpo.references.gather import NearbyRuns

in_reading: Callable[..., Any] = partial(typer.Option, rich_help_panel="How to read the log")
in_stopping: Callable[..., Any] = partial(typer.Option, rich_help_panel="When to stop, and what it is worth")
in_output: Callable[..., Any] = partial(typer.Option, rich_help_panel="Output")
in_computing: Callable[..., Any] = partial(typer.Option, rich_help_panel="How much is computed")
"""A flag in a panel of the help, as are the three above."""
REGIME: dict[str, Any] = {"callback": checks.callback(checks.regimes)}
NAMES = "NAME,NAME,..."

Json = Annotated[bool, in_output("--json", help="Print the whole result as JSON.")]
Seed = Annotated[int, in_computing(help="Seed; the same seed gives the same numbers.")]
UpToStep = Annotated[float | None, in_reading("--up-to-step", help="Use rows up to this step only.")]
AllRows = Annotated[
    bool, in_reading("--all-rows", help="Fit all rows; by default those since the reward last collapsed.")
]
Signal = Annotated[
    str,
    in_reading(
        help="auto, reward (train) or eval (evaluation reward).",
        callback=checks.callback(checks.signal),
    ),
]
Jobs = Annotated[int, in_computing(help="Worker processes; the numbers are the same for every number of them.")]
HorizonStep = Annotated[
    float | None,
    typer.Option(
        help="Last step of the forecast; default: planned length, else 1.5 times the last step, and not beyond the "
        "end of the learning rate."
    ),
]
Regimes = Annotated[str | None, typer.Option(help="Regimes to take, separated by commas.", metavar=NAMES, **REGIME)]
RewardPart = Annotated[
    str | None, typer.Option(metavar="NAME", help="Take this reward function or environment, not the total.")
]
Vary = Annotated[
    str | None,
    typer.Option(
        help="Settings that differ between the runs: group_size, learning_rate, prompts_per_step, refresh_interval, "
        "model_size or what file names state (lr_1e-6, lora_rank_8); default: all that differ.",
        metavar=NAMES,
    ),
]
Completions = Annotated[
    Path | None, typer.Option(help="Folder of saved completions of the run: what its gain is made of.")
]
ReferenceRunsFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--reference-runs",
        metavar="RUNS",
        help="Other runs of the same task: a file, folder, store or pattern, repeatable. Default: "
        'reference_runs = ["runs/"] in bayes_grpo.toml next to the log; else forecast, report and watch take the '
        "runs with the same reward in the log's folder or store; none for none.",
    ),
]
LOGS = "Log file, output directory, a store's file or folder, or several W&B chart exports."
EXISTING_LOGS = checks.callback(checks.check_logs_exist)
LogFile = Annotated[list[Path], typer.Argument(help=LOGS, callback=EXISTING_LOGS)]
LogNames = Annotated[
    list[str],
    typer.Argument(
        help="Logs of several runs: files, folders, patterns in quotes, FILE#RUN for one of several runs in a file.",
        callback=EXISTING_LOGS,
    ),
]


@dataclass(frozen=True, kw_only=True)
class OtherParts:
    """Other parts of an analysis, shown around one of its results.

    Attributes:
        run: Its run, whose reward is drawn on a terminal.
        diagnosis: Its diagnosis, whose events are marked in the drawing.
        status: How the run stands: a failure comes first, and otherwise its action is what to do.
        parts: Further parts by title: under the details, and in the JSON.
        action: What to do by the costs that were given, the question of the call; None without them.
    """

    run: Run | None = None
    diagnosis: Diagnosis | None = None
    status: Status | None = None
    parts: Mapping[str, Part[Any]] = field(default_factory=dict)
    action: Action | None = None

    def keys(self) -> dict[str, Any]:
        """Its parts as keys of a JSON object; of one that was not computed the reason."""
        return {k.lower(): {"reason": p.reason} if p.value is None else p.value for k, p in self.parts.items()}

    def document(self, result: Any) -> Document:
        """A result as a document, with what is around it."""
        from bayes_grpo.analysis.result import conditional_document
        from bayes_grpo.common.document import Sparkline
        from bayes_grpo.views.diagnosis import evaluation_line
        from bayes_grpo.views.view import with_part

        document = bg.view(result)
        if self.action is not None:
            document = replace(document, do=self.action.sentence)
        if (run := self.run) is not None:
            step, reward = (run.step, run.reward) if run.has_reward else (run.eval_step, run.eval_reward)
            marked = None if self.diagnosis is None else bg.view(self.diagnosis).series
            events = {} if marked is None else marked.events
            document = replace(document, series=Sparkline(step.tolist(), reward.tolist(), events))
        for title, part in self.parts.items():
            document = with_part(document, title, part)
        if self.status is not None:
            document = conditional_document(document, self.status)
        if self.diagnosis is None:
            return document
        return replace(document, evaluation=evaluation_line(self.diagnosis, finding=bool(document.status)))


@dataclass(frozen=True, kw_only=True)
class Output:
    """How a result is printed."""

    json_: Json = False
    details: Annotated[bool, in_output("--details", help="Print everything, not the first screen alone.")] = False
    short: Annotated[bool, in_output("--short", help="Print the answer, why, and what to do.")] = False

    def show(
        self,
        result: Any,
        around: OtherParts | None = None,
        *,
        more: Mapping[str, Any] = {},
        then: Mapping[str, Any] = {},
    ) -> None:
        """Prints a result with what is shown around it.

        ``more`` are further keys of its JSON; ``then`` are results printed after it, by their keys there.
        """
        around = around or OtherParts()
        if self.json_:
            from bayes_grpo.common.results import headline_of

            print_json(result.to_dict() | dict(more) | dict(then) | around.keys(), headline_of(result))
            return
        self._print(around.document(result))
        for further in then.values():
            if further is not None:
                console().print()
                self._print(bg.view(further))

    def _print(self, document: Document) -> None:
        bg.print_document(document, console(), details=self.details, short=self.short)


def end_unless_converged(converged: bool) -> None:
    """Ends the command with its exit code where a sampler did not converge."""
    if not converged:
        raise typer.Exit(EXIT_NOT_CONVERGED)


@dataclass(frozen=True, kw_only=True)
class OutputWithPlot(Output):
    """How a result is printed, and where its picture is saved.

    A place that cannot be written to is an `OutputError` before minutes of work.
    """

    plot: Annotated[Path | None, in_output(help="Save a picture (.png, .pdf, .svg).")] = None

    def __post_init__(self) -> None:
        if self.plot is not None:
            check_writable(self.plot)
            check_picture(self.plot)

    def save(self, draw: Callable[[], Figure]) -> None:
        """Draws and saves a picture where one is wanted."""
        if self.plot is not None:
            bg.save_plot(draw(), self.plot)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a log."""

    format_: Annotated[str | None, in_reading("--format", help="Reader to use where detection is ambiguous.")] = None
    column_: Annotated[
        list[str] | None,
        in_reading(
            "--column",
            metavar="NAME=KEY",
            help="Key of a column that is not recognized, repeatable: step, reward, heldout, entropy, kl, grad_norm "
            "or another signal; also a table named columns of bayes_grpo.toml.",
        ),
    ] = None
    run: Annotated[
        str | None,
        in_reading(help="Run to take where a store, chart or file holds several: name, id, or its beginning."),
    ] = None
    set_: Annotated[
        list[str] | None,
        in_reading(
            "--set",
            metavar="NAME=VALUE",
            help="A setting that the log lacks: group_size, prompts_per_step, momentum, momentum_convention, "
            "refresh_interval, schedule, total_steps, logging_window, reward_low, reward_high, reward_std_kind, "
            "learning_rate, epochs, kl_weight, clip_range, model_size, save_steps.",
        ),
    ] = None

    def read(self, log: list[Path], up_to_step: float | None = None, known: Mapping[str, Any] = {}) -> Run:
        """Reads a log up to a step, with the settings that flags give."""
        options = self.options(known)
        run = bg.read_log(log[0] if len(log) == 1 else log, **options)
        return run if up_to_step is None else run.until(up_to_step)

    def options(self, known: Mapping[str, Any] = {}) -> dict[str, Any]:
        """The flags that were given, as keyword arguments of `bayes_grpo.read_log`."""
        given = {name.rstrip("_"): value for name, value in asdict(self).items() if value is not None}
        settings: dict[str, Any] = {k: _number(v) for k, v in named_values("--set", given.pop("set", None))}
        settings |= known
        columns = dict(named_values("--column", given.pop("column", None), "NAME=KEY"))
        return given | {"settings": settings} | ({"columns": columns} if columns else {})


@dataclass(frozen=True, kw_only=True)
class StoppingFlags:
    """Costs and values, by which a forecast says when to stop."""

    cost_per_step: Annotated[
        float | None, in_stopping(help="Cost of an optimizer step, in any unit, such as GPU hours or money.")
    ] = None
    value_per_reward: Annotated[float | None, in_stopping(help="Value of one unit of reward, in the same unit.")] = None
    checkpoints: Annotated[
        float | None, in_stopping(help="Steps between checkpoints, of which the best is kept (default: logged).")
    ] = None

    def costs(self) -> StoppingCosts:
        """Costs and values, checked before anything is fitted."""
        return bg.StoppingCosts(**asdict(self))


def references_or_nearby(
    reference_runs: list[str] | None, log: list[Path], reading: Reading
) -> list[str] | NearbyRuns | None:
    """Where reference runs are: the flag, else the settings file next to the log, else near the log; None for none."""
    if reference_runs is not None:
        return None if reference_runs == ["none"] else reference_runs
    from bayes_grpo.logs.options import sidecar_reference_runs

    if named := sidecar_reference_runs(log[0]):
        return named
    if len(log) != 1:
        return None
    from bayes_grpo.references.gather import NearbyRuns

    return NearbyRuns(log[0], reading.run)


def names_in(text: str | None) -> list[str]:
    """Names in a list separated by commas."""
    return [x.strip() for x in (text or "").split(",") if x.strip()]


def named_values(flag: str, given: list[str] | None, form: str = "NAME=VALUE") -> list[tuple[str, str]]:
    """Names and values of a flag that is given in such a form."""
    parts = [text.partition("=") for text in given or []]
    wrong = [name for name, equals, value in parts if not (equals and name.strip() and value.strip())]
    if wrong:
        raise typer.BadParameter(f"{flag}: expected {form}, found {wrong[0]!r}")
    return [(name.strip(), value.strip()) for name, _, value in parts]


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
