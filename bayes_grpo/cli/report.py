"""`bayes-grpo report`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo import internal
from bayes_grpo.cli import checks
from bayes_grpo.cli.command import command
from bayes_grpo.cli.options import (
    EXIT_NOT_CONVERGED,
    NAMES,
    OUTPUT,
    READING,
    REGIME,
    At,
    Completions,
    LikeRuns,
    Output,
    Reading,
    RunSettings,
    Seed,
    Signal,
    StoppingFlags,
    Until,
    Vary,
    completed_by,
    names_in,
    option,
    references_or_nearby,
)
from bayes_grpo.cli.terminal import console, progress
from bayes_grpo.common.errors import BayesGrpoError, SettingError
from bayes_grpo.common.files import check_writable

if TYPE_CHECKING:
    from bayes_grpo import Report, Run
    from bayes_grpo.report.settings import ReportSettings

REPORT_PARTS = ("fit", "regimes", "check", "forecast", "diagnosis", "stability")
"""Those of `bayes_grpo.analysis.settings`, whose import would delay every refusal."""


@command("report outputs/run --out run.html", "report seed1.jsonl seed2.jsonl")
def report(
    log: Annotated[
        list[Path],
        typer.Argument(
            help="Log or output directory; several are compared on one page. Or a saved fit (.nc).",
            callback=checks.callback(checks.there),
        ),
    ],
    out: Annotated[Path, option(OUTPUT, help="Write the page to this file.")] = Path("report.html"),
    fit: Annotated[Path | None, typer.Option(help="Saved fit (.nc) to show in place of a new one.")] = None,
    one_run: Annotated[bool, option(READING, "--one-run", help="The files are chart exports of a single run.")] = False,
    until: Until = None,
    regime: Annotated[str, typer.Option(help="Regime whose quantities are shown.", **REGIME)] = "oscillator",
    signal: Signal = "auto",
    at: At = None,
    without: Annotated[
        str | None,
        typer.Option(
            help=f"Parts to leave out: {', '.join(REPORT_PARTS)}.",
            metavar=NAMES,
            autocompletion=completed_by(REPORT_PARTS),
        ),
    ] = None,
    b: Annotated[
        list[Path] | None,
        typer.Option(metavar="LOG ...", help="Logs of another recipe, B, one a seed; the others are A's."),
    ] = None,
    vary: Vary = None,
    rollouts: Completions = None,
    like: LikeRuns = None,
    docs: Annotated[
        str, option(OUTPUT, metavar="ADDRESS", help="Where the built documentation lies, for links from the page.")
    ] = "",
    run_link: Annotated[
        str, option(OUTPUT, metavar="ADDRESS", help="Address of the run, as in a tracker; a link at the page's top.")
    ] = "",
    commit: Annotated[
        str, option(OUTPUT, metavar="ADDRESS|NAME", help="Commit that the run ran; shown at the page's top.")
    ] = "",
    seed: Seed = 0,
    *,
    output: Output,
    stopping: StoppingFlags,
    reading: Reading,
    known: RunSettings,
) -> None:
    """Write one page about a run: what drives it, what is left and whether it pays, what is wrong, and the evidence."""
    check_writable(out)
    several = bool(b) or (len(log) > 1 and not one_run)
    settings = internal.ReportSettings(
        until=until,
        question=stopping.question(),
        signal=signal,
        regime=regime,
        without=tuple(names_in(without)),
        seed=seed,
        rollouts=None if rollouts is None else bg.read_rollouts(rollouts),
        docs=docs,
        run_link=run_link,
        commit=commit,
        like=None if several else references_or_nearby(like, log, reading),
    )
    if rollouts is not None and several:
        raise SettingError("--rollouts: expected the log of one run, found several; give the completions of one")
    if vary and not several:
        raise SettingError("--vary: expected logs of several runs, found one")
    if fit is not None and several:
        raise SettingError(
            f"--fit: expected one log with a fit, found {len(log) + len(b or [])}; leave the flag or the logs out"
        )
    with progress(left=True) as tell:
        if several:
            take = partial(_read_all, reading=reading, at=at, known=known, tell=tell)
            made = _runs_page((take(log), take(b or [])), names_in(vary), settings, tell)
        else:
            made = _one(log, fit, partial(reading.read, at=at, known=known), settings, tell)
        bg.save_report(made, out)
    output.show(made, more={"page": str(out)})
    if not output.json_:
        console().print(f"Page: {out}", markup=False)
    if made.failed:
        raise typer.Exit(EXIT_NOT_CONVERGED)


def _one(
    log: list[Path], fit: Path | None, read: Callable[[list[Path]], Run], settings: ReportSettings, tell: Any
) -> Report:
    """The page of one run, or of a saved fit."""
    made = None if fit is None else bg.load_fit(fit)
    if len(log) == 1 and log[0].suffix == ".nc":
        return bg.report_run(fit=bg.load_fit(log[0]), settings=settings, progress=tell)
    run = read(log)
    checks.horizon(settings.until, run)
    if made is not None and made.data.attrs["log_hash"] != run.log_hash:
        raise SettingError(f"--fit: {fit} is a fit of another log, {made.about.run}; give the log that it was made of")
    return bg.report_run(run, fit=made, settings=settings, progress=tell)


_Read = tuple[list["Run"], dict[str, str]]
"""Runs, and the logs that could not be read with their reasons."""


def _read_all(logs: list[Path], reading: Reading, at: float | None, known: RunSettings, tell: Any) -> _Read:
    runs, unread = [], {}
    for path in logs:
        tell(f"reading {path.name}")
        try:
            runs.append(reading.read([path], at, known, tell=False))
        except BayesGrpoError as error:
            unread[path.name] = str(error)
    return runs, unread


def _runs_page(sides: tuple[_Read, _Read], vary: list[str], settings: ReportSettings, tell: Any) -> Report:
    """The page of several runs; a log that cannot be read is named on it."""
    (runs, lost), (against, also) = sides
    unread = lost | also
    if unread and (len(runs) + len(against) < 2 or not runs):
        raise SettingError("report: expected two logs or more; " + "; ".join(unread.values()))
    return bg.report_runs(runs, settings=settings, against=against, vary=vary, unread=unread, progress=tell)
