"""The logs that a folder and the folders in it hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from bayes_grpo.common.errors import BayesGrpoError, LogReadError
from bayes_grpo.logs.options import SIDECAR_NAME
from bayes_grpo.logs.reading import read_log
from bayes_grpo.logs.run import Run

_DEPTH = 4
"""Folders within folders that are looked into."""


def logs_in(
    folder: Path, read: Callable[[Path], Run] = read_log, skipped: Collection[Path] = (), depth: int = _DEPTH
) -> Iterator[tuple[Path, Run | BayesGrpoError]]:
    """Logs in a folder and, to a depth, in the folders in it; hidden files and sidecars are passed by.

    Args:
        folder: The folder. A folder in it is a run if it can be read as one, else it is looked into.
        read: How a log is read.
        skipped: Resolved paths to pass by.
        depth: Folders within folders that are looked into.

    Yields:
        Path and log, or path and the reason why it is none, in the order of their names.
    """
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        yield folder, LogReadError(f"{folder}: cannot look into this folder ({error.strerror}); check permissions")
        return
    for path in paths:
        if path.name.startswith(".") or path.name == SIDECAR_NAME or path.resolve() in skipped:
            continue
        try:
            yield path, read(path)
        except BayesGrpoError as error:
            if path.is_dir() and depth > 0:
                yield from logs_in(path, read, skipped, depth - 1)
            else:
                yield path, error
