"""`bayes-grpo diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.options import (
    EXIT_FAILING,
    At,
    LikeRuns,
    LogFile,
    LogTo,
    Output,
    Plot,
    Reading,
    StatedSettings,
    check_pictures,
    grouped,
    log_to,
    siblings_asked,
)
from bayes_grpo.cli.terminal import console, progress
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import probability_text

ANY = "any"
"""Any failure, in `--fail-on`."""


@grouped
def diagnose(
    log: LogFile,
    at: At = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="MODE:P",
            help="Exit with code 5 if a failure's probability is at least P; with any, that of failing at all. "
            "Repeatable.",
        ),
    ] = None,
    history: Annotated[
        int, typer.Option(help="Cuts of the log at which to say what would have been said then; 0 for none.")
    ] = 12,
    rollouts: Annotated[
        Path | None, typer.Option(help="Folder of saved completions of the run: what its gain is made of.")
    ] = None,
    like: LikeRuns = None,
    plot: Plot = None,
    log_to_: LogTo = None,
    *,
    output: Output,
    reading: Reading,
    stated: StatedSettings,
) -> None:
    """Name what is wrong with a run: probabilities of four failures, the evidence, the onset, what to do."""
    check_pictures(plot)
    limits = _limits(fail_on)
    run = reading.read(log, stated=stated)
    with progress() as tell:
        saved = None if rollouts is None else bg.read_rollouts(rollouts, progress=tell)
        tell("gathering evidence")
        result = bg.diagnose(
            run,
            at=at,
            history=history,
            rollouts=saved,
            like=siblings_asked(like, log, reading.sidecar),
        )
        if plot is not None:
            bg.save_plot(bg.plot_diagnosis(result), plot)
    found = {mode: result.failing if mode == ANY else result.probability[mode] for mode in limits}
    reached = {mode: p for mode, p in found.items() if p >= limits[mode]}
    log_to(log_to_, run, "diagnose", result.to_dict(), result.top.sentence)
    output.show(result, more={"fail_on": {"limits": limits, "reached": reached}})
    if not output.json_:
        for mode, p in reached.items():
            console().print(
                f"--fail-on {mode}:{limits[mode]:g} reached with {probability_text(p)}", style="bold red", markup=False
            )
    if reached:
        raise typer.Exit(EXIT_FAILING)


def _limits(texts: list[str] | None) -> dict[str, float]:
    out: dict[str, float] = {}
    for text in texts or []:
        name, colon, number = text.partition(":")
        name = name.strip().replace("-", "_")
        try:
            limit = float(number)
        except ValueError:
            limit = -1.0
        if not colon or name not in (*bg.MODES, ANY) or not 0.0 < limit <= 1.0:
            raise SettingError(
                f"--fail-on: expected MODE:P with MODE one of {', '.join(bg.MODES)} or any and P in (0, 1], found "
                f"{text!r}"
            )
        out[name] = min(limit, out.get(name, 1.0))
    return out
