"""`fleet`: many logs, the same tasks for each, one table; killed at any moment, the next call goes on."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

from bayes_grpo.common.errors import BayesGrpoError, LogReadError, SettingError
from bayes_grpo.common.executor import check_jobs, outcomes
from bayes_grpo.common.progress import teller
from bayes_grpo.common.text import plain
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.sample import check_settings
from bayes_grpo.fleets.table import Fleet, Journal, check_table, journal, journal_of, table_of, write_table
from bayes_grpo.fleets.unit import FLEET_TASKS, FleetRow, FleetUnit, Log, fingerprint, work
from bayes_grpo.forecasting.fits import FORECAST_REGIMES
from bayes_grpo.logs.finding import is_output_directory
from bayes_grpo.logs.folder import logs_in
from bayes_grpo.logs.options import checked
from bayes_grpo.logs.reading import PathLike, read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Regime

FleetProgress = Callable[..., None]


def fleet(
    logs: Logs,
    do: Sequence[str] = ("fit",),
    *,
    regimes: Sequence[str | Regime] = ("oscillator",),
    forecast_regimes: Sequence[str | Regime] = FORECAST_REGIMES,
    until: float | None = None,
    signal: str = "auto",
    out: PathLike | None = None,
    resume: bool = True,
    jobs: int = 1,
    executor: Executor | None = None,
    read: Mapping[str, Any] | None = None,
    sampler: SamplerSettings | None = None,
    seed: int = 0,
    progress: FleetProgress | None = None,
) -> Fleet:
    """Fits, forecasts and diagnoses many logs.

    What goes wrong with one log is a text in its row. With ``out``, every finished row stands in a journal beside it
    (``results.parquet.journal.jsonl``), so that a call after a crash, or with more logs or tasks, does only what is
    left. The journal is kept; what it holds counts for a log of the same content under the same options and version of
    this package. A row's numbers depend on seed, log and options alone: `bayes_grpo.fit` with the row's ``seed`` gives
    the same.

    Args:
        logs: Files, folders, patterns (``runs/**/*.jsonl``) and runs. A folder that a trainer wrote is one log, another
            is looked into.
        do: Some of "fit", "forecast" and "diagnose".
        regimes: Regimes to fit, a row each.
        forecast_regimes: Regimes that a forecast averages over.
        until: Horizon of the forecasts, optimizer step. By default each run's planned length where its log states one
            that lies ahead, else 1.5 times its last step; the table says which.
        signal: "auto", "reward" (train) or "eval" (held-out), for fits and forecasts.
        out: File for the table: .parquet, .csv or .json.
        resume: Whether the journal beside ``out`` counts; it is begun anew otherwise.
        jobs: Worker processes. With 1 the work is done in this process, which then shares its fate.
        executor: Where to do the work instead, such as ``distributed.Client(address).get_executor()``. Its workers see
            the same files.
        read: Keyword arguments of `bayes_grpo.read_log`, the same for all logs, such as ``settings``.
        sampler: Length and care of the sampling; each task's own if None.
        seed: Seed.
        progress: Called with a short phrase, and with the share of the work that is done once it is known.

    Returns:
        The table, one row a log, task and law.

    Raises:
        MissingExtraError: Parquet without pyarrow.
        OutputError: ``out`` cannot be written.
        SettingError: An unknown task, regime or setting.
    """
    begin, tell = time.perf_counter(), teller(progress)
    table = None if out is None else Path(os.fspath(out))
    asked = _Asked(tuple(dict.fromkeys(do)), tuple(map(get_regime, regimes)), tuple(map(get_regime, forecast_regimes)))
    options = {"until": until, "signal": signal, "sampler": sampler, "seed": seed, "read": dict(read or {})}
    _check(asked, options, table, jobs)
    skipped = set() if table is None else {table.resolve(), journal_of(table).resolve()}
    found = _surveyed(logs, options, skipped, tell)
    slots = [_slot(log, unit) for log in found for unit in asked.units(log, options)]
    with journal(None if table is None else journal_of(table), resume) as kept:
        before = len({s.key for s in slots} & set(kept.rows))
        failed = _work_through(slots, kept, jobs, executor, tell)
        rows = [_row(s, failed.get(s.key) or kept.rows.get(s.key, {})) for s in slots]
    frame = table_of(rows, asked.tasks)
    if table is not None:
        write_table(frame, table)
    return Fleet(frame, before, time.perf_counter() - begin)


class _Asked(NamedTuple):
    """What is done with every log."""

    tasks: tuple[str, ...]
    fitted: tuple[Regime, ...]
    averaged: tuple[Regime, ...]

    def units(self, log: Log, options: Mapping[str, Any]) -> list[FleetUnit | None]:
        """The units of one log; a single None where it cannot be read."""
        if log.place is None:
            return [None]
        laws = {"fit": [(x,) for x in self.fitted], "forecast": [self.averaged], "diagnose": [()]}
        return [FleetUnit(log.place, task, some, **options) for task in self.tasks for some in laws[task]]


class _Slot(NamedTuple):
    """A row of the table to come: of which log, what fills it, and the key of that."""

    log: Log
    unit: FleetUnit | None
    key: str

    def programs(self) -> tuple[str, str, int]:
        """What decides which compiled programs are needed."""
        return ("", "", 0) if self.unit is None else (self.unit.task, self.unit.regime, self.log.rows)


def _slot(log: Log, unit: FleetUnit | None) -> _Slot:
    return _Slot(log, unit, "" if unit is None else unit.key(log.fingerprint))


def _check(asked: _Asked, options: Mapping[str, Any], table: Path | None, jobs: int) -> None:
    """Refuses now what would fail for every log."""
    unknown = [task for task in asked.tasks if task not in FLEET_TASKS]
    if unknown or not asked.tasks:
        raise SettingError(f"do: expected some of {', '.join(FLEET_TASKS)}, found {unknown[0] if unknown else ''!r}")
    if not asked.fitted or not asked.averaged:
        raise SettingError("regimes: expected at least one regime, found none")
    if options["signal"] not in ("auto", "reward", "eval"):
        raise SettingError(f"signal: expected auto, reward or eval, found {options['signal']!r}")
    check_settings(options["sampler"] or SamplerSettings(), options["seed"])
    check_jobs(jobs)
    checked(options["read"].get("settings") or {}, "settings")
    if table is not None:
        check_table(table)


def _surveyed(logs: Logs, options: Mapping[str, Any], skipped: set[Path], tell: FleetProgress) -> list[Log]:
    found: list[Log] = []
    for log in survey(logs, options["read"], skipped):
        found.append(log)
        tell(f"reading: {len(found)} logs")
    return found


def _work_through(
    slots: Sequence[_Slot], kept: Journal, jobs: int, executor: Executor | None, tell: FleetProgress
) -> dict[str, FleetRow]:
    """Does what the journal does not hold; rows that may go otherwise next time, by key."""
    # Work that shares compiled programs comes together: compiling takes longer than sampling, and programs most memory.
    together = sorted(slots, key=_Slot.programs)
    todo = {s.key: s.unit for s in together if s.unit is not None and s.key not in kept.rows}
    keys, failed, errors = list(todo), {}, 0
    if not keys:
        return failed
    tell(f"0 of {len(keys)}", 0.0)
    with outcomes(work, list(todo.values()), jobs=jobs, executor=executor) as found:
        for n, outcome in enumerate(found, 1):
            key = keys[outcome.place]
            if outcome.error is None:
                done, row = outcome.value
                if done:
                    kept.add(done, row)
                if done != key:  # a log that grew since it was found, or that can no longer be read
                    failed[key] = row
            else:
                row = failed[key] = {"error": _words(outcome.error)}
            errors += bool(row.get("error"))
            tell(f"{n} of {len(keys)}" + (f", {errors} with an error" if errors else ""), n / len(keys))
    return failed


def _row(slot: _Slot, row: FleetRow) -> FleetRow:
    log, unit = slot.log, slot.unit
    who = {"log": log.name, "source": log.source, "log_hash": log.log_hash}
    if unit is None:
        return who | {"task": "read", "error": log.error}
    return who | {"task": unit.task, "regime": unit.regime} | row


def _words(error: Exception) -> str:
    """An error as a cell: one that nobody foresaw says of which kind it is."""
    return plain(error if isinstance(error, BayesGrpoError) else f"{type(error).__name__}: {error}", 1000)


Logs = PathLike | Run | Iterable[PathLike | Run]
"""Files, folders, patterns and runs."""


def survey(logs: Logs, read: Mapping[str, Any], skipped: Collection[Path] = ()) -> Iterator[Log]:
    """Finds the logs, each once, in the order in which they are named.

    Args:
        logs: Files, folders, patterns such as ``runs/**/*.jsonl``, and runs. A folder that a trainer wrote is a run;
            of another one every log in it and in its folders is taken.
        read: Keyword arguments of `bayes_grpo.read_log`.
        skipped: Resolved paths that are no logs.

    Yields:
        The logs; what cannot be read is among them with its error.
    """
    seen: set[Path] = set()
    for given in [logs] if isinstance(logs, str | os.PathLike | Run) else logs:
        if isinstance(given, Run):
            yield _log(given, given)
            continue
        for path, found in _found(os.fspath(given), read, skipped):
            whole = path.resolve()
            if whole not in seen:
                seen.add(whole)
                yield _log(found, path) if isinstance(found, Run) else _unread(path, found)


def _found(
    given: str, read: Mapping[str, Any], skipped: Collection[Path]
) -> Iterator[tuple[Path, Run | BayesGrpoError]]:
    def one(path: Path) -> Run:
        return read_log(path, **read)

    path = Path(given)
    if glob.has_magic(given) and not path.exists():
        paths = [Path(x) for x in sorted(glob.glob(given, recursive=True))]
        if not paths:
            yield path, LogReadError(f"{plain(given)}: expected logs, found nothing of this pattern; check the path")
    else:
        paths = [path]
    for path in paths:
        if path.resolve() in skipped:
            continue
        try:
            if path.is_dir() and not is_output_directory(path):
                empty = True
                for found in logs_in(path, one, skipped):
                    empty = False
                    yield found
                if empty:
                    raise LogReadError(f"{plain(path)}: expected a folder of logs, found none; check the path")
            else:
                yield path, one(path)
        except BayesGrpoError as error:
            yield path, error


def _log(run: Run, place: Path | Run) -> Log:
    return Log(plain(run.name), plain(run.source), place, run.log_hash, fingerprint(run), len(run.step))


def _unread(path: Path, error: BayesGrpoError) -> Log:
    name = path.stem if path.exists() else path.name
    return Log(plain(name), plain(path), None, error=plain(error, 1000))
