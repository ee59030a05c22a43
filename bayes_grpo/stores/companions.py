"""A file with the other files that belong to it: a store keeps its settings and its latest changes beside its rows."""

from __future__ import annotations

import time
from pathlib import Path

from bayes_grpo.stores.sqlite_copy import BESIDE, MAGIC

MLFLOW_RUN = "meta.yaml"
"""File that makes a folder a run of MLflow's text store, where a folder `METRICS` lies beside it."""
METRICS, PARAMS = "metrics", "params"
SWANLAB_CONFIG = "config.yaml"

_ATTEMPTS = 5
_PAUSE = 0.05
_MAX_FILES = 20_000
_MAX_SMALL = 1 << 24
_MAX_DEPTH = 6


def files_beside(path: Path) -> tuple[bytes, dict[str, bytes]]:
    """The bytes of a file, and name → bytes of those that belong to it.

    Raises:
        OSError: The file cannot be read.
    """
    data = path.read_bytes()
    if data.startswith(MAGIC):
        return _database(path)
    if data.startswith(b":SWL"):
        config = path.parent / "files" / SWANLAB_CONFIG
        return data, _small({SWANLAB_CONFIG: config})
    if path.name == MLFLOW_RUN and (path.parent / METRICS).is_dir():
        return data, _run_of_text_files(path.parent)
    return data, {}


def _database(path: Path) -> tuple[bytes, dict[str, bytes]]:
    """A database and its unfinished changes of one moment, as far as a writer leaves one between two readings."""
    others = {end: path.with_name(path.name + end) for end in BESIDE}
    attempt = 0
    while True:
        before = [_state(p) for p in (path, *others.values())]
        data = path.read_bytes()
        beside = {end: content for end, p in others.items() if (content := _bytes(p))}
        attempt += 1
        if attempt == _ATTEMPTS or before == [_state(p) for p in (path, *others.values())]:
            return data, beside
        time.sleep(_PAUSE * attempt)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _run_of_text_files(folder: Path) -> dict[str, bytes]:
    """The files of metrics and parameters of a run, by their names in its folder."""
    found: dict[str, Path] = {}
    for part in (METRICS, PARAMS):
        for directory, folders, names in (folder / part).walk(follow_symlinks=False):
            below = directory.relative_to(folder)
            if len(below.parts) > _MAX_DEPTH:
                folders.clear()
            found |= {(below / name).as_posix(): directory / name for name in sorted(names)}
            if len(found) > _MAX_FILES:
                break
    return _small(found)


def _small(paths: dict[str, Path]) -> dict[str, bytes]:
    """Files that are there and not larger than those of settings and metrics are."""
    found = {}
    for name, path in paths.items():
        try:
            if path.is_file() and path.stat().st_size <= _MAX_SMALL:
                found[name] = path.read_bytes()
        except OSError:
            continue
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""
