"""Persistent compilation cache: what XLA compiled once for a regime and a bucket of rows serves later processes.

JAX's cache is a setting of the whole process. It is ours only while a program of this package is compiled; then JAX's
settings are what they were, and other programs of the process never meet our directory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import platformdirs

VARIABLE = "BAYES_GRPO_CACHE"
"""Environment variable with the cache directory; an empty value turns the cache off."""
_DIRECTORY = "jax_compilation_cache_dir"
_SETTINGS = {"jax_persistent_cache_min_compile_time_secs": 0.2, "jax_persistent_cache_min_entry_size_bytes": 0}


class _Borrowed:
    """JAX's settings while some thread of this package compiles: the first borrows them, the last gives them back."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.before: dict[str, Any] = {}

    def enter(self, directory: Path) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                wanted = {_DIRECTORY: str(directory), **_SETTINGS}
                self.before = {name: getattr(jax.config, name) for name in wanted}
                for name, value in wanted.items():
                    jax.config.update(name, value)

    def leave(self) -> None:
        from jax.experimental.compilation_cache.compilation_cache import reset_cache

        with self.lock:
            self.users -= 1
            if not self.users:
                for name, value in self.before.items():
                    jax.config.update(name, value)
                reset_cache()  # JAX keeps the directory that it saw first, whatever the setting says later


_BORROWED = _Borrowed()


def cache_directory() -> Path | None:
    """Directory of the compilation cache, or None where it is turned off."""
    given = os.environ.get(VARIABLE)
    if given == "":
        return None
    return Path(given) if given else Path(platformdirs.user_cache_dir("bayes_grpo")) / "xla"


@contextmanager
def compilation_cache() -> Iterator[Path | None]:
    """What is compiled inside is kept, unless the user has set a cache of their own or turned ours off.

    Yields:
        The directory of our cache; None where it is not in use.
    """
    directory = cache_directory()
    theirs = getattr(jax.config, _DIRECTORY) and not _BORROWED.users
    if directory is None or theirs:
        yield None
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home costs seconds, not the result
        yield None
        return
    _BORROWED.enter(directory)
    try:
        yield directory
    finally:
        _BORROWED.leave()
