"""`batch`: the same analysis of many logs, in one table; after a kill the next call does the rest."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayes_grpo.analysis.analyze import AnalysisSettings
from bayes_grpo.batches.table import Batch, check_table, finished_rows, journal_of, keep_row, table_of, write_table
from bayes_grpo.batches.unit import BATCH_TASKS, UNFORESEEN, BatchRow, BatchUnit, Log, fingerprint, work
from bayes_grpo.common.errors import BayesGrpoError, SettingError
from bayes_grpo.common.executor import check_jobs, outcomes
from bayes_grpo.common.runtime import StageProgress, or_silent
from bayes_grpo.common.text import plain
from bayes_grpo.fitting.draws import check_settings
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.logs.options import checked
from bayes_grpo.logs.reading import PathLike, logs_at, read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime

_LEAST_REWARDS = 2
"""Rewards of a training that has a row of its own."""
Logs = PathLike | Run | Iterable[PathLike | Run]
"""Files, folders, patterns and runs."""


def batch(
    logs: Logs,
    do: Sequence[str] = ("diagnose",),
    *,
    regime: str = "oscillator",
    horizon: float | None = None,
    signal: str = "auto",
    out: PathLike | None = None,
    resume: bool = True,
    jobs: int = 1,
    executor: Executor | None = None,
    read: Mapping[str, Any] | None = None,
    sampler: SamplerSettings | None = None,
    seed: int = 0,
    progress: StageProgress | None = None,
) -> Batch:
    """Diagnoses, fits and forecasts many logs, by `bayes_grpo.analyze`.

    An error with one log is a text in its row. With ``out``, every finished row goes to a journal
    (``results.parquet.journal.jsonl``), so that a call after a crash, or with more logs, does only the rest.
    A row of the journal counts for a log of the same content under the same options and version of this package.
    Numbers depend on seed, log and options alone: `bayes_grpo.fit` with the row's ``seed`` gives the same.

    Args:
        logs: Files, folders, patterns (``runs/**/*.jsonl``) and runs. A folder that a trainer wrote is one log, another
            is looked into. Of a file in which several trainings follow each other, each has a row.
        do: Some of "fit", "forecast" and "diagnose". How the run stands is in every row.
        regime: Regime to fit.
        horizon: Horizon of the forecasts, optimizer step. By default each run's planned length where its log states one
            that lies ahead, else half as far again; the table says which.
        signal: "auto", "reward" (train) or "eval" (evaluations), for fits and forecasts.
        out: File for the table: .parquet or .csv.
        resume: Whether to use the journal's rows; otherwise the journal is emptied first.
        jobs: Worker processes; with 1 the work is done in this process.
        executor: Any executor instead, such as ``distributed.Client(address).get_executor()``, whose workers see the
            same files.
        read: Keyword arguments of `bayes_grpo.read_log`, the same for all logs, such as ``settings``.
        sampler: Sampler settings; each part's own if None.
        seed: Seed.
        progress: Called with a short phrase, and with the share of the finished work once it is known.

    Returns:
        The table, one row a log.

    Raises:
        MissingExtraError: Parquet without pyarrow.
        OutputError: ``out`` cannot be written.
        SettingError: An unknown task, regime or setting.
    """
    begin = time.perf_counter()
    progress = or_silent(progress)
    table = None if out is None else Path(os.fspath(out))
    options = dict(read or {})
    settings = AnalysisSettings(regime=regime, horizon=horizon, signal=signal, sampler=sampler, seed=seed)
    _check(do, settings, options, table, jobs)
    parts = tuple(dict.fromkeys((*(BATCH_TASKS[task] for task in do), "diagnosis")))
    journal = None if table is None else journal_of(table)
    skipped = set() if table is None or journal is None else {table.resolve(), journal.resolve()}
    units: list[BatchUnit] = []
    for n, log in enumerate(find_logs(logs, options, skipped), 1):
        progress(f"reading: {n} logs")
        units.append(BatchUnit(log, parts, settings, options))
    done = finished_rows(journal, resume)
    resumed = len({u.key for u in units} & set(done))
    for key, row, finished in _run_units(units, done, jobs, executor, progress):
        done[key] = row
        if finished:
            keep_row(journal, key, row)
    frame = table_of([_row(u, done.get(u.key, {})) for u in units], parts)
    if table is not None:
        write_table(frame, table)
    return Batch(frame, resumed, time.perf_counter() - begin)


def _check(
    do: Sequence[str], settings: AnalysisSettings, read: Mapping[str, Any], table: Path | None, jobs: int
) -> None:
    """Refuses now what would fail for every log."""
    unknown = [task for task in do if task not in BATCH_TASKS]
    if unknown or not do:
        raise SettingError(
            f"expected some of {', '.join(BATCH_TASKS)}, found {unknown[0] if unknown else ''!r}", parameter="do"
        )
    get_regime(settings.regime)
    if settings.signal not in ("auto", "reward", "eval"):
        raise SettingError(f"expected auto, reward or eval, found {settings.signal!r}", parameter="signal")
    check_settings(settings.sampler or SamplerSettings(), settings.seed)
    check_jobs(jobs)
    checked(read.get("settings") or {}, "settings")
    if table is not None:
        check_table(table)


def _run_units(
    units: Sequence[BatchUnit], done: Collection[str], jobs: int, executor: Executor | None, progress: StageProgress
) -> Iterator[tuple[str, BatchRow, bool]]:
    """Key and row of each unit that is not done, and whether it is finished or the next call has to do it again."""
    # Compiling takes longer than sampling, so logs that share compiled programs follow each other.
    ordered = sorted(units, key=lambda u: u.log.rows)
    remaining = list({u.key: u for u in ordered if not u.log.error and u.key not in done}.values())
    if not remaining:
        return
    errors = 0
    progress(f"0 of {len(remaining)}", 0.0)
    with outcomes(work, remaining, jobs=jobs, executor=executor) as found:
        for n, outcome in enumerate(found, 1):
            unit = remaining[outcome.place]
            row = outcome.value if outcome.error is None else {"error": _words(outcome.error)}
            # A log that has grown since it was found, or can no longer be read, and an error that is no user's.
            retry = row.pop(UNFORESEEN, False) or row.get("log_hash") != unit.log.log_hash
            errors += bool(row.get("error"))
            yield unit.key, row, not retry
            progress(f"{n} of {len(remaining)}" + (f", {errors} with an error" if errors else ""), n / len(remaining))


def _row(unit: BatchUnit, row: BatchRow) -> BatchRow:
    log = unit.log
    identity = {"log": log.name, "source": log.source, "log_hash": log.log_hash}
    return identity | ({"error": log.error} if log.error else row)


def _words(error: Exception) -> str:
    """An error as a cell; an unforeseen one names its kind."""
    return plain(error if isinstance(error, BayesGrpoError) else f"{type(error).__name__}: {error}", 1000)


def find_logs(logs: Logs, read: Mapping[str, Any], skipped: Collection[Path] = ()) -> Iterator[Log]:
    """Finds the logs, each once, in the order in which they are named; one that cannot be read has its error.

    A folder that a trainer wrote is a run; of another one every log in it and in its folders is taken, but for the
    ``skipped`` resolved paths; ``FILE#RUN`` is one of several runs in a file.
    """
    seen: set[tuple[Path, str]] = set()
    for given in [logs] if isinstance(logs, str | os.PathLike | Run) else logs:
        if isinstance(given, Run):
            yield _log(given, given)
            continue
        for path, found, _, name in logs_at(os.fspath(given), read, skipped):
            key = path.resolve(), name
            if key in seen:
                continue
            seen.add(key)
            if isinstance(found, Run) and name:
                yield replace(_log(found, path), training=name)
            elif isinstance(found, Run):
                yield from _trainings(found, path, read)
            else:
                yield Log(plain(path.stem if path.exists() else path.name), plain(path), path, error=plain(found, 1000))


def _trainings(run: Run, path: Path, read: Mapping[str, Any]) -> Iterator[Log]:
    """The log of a file, or each of the trainings with rewards that follow each other in it."""
    names = [x.name for x in run.trainings if x.rewards >= _LEAST_REWARDS]
    if len(names) < 2 or "run" in read:
        yield _log(run, path)
        return
    for name in names:
        label = plain(f"{run.name} {name}")
        try:
            one = _log(read_log(path, **{**read, "run": name}), path)
        except BayesGrpoError as error:
            yield Log(label, plain(path), path, error=plain(error, 1000), training=name)
        else:
            yield replace(one, name=label, training=name)


def _log(run: Run, place: Path | Run) -> Log:
    return Log(plain(run.name), plain(run.source), place, run.log_hash, fingerprint(run), len(run.step))
