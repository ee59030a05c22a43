"""`Following`: a log that is being written → the run as it stands, again and again, no row lost or doubled.

A log is read anew whenever its files have changed, by `read_log`, so that every format and store can be followed. What
a trainer is in the middle of writing looks broken for a moment: then the run stays as it was. A log that was rotated
or truncated begins at a later step than before: its rows follow those that were read before. One that begins where
the log before began has been begun anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.text import plain
from bayes_grpo.logs.reading import PathLike, read_log
from bayes_grpo.logs.run import Run
from bayes_grpo.stores.files import BESIDE, MLFLOW_RUN
from bayes_grpo.watching.rotation import first_step, joined, last_step, rotated_away

PATIENCE = 30.0
"""Seconds after which a last line that has not ended counts as it is: some trainers never end their last line."""
FILES = 4000
"""Files of a folder that are looked at to see whether it has changed."""
_DEPTH = 6
"""Folders within folders, likewise."""

Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size and time of change of every file of a log."""


class Following:
    """A log that is being written.

    Attributes:
        problem: Why the log could not be read at the last poll; "" where it could.
        notes: What happened to the log: rotations, new beginnings.
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        read: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins; nothing is read yet.

        Args:
            path: A file, the output directory of a trainer, a store, or several files of one run. It need not be there
                yet, but the folder that it is to lie in must.
            read: Keyword arguments of `read_log`.
            clock: Seconds, for tests.

        Raises:
            LogReadError: No file can ever be there.
        """
        self.paths = [Path(p) for p in ([path] if isinstance(path, str | os.PathLike) else path)]
        for p in self.paths:
            if not p.absolute().parent.is_dir():
                raise LogReadError(f"{plain(p)}: expected a log, found no folder of that name; check the path")
        self.problem = ""
        self.notes: tuple[str, ...] = ()
        self._read, self._clock = dict(read or {}), clock
        self._stamp: Stamp | None = None
        self._changed = clock()
        self._whole = False
        self._before: Run | None = None  # rows of a log that was rotated away
        self._now: Run | None = None
        self._shrunk = False

    @property
    def run(self) -> Run | None:
        """The run as it was read last; None before the first time."""
        if self._before is None or self._now is None:
            return self._now
        return joined(self._before, self._now)

    @property
    def quiet(self) -> float:
        """Seconds since the files changed."""
        return self._clock() - self._changed

    def poll(self, last: bool = False) -> Run | None:
        """Reads the log if it has changed.

        Args:
            last: Whether nothing more is expected, so that what is there counts as it is.

        Returns:
            The run; None where there is nothing new.

        Raises:
            SettingError: A setting is impossible.
            MissingExtraError: The format needs a package that is not installed.
        """
        stamp = stamp_of(self.paths)
        changed = stamp != self._stamp
        if changed:
            self._stamp, self._changed, self._whole = stamp, self._clock(), False
        if not stamp:  # nothing is there yet
            self.problem = ""
            return None
        # Once more where a last line has been left out, or a log has shrunk, and nothing has come for a while.
        again = not self._whole and (last or self._shrunk or self.quiet >= PATIENCE)
        if not changed and not again:
            return None
        patient = last or (again and self.quiet >= PATIENCE)
        try:
            found = read_log(self.paths, whole_lines=not patient, **self._read)
        except LogReadError as error:
            self.problem = plain(error, 500)
            self._whole = self._whole or patient
            return None
        self.problem = ""
        self._whole = patient
        return self._taken(found, sure=last)

    def _taken(self, found: Run, sure: bool) -> Run | None:
        """Takes what was read for the run as it stands, if it is new."""
        before = self._now
        if before is None:
            self._now, self._before = found, self._rotated(found, None)
            return self.run
        if before.log_hash == found.log_hash:
            return None
        if first_step(found) > first_step(before):
            self._before, self._now, self._shrunk = self._rotated(found, self.run), found, False
            self._say(f"the log was rotated and begins at step {first_step(found):g}: the rows before are kept")
            return self.run
        if last_step(found) < last_step(before) and not (self._shrunk or sure):
            self._shrunk = True  # a trainer may be writing its log anew; the next look will tell
            return None
        if last_step(found) < first_step(before) or len(found.step) < len(before.step) // 2:
            self._say(f"the log was begun anew and ends at step {last_step(found):g}")
        if first_step(found) < first_step(before):
            self._before = None
        self._now, self._shrunk = found, False
        return self.run

    def _rotated(self, found: Run, known: Run | None) -> Run | None:
        """The rows before a log begins: those that are known, and those of the files that it was rotated into."""
        if len(self.paths) > 1 or self.paths[0].is_dir():
            return known
        for part in rotated_away(self.paths[0], first_step(found), self._read):
            if known is None or last_step(part) > last_step(known):
                known = part if known is None or first_step(part) <= first_step(known) else joined(known, part)
        return known

    def _say(self, note: str) -> None:
        self.notes = tuple(dict.fromkeys((*self.notes, note)))


def stamp_of(paths: Sequence[Path]) -> Stamp:
    """What shows that a log has changed; empty where nothing is there."""
    out = [x for path in paths for x in _stamps(path)]
    return tuple(sorted(out))


def _stamps(path: Path) -> Iterator[tuple[str, int, int, int]]:
    files = _files(path) if path.is_dir() else [path, *_beside(path)]
    for file in files:
        try:
            stat = file.stat()
        except OSError:  # gone, or not yet there
            continue
        yield str(file), stat.st_ino, stat.st_size, stat.st_mtime_ns


def _beside(path: Path) -> list[Path]:
    """Files that grow while the one that stands for the log stays as it is: a database's changes, a store's metrics."""
    if path.name == MLFLOW_RUN:
        return _files(path.parent)
    return [path.with_name(path.name + end) for end in BESIDE]


def _files(folder: Path) -> list[Path]:
    """Files of a folder and of those within, the first `FILES` of them."""
    out: list[Path] = []
    depth = len(folder.parts)
    for place, folders, names in os.walk(folder):
        if len(Path(place).parts) - depth >= _DEPTH:
            folders.clear()
        folders.sort()
        out += [Path(place, name) for name in sorted(names)]
        if len(out) >= FILES:
            break
    return out[:FILES]
