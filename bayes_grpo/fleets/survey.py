"""Which logs a fleet has: patterns, folders and files → logs that can be read, and reasons for those that cannot."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError, LogReadError
from bayes_grpo.common.text import plain
from bayes_grpo.logs.finding import is_output_directory
from bayes_grpo.logs.reading import PathLike, logs_in, read_log
from bayes_grpo.logs.run import Run

Logs = PathLike | Run | Iterable[PathLike | Run]
"""Files, folders, patterns and runs."""


@dataclass(frozen=True, eq=False)
class Log:
    """One log of a fleet.

    Attributes:
        name: Short name.
        source: Where it lies.
        place: What a worker reads it from, or the run where the caller gave one; None where it cannot be read.
        log_hash: Hash of its bytes.
        fingerprint: Hash of what was read: rows, signals and settings, whatever the file is called.
        rows: Number of training rows; logs of similar length share compiled programs.
        error: Why it cannot be read.
    """

    name: str
    source: str
    place: Path | Run | None
    log_hash: str = ""
    fingerprint: str = ""
    rows: int = 0
    error: str = ""


def survey(logs: Logs, read: Mapping[str, Any], skipped: Collection[Path] = ()) -> Iterator[Log]:
    """Finds the logs, each once, in the order in which they are named.

    Args:
        logs: Files, folders, patterns such as ``runs/**/*.jsonl``, and runs. A folder that a trainer wrote is a run;
            another one is looked into as `bayes_grpo.learn_prior` does.
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


def fingerprint(run: Run) -> str:
    """Hash of all that the numbers of a run depend on: rows, signals and settings."""
    digest = hashlib.sha256()
    signals = [x for name in sorted(run.signals) for x in (name, run.signals[name])]
    for part in (run.step, run.reward, run.window, run.eval_step, run.eval_reward, *signals):
        digest.update(part.encode() if isinstance(part, str) else np.ascontiguousarray(part).tobytes())
        digest.update(b"|")
    digest.update(repr([(name, s.value, str(s.provenance)) for name, s in run.settings.items()]).encode())
    return digest.hexdigest()


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
