"""Persistent compilation cache: what XLA compiled once for a regime and a bucket of rows serves later processes."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import platformdirs

VARIABLE = "BAYES_GRPO_CACHE"
"""Environment variable with the cache directory; an empty value turns the cache off."""


def cache_directory() -> Path | None:
    """Directory of the compilation cache, or None where it is turned off."""
    given = os.environ.get(VARIABLE)
    if given == "":
        return None
    return Path(given) if given else Path(platformdirs.user_cache_dir("bayes_grpo")) / "xla"


def enable_compilation_cache() -> None:
    """Points JAX at the cache, unless the user has set one of their own or the directory cannot be made."""
    directory = cache_directory()
    if directory is None or jax.config.jax_compilation_cache_dir:
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a read-only home costs seconds, not the result
    jax.config.update("jax_compilation_cache_dir", str(directory))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
