"""`Following`: a growing log, read again at every change.

`read_log` reads the whole log whenever its files have changed, so that every format and store can be followed. A log
that cannot be read is being written: the run stays as it was. A log that stays much shorter than before is a new run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import plain
from bayes_grpo.logs.reading import PathLike, read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.stores.files import ATTACHED

PATIENCE = 30.0
"""Seconds after which a last line without an end counts as it is: some trainers never end their last line."""
FILES = 4000
"""Files of a folder that are checked for changes."""


class Following:
    """A log that is being written; it need not exist yet, but its folder must.

    Args:
        path: A file, the output directory of a trainer, a store, or several files of one run.
        read: Keyword arguments of `read_log`.
        clock: Seconds, for tests.

    Attributes:
        paths: Its files.
        run: The run as it was last read; None before.
        problem: Why the log could not be read at the last poll; "" where it could.
        notes: New beginnings of the log.

    Raises:
        LogReadError: The folder does not exist.
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        read: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.paths = [Path(p) for p in ([path] if isinstance(path, str | os.PathLike) else path)]
        for p in self.paths:
            if not p.absolute().parent.is_dir():
                raise LogReadError(f"{plain(p)}: expected a log, found no folder of that name; check the path")
        self.run: Run | None = None
        self.problem = ""
        self.notes: tuple[str, ...] = ()
        self._read = dict(read or {})
        self._clock = clock
        self._stamp: Any = None
        self._changed = clock()
        self._final = False  # the last line counts as it is
        self._shrunk = False

    def poll(self, last: bool = False) -> Run | None:
        """Reads the log if it has changed; None where nothing is new.

        Args:
            last: Whether no further poll will follow, so that a last line without an end counts.

        Raises:
            SettingError: A setting is impossible.
            MissingExtraError: The format needs a package that is not installed.
        """
        stamp = stamp_of(self.paths)
        changed = stamp != self._stamp
        if changed:
            self._stamp, self._changed, self._final = stamp, self._clock(), False
        final = last or self._clock() - self._changed >= PATIENCE
        self.problem = self.problem if stamp else ""
        if not stamp or not (changed or (not self._final and (final or self._shrunk))):
            return None
        self._final = self._final or final
        try:
            found = read_log(self.paths, whole_lines=not final, **self._read)
        except LogReadError as error:
            self.problem = plain(error, 500)
            return None
        self.problem = ""
        before = self.run
        if before is not None:
            if before.log_hash == found.log_hash:
                return None
            if last_step(found) < last_step(before) and not (self._shrunk or last):
                self._shrunk = True  # a trainer may be writing its whole log again; the next poll decides
                return None
            if len(found.step) < len(before.step) // 2:
                note = f"the log was restarted and ends at step {last_step(found):g}"
                self.notes = tuple(dict.fromkeys((*self.notes, note)))
        self.run, self._shrunk = found, False
        return found


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
    if not path.is_dir():
        return [path, *(path.with_name(path.name + end) for end in ATTACHED)]
    return list(islice((Path(place, name) for place, _, names in os.walk(path) for name in names), FILES))


def last_step(run: Run) -> float:
    """The last step of a run."""
    return max(float(x[-1]) for x in (run.step, run.eval_step) if len(x))
