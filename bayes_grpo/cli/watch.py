"""`bayes-grpo watch`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import EXIT_FAILING, QUIET, console, marked
from bayes_grpo.common.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bayes_grpo.watching.result import Update


@command("watch outputs/run", "watch metrics.jsonl --once --until-alarm", "watch metrics.jsonl --alert wandb")
def watch(
    log: Annotated[list[Path], typer.Argument(help=options.LOGS)],
    horizon: options.HorizonStep = None,
    interval: Annotated[float, typer.Option(help="Seconds between two checks of the files.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Check once and exit.")] = False,
    idle_timeout: Annotated[
        float | None,
        typer.Option(help="Exit after so many seconds without a new row (default: at the planned length)."),
    ] = None,
    until_alarm: Annotated[bool, typer.Option("--until-alarm", help="Exit with code 5 at the first alarm.")] = False,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Webhook URL (Slack, Discord or any that accepts JSON); each alarm is posted once.",
        ),
    ] = None,
    alert: Annotated[
        str | None,
        typer.Option(metavar="TRACKER", help="Send every alarm as an alert of wandb or trackio, by its own client."),
    ] = None,
    alarm: Annotated[
        float | None, typer.Option(help="Raise an alarm once a failure stays above this probability.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="File that records the alarms raised (default: in the user's state folder)."),
    ] = None,
    reset_state: Annotated[
        bool, typer.Option("--reset-state", help="Forget the alarms of earlier watches of this path.")
    ] = False,
    signal: options.Signal = "auto",
    reference_runs: options.ReferenceRunsFlag = None,
    json_: options.Json = False,
    seed: options.Seed = 0,
    *,
    stopping: options.StoppingFlags,
    reading: options.Reading,
) -> None:
    """Follow a run: forecast, diagnosis and advice at every new row, and one alarm for every failure."""
    found = options.references_or_nearby(reference_runs, log, reading)
    named = tuple(found or ()) if isinstance(found, list | None) else found
    costs = stopping.costs()
    rule: dict[str, Any] = {} if alarm is None else {"alarm": alarm}
    from bayes_grpo.watching.result import Watching
    from bayes_grpo.watching.watch import Patience

    watching = Watching(horizon=horizon, costs=costs, signal=signal, seed=seed, reference_runs=named, **rule)
    screen = _Screen(json_)
    looks = bg.watch(
        log[0] if len(log) == 1 else log,
        watching,
        patience=Patience(interval=interval, idle=idle_timeout, once=once, until_alarm=until_alarm),
        read=reading.options(),
        webhook=webhook,
        alert=alert,
        state=state,
        reset_state=reset_state,
        progress=screen.report,
    )
    last = screen.show(looks)
    if until_alarm and last is not None and last.alarmed:
        raise typer.Exit(EXIT_FAILING)


class _Screen:
    """Where looks are shown: JSON or lines on standard output, or one table that is redrawn on a terminal."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._live: Any = None
        self._update: Update | None = None
        self._status = ""

    def show(self, looks: Iterator[Update]) -> Update | None:
        """Shows all looks; the last of them, None without one."""
        if self._json or not sys.stdout.isatty():
            for update in looks:
                self._update = update
                sys.stdout.write(f"{self._line(update)}\n")
                sys.stdout.flush()
            return self._update
        from rich.live import Live

        with Live(console=console(), auto_refresh=False, vertical_overflow="visible") as self._live:
            self._drawn()
            for self._update in looks:
                self._drawn()
            self._status = ""
            self._drawn()
        return self._update

    def report(self, status: str) -> None:
        """Says what goes on: in the table, or, where it is new, on standard error."""
        if self._live is not None:
            self._status = status
            self._drawn()
        elif QUIET.get():
            return
        elif sys.stderr.isatty() or status.startswith(("waiting", "cannot")):
            text = status.split(" for ")[0] if status.startswith("no new row") else status
            if text != self._status:
                self._status = text
                sys.stderr.write(f"bayes-grpo: {text}\n")
                sys.stderr.flush()

    def _line(self, update: Update) -> str:
        content = marked(update.to_dict(), update.sentence)
        return json.dumps(content, allow_nan=False, ensure_ascii=False) if self._json else plain(update.line, 600)

    def _drawn(self) -> None:
        from rich.console import Group
        from rich.text import Text

        from bayes_grpo.views.terminal import printed

        if self._update is None:
            self._live.update(Text(self._status or "starting", style="cyan"), refresh=True)
        else:
            parts = printed(bg.view(self._update), True, console().width, details=True)
            self._live.update(Group(*parts, Text(self._status, style="cyan")), refresh=True)
