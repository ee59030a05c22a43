"""Runs near a log, which are its reference runs where none are named.

Runs of one experiment lie together: logs in one folder whose names begin alike, output directories in one folder, runs
of one store. Of these, those of the same trainer with the same reward count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.logs.finding import is_output_directory, runs_at
from bayes_grpo.logs.reading import PathLike, read_log
from bayes_grpo.logs.run import Run

MOST_READ = 40
"""Logs that are read at most, those with the most similar names first."""
_SAME_START = 3
"""Characters with which the names of two files begin alike, if they are of one experiment. A folder of files is often a
collection of everything; output directories, stores and projects are not."""
_MOST_BYTES = 16_000_000
"""Bytes that are read at most, so that the search takes less than a second."""


@dataclass(frozen=True)
class NearbyRuns:
    """The runs near a log, read when they are needed.

    Attributes:
        log: A log, an output directory or a store.
        run: Name of the run in a store that holds several; None for a log of one run.
    """

    log: PathLike
    run: str | None = None

    @cached_property
    def found(self) -> tuple[Run, ...]:
        """The runs that can be read, whatever their reward; files that are no logs are passed by."""
        out, left = [], _MOST_BYTES
        for path, name in islice(_candidates(Path(self.log), self.run), MOST_READ):
            left -= _size(path)
            if left < 0:
                break
            with suppress(Exception):  # a file that was not named must not cost the run its forecast
                out.append(read_log(path, run=name))
        return tuple(out)

    def matching(self, run: Run) -> list[Run]:
        """Those by the same trainer and with the same reward and parts of it as a run."""
        return [other for other in self.found if kind_of(other) == kind_of(run)]


def kind_of(run: Run) -> tuple[object, ...]:
    """Trainer, keys of the rewards and parts of the reward: what runs of one kind of task share."""
    return run.format, run.keys.get("reward"), run.keys.get("eval_reward"), frozenset(run.components)


def _candidates(log: Path, run: str | None) -> Iterator[tuple[Path, str | None]]:
    """Paths near a log, each with the name of the run in it, the most similar names first."""
    if run is not None:
        with suppress(BayesGrpoError):
            yield from ((log, name) for name in sorted(runs_at(log), key=lambda x: _unlike(x, run)) if name != run)
        return
    own = log.absolute()
    if own.is_file() and is_output_directory(own.parent):
        own = own.parent
    paths = sorted(_entries(own.parent), key=lambda path: _unlike(path.name, own.name))
    yield from ((path, None) for path in paths if path != own and _may_be_a_run(path, own))


def _unlike(name: str, own: str) -> tuple[int, str]:
    return -_same_start(name, own), name


def _same_start(a: str, b: str) -> int:
    """Characters with which two names begin alike."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _may_be_a_run(path: Path, own: Path) -> bool:
    if own.is_file():
        alike = path.suffix == own.suffix and _same_start(path.name, own.name) >= _SAME_START
        return path.is_file() and alike
    return path.is_dir() and is_output_directory(path) == is_output_directory(own)


def _entries(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (path for path in folder.iterdir() if not path.name.startswith("."))


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size if path.is_file() else sum(x.stat().st_size for x in path.iterdir() if x.is_file())
    return 0
