"""`bayes-grpo batch`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import bayes_grpo as bg
from bayes_grpo.cli import options
from bayes_grpo.cli.command import command
from bayes_grpo.cli.printing import EXIT_INPUT, progress_bar
from bayes_grpo.common.errors import MissingExtraError, SettingError


@command("batch runs", "batch runs --do fit,forecast --out batch.csv --jobs 2")
def batch(
    logs: options.LogNames,
    do: Annotated[str, typer.Option(help="Any of fit, forecast, diagnose, separated by commas.")] = "diagnose",
    out: Annotated[
        Path | None,
        options.in_output(help="Write the table to this file (.parquet, .csv); its journal lets a call resume."),
    ] = None,
    regime: Annotated[str, typer.Option(help="Regime to fit.", **options.REGIME)] = "oscillator",
    horizon: options.HorizonStep = None,
    signal: options.Signal = "auto",
    jobs: options.Jobs = 1,
    dask: Annotated[
        str | None, options.in_computing(help="Address of a Dask scheduler that does the work, e.g. tcp://host:8786.")
    ] = None,
    no_resume: Annotated[bool, options.in_output("--no-resume", help="Ignore the journal of earlier calls.")] = False,
    seed: options.Seed = 0,
    *,
    output: options.OutputWithPlot,
    reading: options.Reading,
) -> None:
    """How many logs stand, in one table, with fits and forecasts where wanted; a killed call resumes."""
    read = reading.options()
    with dask_executor(dask) as executor, progress_bar() as progress:
        result = bg.batch(
            logs,
            options.names_in(do),
            regime=regime,
            horizon=horizon,
            signal=signal,
            out=out,
            resume=not no_resume,
            jobs=jobs,
            executor=executor,
            read=read,
            seed=seed,
            progress=progress,
        )
    output.save(lambda: bg.plot_runs(_runs_of(logs, read)))
    output.show(result)
    if result.errors == len(result.frame):
        raise typer.Exit(EXIT_INPUT)  # of some logs errors are data; of all, the call has failed


@contextmanager
def dask_executor(address: str | None) -> Iterator[Executor | None]:
    """An executor on a running Dask cluster, whose workers need the same packages and files; None without address."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtraError(
            "dask: work on a cluster needs distributed, which is not installed; install bayes-grpo[dask]"
        ) from None
    try:
        client = Client(address, timeout=5.0, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise SettingError(f"dask: expected a scheduler at {address!r}, none answers ({error}); start one") from None
    with client as cluster:
        yield cluster.get_executor(pure=False)


def _runs_of(logs: list[str], read: Mapping[str, Any]) -> list[bg.Run]:
    """The runs of a batch, each under its name in the table."""
    from bayes_grpo.batches.batch import find_logs
    from bayes_grpo.batches.unit import read_of

    found = (log for log in find_logs(logs, read) if not log.error)
    return [replace(read_of(log, read), name=log.name) for log in found]
