"""`Following`: a growing log, read again at every change; no row is lost or doubled.

`read_log` reads the whole log whenever its files have changed, so that every format and store can be followed. A log
that cannot be read is being written: the run stays as it was. A log that begins at a later step than before was rotated
or truncated: its rows follow the earlier ones. A log that begins where it began before, and is shorter, is a new run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError, LogReadError
from bayes_grpo.common.text import plain
from bayes_grpo.logs.hygiene import row_windows
from bayes_grpo.logs.reading import PathLike, read_log
from bayes_grpo.logs.run import Provenance, Run, Setting, Settings
from bayes_grpo.stores.files import BESIDE, MLFLOW_RUN

PATIENCE = 30.0
"""Seconds after which a last line without an end counts as it is: some trainers never end their last line."""
FILES = 4000
"""Files of a folder that are checked for changes."""
_ROTATED = 20
"""Files into which a log was rotated, at most; the latest count."""


class Following:
    """A log that is being written.

    Attributes:
        paths: Its files.
        run: The run as it was last read, with the rows of the files into which it was rotated; None before.
        problem: Why the log could not be read at the last poll; "" where it could.
        notes: Rotations and new beginnings of the log.
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        read: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins; nothing is read yet.

        Args:
            path: A file, the output directory of a trainer, a store, or several files of one run. It need not exist
                yet, but its folder must.
            read: Keyword arguments of `read_log`.
            clock: Seconds, for tests.

        Raises:
            LogReadError: The folder does not exist.
        """
        self.paths = [Path(p) for p in ([path] if isinstance(path, str | os.PathLike) else path)]
        for p in self.paths:
            if not p.absolute().parent.is_dir():
                raise LogReadError(f"{plain(p)}: expected a log, found no folder of that name; check the path")
        self.run: Run | None = None
        self.problem = ""
        self.notes: tuple[str, ...] = ()
        self._read, self._clock = dict(read or {}), clock
        self._stamp: Any = None
        self._changed = clock()
        self._final = False  # the last line counts as it is
        self._log: Run | None = None  # the log's own rows
        self._earlier: Run | None = None  # rows of files into which it was rotated
        self._shrunk = False

    def poll(self, last: bool = False) -> Run | None:
        """Reads the log if it has changed.

        Args:
            last: Whether no further poll will follow, so that a last line without an end counts.

        Returns:
            The run; None where nothing is new.

        Raises:
            SettingError: A setting is impossible.
            MissingExtraError: The format needs a package that is not installed.
        """
        stamp = stamp_of(self.paths)
        changed = stamp != self._stamp
        if changed:
            self._stamp, self._changed, self._final = stamp, self._clock(), False
        final = last or self._clock() - self._changed >= PATIENCE
        if not stamp:  # nothing is there yet
            self.problem = ""
            return None
        if not changed and (self._final or not (final or self._shrunk)):
            return None
        self._final = self._final or final
        try:
            found = read_log(self.paths, whole_lines=not final, **self._read)
        except LogReadError as error:
            self.problem = plain(error, 500)
            return None
        self.problem = ""
        return self._taken(found, last)

    def _taken(self, found: Run, last: bool) -> Run | None:
        """The run with the log as it was read; None where nothing is new."""
        begins, before = first_step(found), self._log
        if before is not None and before.log_hash == found.log_hash:
            return None
        if before is None or begins > first_step(before):
            self._earlier = self._rotated(begins)
            if before is not None:
                self._note(f"the log was rotated and begins at step {begins:g}: the rows before are kept")
        else:
            if last_step(found) < last_step(before) and not (self._shrunk or last):
                self._shrunk = True  # a trainer may be writing its whole log again; the next poll decides
                return None
            if last_step(found) < first_step(before) or len(found.step) < len(before.step) // 2:
                self._note(f"the log was begun again and ends at step {last_step(found):g}")
            if begins < first_step(before):
                self._earlier = None
        self._log, self._shrunk = found, False
        self.run = found if self._earlier is None else joined(self._earlier, found)
        return self.run

    def _rotated(self, begins: float) -> Run | None:
        """Rows before the log's first step: those that were read, and those of the files into which it was rotated.

        A file counts whose name is the log's with an ending (``log.jsonl.1``, ``log.jsonl-20261122``) and whose rows
        all come before the log's first: those of another run begin where this one does.
        """
        known, path = self.run, self.paths[0]
        if len(self.paths) > 1 or path.is_dir():
            return known
        parts = []
        try:
            named = [x for x in path.parent.iterdir() if x.name.startswith((f"{path.name}.", f"{path.name}-"))]
            files = sorted((x for x in named if x.is_file()), key=lambda x: x.stat().st_mtime_ns)[-_ROTATED:]
        except OSError:
            return known
        for file in files:
            try:
                parts.append(read_log(file, **self._read))
            except BayesGrpoError:  # compressed, or not a log
                continue
        for part in sorted((x for x in parts if last_step(x) < begins), key=first_step):
            if known is None or last_step(part) > last_step(known):
                known = part if known is None or first_step(part) <= first_step(known) else joined(known, part)
        return known

    def _note(self, note: str) -> None:
        self.notes = tuple(dict.fromkeys((*self.notes, note)))


def stamp_of(paths: Iterable[Path]) -> tuple[tuple[str, int, int, int], ...]:
    """Name, inode, size and time of change of every file of a log; empty where nothing is there."""
    out = []
    for file in (file for path in paths for file in _files(path)):
        try:
            stat = file.stat()
        except OSError:  # gone, or not yet there
            continue
        out.append((str(file), stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(sorted(out))


def _files(path: Path) -> list[Path]:
    """Files of a log: of a folder the first `FILES`, of a database also its journals, which grow in its place."""
    folder = path.parent if path.name == MLFLOW_RUN else path
    if not folder.is_dir():
        return [path, *(path.with_name(path.name + end) for end in BESIDE)]
    return list(islice((Path(place, name) for place, _, names in os.walk(folder) for name in names), FILES))


def first_step(run: Run) -> float:
    """The first step of a run."""
    return min(float(x[0]) for x in (run.step, run.eval_step) if len(x))


def last_step(run: Run) -> float:
    """The last step of a run."""
    return max(float(x[-1]) for x in (run.step, run.eval_step) if len(x))


def joined(before: Run, after: Run) -> Run:
    """A run whose log was rotated: rows of the old log up to where the new one begins, then those of the new one.

    Settings are the new log's, else the old one's.

    Args:
        before: Rows of the old log.
        after: Rows of the new one.
    """
    before = before.until(np.nextafter(first_step(after), -np.inf))
    parts, n = (before, after), len(before.step)

    def unknown(part: Run, _: str) -> np.ndarray:
        return np.full(len(part.step), np.nan)

    def columns(name: str, missing: Callable[[Run, str], np.ndarray] = unknown) -> dict[str, np.ndarray]:
        both = [(part, getattr(part, name)) for part in parts]
        keys = dict.fromkeys(k for _, x in both for k in x)
        return {k: np.concatenate([x[k] if k in x else missing(part, k) for part, x in both]) for k in keys}

    step = np.concatenate([x.step for x in parts])
    old, new = dict(before.settings.items()), dict(after.settings.items())
    settings = Settings(**{k: old[k] if _unstated(new[k]) and not _unstated(old[k]) else new[k] for k in new})
    window = row_windows(step, float(settings.logging_window.value or 1.0))
    return replace(
        after,
        step=step,
        reward=np.concatenate([x.reward for x in parts]),
        window=np.concatenate([before.window, window[n:]]),
        signals=columns("signals"),
        components=columns("components"),
        environments=columns("environments"),
        logged=columns("logged", lambda part, name: np.isfinite(part.values(name))),
        eval_step=np.concatenate([x.eval_step for x in parts]),
        eval_reward=np.concatenate([x.eval_reward for x in parts]),
        settings=settings,
        keys={**before.keys, **after.keys},
        second_counter=None,
        resumes=(*before.resumes, *after.resumes),
    )


def _unstated(setting: Setting) -> bool:
    return setting.value is None or setting.provenance is Provenance.ASSUMED
