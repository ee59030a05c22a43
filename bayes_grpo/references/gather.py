"""Reference runs: those that are named, and those found near a log.

Logs do not name their task. So reference runs are the named runs, except those whose logs show a different signal,
reward or unit, or the run itself. Of many, the nearest count, by the distance of their rows at the same steps. How much
they count in a forecast is another question, which the rows of the run decide (`bayes_grpo.references.transfer`).

Runs of one experiment lie together: logs in one folder whose names begin alike, output directories in one folder, runs
of one store. Of these, those of the same trainer with the same reward count.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError, FitError
from bayes_grpo.common.text import plain
from bayes_grpo.logs.finding import is_output_directory, runs_at
from bayes_grpo.logs.in_memory import is_tabular
from bayes_grpo.logs.reading import PathLike, RunLike, logs_at, read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series

type RunSources = RunLike | Iterable[RunLike] | NearbyRuns
"""Files, folders, stores, patterns such as ``runs/*.json``, ``FILE#RUN`` for one of several runs in a file, runs and
data frames; or the runs near a log."""
MOST_REFERENCES = 30
"""Reference runs that are read together at most."""
_SAME = 0.9
"""Share of equal rows at the same steps from which a log is the run itself, or a copy of it."""
_UNIT_RATIO = 20.0
"""Times by which rewards of one run may exceed another's, where they exceed this number: percents and shares."""


class ExcludedRun(NamedTuple):
    """A run that was named and not taken, and why."""

    name: str
    why: str


@dataclass(frozen=True, eq=False)
class ReferenceRuns:
    """The reference runs of a run, each with its rows of the same signal, and those that were named and are none.

    ``searched`` is True where they were found near the log and not named.
    """

    runs: tuple[tuple[Run, Series], ...]
    excluded: tuple[ExcludedRun, ...]
    searched: bool = False


def gather_references(run: Run, table: Series, sources: RunSources) -> ReferenceRuns:
    """The reference runs of a run among those that are named; settings of the run's own call do not hold for them."""
    found, excluded = (sources.matching(run), []) if isinstance(sources, NearbyRuns) else named_runs(sources)
    comparable: list[tuple[Run, Series]] = []
    for other in found:
        try:
            rows = rows_of(other, "reward" if table.signal == "reward" else "eval")
            if why := incomparable_reason(run, table, other, rows):
                raise FitError(why)
            comparable.append((other, rows))
        except FitError as error:
            excluded.append(ExcludedRun(plain(other.name, 80), plain(error, 200)))
    if len(comparable) > MOST_REFERENCES:
        far = f"less similar to the run's rows than the {MOST_REFERENCES} nearest"
        order = np.argsort([_distance(table, rows) for _, rows in comparable], kind="stable")
        excluded += [ExcludedRun(plain(comparable[i][0].name, 80), far) for i in sorted(order[MOST_REFERENCES:])]
        comparable = [comparable[i] for i in sorted(order[:MOST_REFERENCES])]
    searched = isinstance(sources, NearbyRuns)
    return ReferenceRuns(tuple(comparable), () if searched else tuple(excluded), searched)


def named_runs(sources: RunSources, read: Mapping[str, Any] | None = None) -> tuple[list[Run], list[ExcludedRun]]:
    """Runs behind files, folders, stores and patterns, each once; and files in folders that are no logs.

    ``read`` are keyword arguments of `bayes_grpo.read_log`.
    """
    found: list[Run] = []
    excluded: list[ExcludedRun] = []
    alone = isinstance(sources, str | os.PathLike | Run) or is_tabular(sources)
    every: Any = [sources] if alone else sources
    for given in every:
        if not isinstance(given, str | os.PathLike):
            found.append(given if isinstance(given, Run) else read_log(given, **dict(read or {})))
            continue
        for path, log, named, _ in logs_at(os.fspath(given), read):
            if isinstance(log, Run):
                found.append(log)
            elif named:
                raise log
            else:
                excluded.append(ExcludedRun(plain(path.name, 80), "no log that can be read"))
    once: dict[Any, Run] = {}
    for run in found:
        once.setdefault((run.source, run.log_hash, run.name), run)
    return list(once.values()), excluded


def incomparable_reason(run: Run, table: Series, other: Run, rows: Series) -> str:
    """Why the rewards of two runs, by their rows, cannot be compared; "" where they can."""
    if table.signal != rows.signal:
        return f"another signal: {rows.signal} in place of {table.signal}"
    _, one, two = np.intersect1d(table.step, rows.step, return_indices=True)
    if len(one) >= 3 and np.ptp(table.y[one]) > 0.0 and np.mean(table.y[one] == rows.y[two]) >= _SAME:
        return "the run itself, or a copy of it: its rows are the same"
    key, other_key = run.keys.get(table.signal), other.keys.get(table.signal)
    if run.format == other.format and key and other_key and key != other_key:
        return f"another reward: {plain(other_key, 60)} in place of {plain(key, 60)}"
    for name in ("reward_low", "reward_high"):
        a, b = getattr(run.settings, name), getattr(other.settings, name)
        known = [x.explicit for x in (a, b) if x.explicit is not None]
        if len(known) == 2 and known[0] != known[1]:
            return f"another range of the reward: {name} {known[1]:g} in place of {known[0]:g}"
    large, small = sorted((float(np.max(np.abs(table.y))), float(np.max(np.abs(rows.y)))), reverse=True)
    if large >= _UNIT_RATIO and large >= _UNIT_RATIO * small:
        return "another unit: its rewards are of another size (shares and percents?)"
    return ""


def _distance(table: Series, rows: Series) -> float:
    """Root mean square of the difference of two runs where both have rows, over four stretches of the first."""
    inside = (table.step >= rows.step[0]) & (table.step <= rows.step[-1])
    if not inside.any():
        return float("inf")
    difference = table.y[inside] - np.interp(table.step[inside], rows.step, rows.y)
    means = [x.mean() for x in np.array_split(difference, 4) if len(x)]
    return float(np.sqrt(np.mean(np.square(means))) / inside.mean())


MOST_READ = 40
"""Logs that are read at most, those with the most similar names first."""
_SAME_START = 3
"""Characters with which the names of two files begin alike, if they are of one experiment. A folder of files is often a
collection of everything; output directories, stores and projects are not."""
_MOST_BYTES = 16_000_000
"""Bytes that are read at most, so that the search takes less than a second."""


@dataclass(frozen=True)
class NearbyRuns:
    """The runs near a log, output directory or store, read when needed; ``run`` is one of several in the store."""

    log: PathLike
    run: str | None = None

    @cached_property
    def readable(self) -> tuple[Run, ...]:
        """The runs that can be read, whatever their reward; files that are no logs are passed by."""
        out, remaining = [], _MOST_BYTES
        for path, name in islice(_candidates(Path(self.log), self.run), MOST_READ):
            remaining -= _size(path)
            if remaining < 0:
                break
            with suppress(Exception):  # a file that was not named must not cost the run its forecast
                out.append(read_log(path, run=name))
        return tuple(out)

    def matching(self, run: Run) -> list[Run]:
        """Those by the same trainer and with the same reward and parts of it as a run."""
        return [other for other in self.readable if task_key(other) == task_key(run)]


def task_key(run: Run) -> tuple[object, ...]:
    """Trainer, keys of the rewards and parts of the reward: what runs of one kind of task share."""
    return run.format, run.keys.get("reward"), run.keys.get("eval_reward"), frozenset(run.components)


def _candidates(log: Path, run: str | None) -> Iterator[tuple[Path, str | None]]:
    """Paths near a log, each with the name of the run in it, the most similar names first."""
    if run is not None:
        with suppress(BayesGrpoError):
            yield from ((log, name) for name in sorted(runs_at(log), key=lambda x: _name_order(x, run)) if name != run)
        return
    own = log.absolute()
    if own.is_file() and is_output_directory(own.parent):
        own = own.parent
    with suppress(OSError):
        paths = sorted(own.parent.iterdir(), key=lambda path: _name_order(path.name, own.name))
        yield from ((path, None) for path in paths if path != own and _may_be_a_run(path, own))


def _name_order(name: str, own: str) -> tuple[int, str]:
    return -_same_start(name, own), name


def _same_start(a: str, b: str) -> int:
    """Characters with which two names begin alike."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _may_be_a_run(path: Path, own: Path) -> bool:
    if path.name.startswith("."):
        return False
    if own.is_file():
        similar = path.suffix == own.suffix and _same_start(path.name, own.name) >= _SAME_START
        return path.is_file() and similar
    return path.is_dir() and is_output_directory(path) == is_output_directory(own)


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size if path.is_file() else sum(x.stat().st_size for x in path.iterdir() if x.is_file())
    return 0
