"""`bayes-grpo report`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import (
    EXIT_NOT_CONVERGED,
    Asked,
    At,
    Json,
    Reading,
    Seed,
    Signal,
    Stated,
    grouped,
    names_in,
)
from bayes_grpo.cli.terminal import console, print_json, progress
from bayes_grpo.common.errors import BayesGrpoError, SettingError
from bayes_grpo.common.files import check_writable

if TYPE_CHECKING:
    from bayes_grpo import Report, ReportSettings, Run

WITHOUT = "Parts to leave out, separated by commas: fit, laws, check, forecast, diagnosis, stability."


@grouped
def report(
    log: Annotated[
        list[Path],
        typer.Argument(
            help="Log or output directory; several are put beside each other. Or a saved fit (.nc), or a fleet's table."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Write the page to this file.")] = Path("report.html"),
    fit: Annotated[Path | None, typer.Option(help="Saved fit (.nc) to show in place of a new one.")] = None,
    one_run: Annotated[bool, typer.Option("--one-run", help="The files are chart exports of a single run.")] = False,
    until: Annotated[
        float | None,
        typer.Option(help="Horizon of the forecast, a step; else the planned length or half as long again."),
    ] = None,
    regime: Annotated[str, typer.Option(help="Regime whose quantities are shown.")] = "oscillator",
    signal: Signal = "auto",
    at: At = None,
    history: Annotated[int, typer.Option(help="Cuts of the log at which to say what would have been said then.")] = 12,
    without: Annotated[str | None, typer.Option(help=WITHOUT, metavar="NAME,NAME,...")] = None,
    json_: Json = False,
    seed: Seed = 0,
    *,
    asked: Asked,
    reading: Reading,
    stated: Stated,
) -> None:
    """Write one page about a run: what drives it, what is left and whether it pays, what is wrong, and the evidence."""
    check_writable(out)
    settings = bg.ReportSettings(
        until=until,
        question=asked.question(),
        signal=signal,
        regime=regime,
        history=history,
        without=tuple(names_in(without)),
        seed=seed,
    )
    several = len(log) > 1 and not one_run
    if fit is not None and several:
        raise SettingError(f"--fit: expected one log beside a fit, found {len(log)}; leave the flag or the logs out")
    with progress(left=True) as tell:
        if several:
            made = _beside(log, reading, at, stated, settings, tell)
        else:
            made = _one(log, fit, reading, at, stated, settings, tell)
        bg.save_report(made, out)
    if json_:
        print_json(made.to_dict() | {"page": str(out)})
    else:
        screen = console()
        bg.render_report(made, screen)
        screen.print(f"page: {out}", markup=False)
    if made.failed:
        raise typer.Exit(EXIT_NOT_CONVERGED)


def _one(
    log: list[Path], fit: Path | None, reading: Reading, at: float | None, stated: Stated, settings: Any, tell: Any
) -> Report:
    """The page of one run, of a saved fit, or of a fleet's table."""
    fleet = bg.read_fleet(log[0]) if len(log) == 1 else None
    if fleet is not None:
        return bg.report_fleet(fleet)
    known = None if fit is None else bg.load_fit(fit)
    if len(log) == 1 and log[0].suffix == ".nc":
        return bg.report_run(fit=bg.load_fit(log[0]), settings=settings, progress=tell)
    run = reading.read(log, at, stated)
    settings = replace(settings, question=bg.priced(settings.question, run))
    if known is not None and known.data.attrs["log_hash"] != run.log_hash:
        raise SettingError(f"--fit: {fit} is a fit of another log, {known.about.run}; give the log that it was made of")
    return bg.report_run(run, fit=known, settings=settings, progress=tell)


def _beside(
    logs: list[Path], reading: Reading, at: float | None, stated: Stated, settings: ReportSettings, tell: Any
) -> Report:
    """The page of several runs; a log that cannot be read is named on it."""
    runs: list[Run] = []
    unread: dict[str, str] = {}
    for path in logs:
        tell(f"reading {path.name}")
        try:
            runs.append(reading.read([path], at, stated))
        except BayesGrpoError as error:
            unread[path.name] = str(error)
    if len(runs) < 2 and unread:
        raise SettingError("report: expected two logs or more; " + "; ".join(unread.values()))
    return bg.report_runs(runs, settings=settings, unread=unread, progress=tell)
