"""`bayes-grpo backtest`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import bayes_grpo as bg
from bayes_grpo.cli.forecast import Regimes
from bayes_grpo.cli.options import (
    Jobs,
    Output,
    Plot,
    Reading,
    Seed,
    Signal,
    check_pictures,
    grouped,
    names_in,
)
from bayes_grpo.cli.terminal import progress
from bayes_grpo.common.errors import BayesGrpoError, SettingError

if TYPE_CHECKING:
    from bayes_grpo import Run


@grouped
def backtest(
    logs: Annotated[list[Path], typer.Argument(help="Log files; each is forecast from its own earlier steps.")],
    origins: Annotated[str, typer.Option(help="Shares of the rows to forecast from.")] = "0.3,0.5,0.7",
    signal: Signal = "auto",
    regimes: Regimes = None,
    rivals: Annotated[str, typer.Option(help="Rivals to score beside it.")] = "last,mean10,exponential_ls",
    jobs: Jobs = 1,
    plot: Plot = None,
    seed: Seed = 0,
    *,
    output: Output,
    reading: Reading,
) -> None:
    """Score the forecast at earlier steps of logs against the rows that came, and against simple rivals."""
    check_pictures(plot)
    try:
        shares = [float(x) for x in origins.split(",")]
    except ValueError as error:
        raise SettingError(f"--origins: expected shares like 0.3,0.5,0.7, found {origins!r}") from error
    each = replace(reading, run_name=None)
    runs: list[Run] = []
    refused: list[str] = []
    for log in logs:
        try:
            runs.append(each.read([log]))
        except BayesGrpoError as error:
            if len(logs) == 1 or isinstance(error, SettingError | ImportError):
                raise
            refused.append(str(error))
    with progress() as tell:
        options = {
            "origins": shares,
            "signal": signal,
            "regimes": names_in(regimes) or bg.FORECAST_REGIMES,
            "rivals": names_in(rivals),
            "seed": seed,
            "progress": tell,
        }
        if len(logs) == 1:  # an unusable log is an error; among several it is listed at the end
            result = bg.backtest(runs[0], **options)
        else:
            result = bg.backtest_logs(runs, jobs=jobs, **options)
            result = replace(result, refused=(*refused, *result.refused))
    if plot is not None and result.lines:
        bg.save_plot(bg.plot_backtest(result), plot)
    output.show(result)
