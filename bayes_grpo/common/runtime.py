"""Cores, threads and memory of a process, and the progress of long computations."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress


def cores() -> int:
    """Processors that this process may use; a worker knows its share by ``NPROC``, as JAX does (see `threads`)."""
    affinity = getattr(os, "sched_getaffinity", None)
    found = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    share = os.environ.get("NPROC", "")
    return min(found, int(share)) if share.isdecimal() and int(share) else found


def threads(share: int) -> dict[str, str]:
    """Environment in which libraries start so many threads and no more.

    JAX on a CPU honours ``NPROC`` alone: its flag for intra-op threads changes nothing. OpenBLAS and OpenMP honour
    theirs, Python ``PYTHON_CPU_COUNT`` from 3.13 on. On an accelerator a process takes memory as it needs it, not three
    quarters at once.
    """
    names = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHON_CPU_COUNT")
    return dict.fromkeys(names, str(share)) | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def release_memory() -> None:
    """Gives freed memory back to the system, where the C library keeps it (glibc), for a process that waits long."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
"""`mallopt`'s parameters M_ARENA_MAX and M_MMAP_THRESHOLD (glibc's malloc.h)."""
_LARGE = 1 << 20


def keep_little_memory() -> None:
    """Lets the C library (glibc) keep less of what was freed: 90 of the 530 MB of a fit.

    A thread has a heap of its own, up to eight a core, and what it frees there no other thread takes; now there is one
    a core. An array of a megabyte goes back to the system at once; after the first one that was freed none would. To be
    called before threads start, by a program and not by a library: these are settings of the whole process.
    """
    if sys.platform == "linux" and not any(name.startswith("MALLOC_") for name in os.environ):
        with suppress(OSError, AttributeError):  # another C library
            library = ctypes.CDLL(None)
            library.mallopt(_ARENA_MAX, cores())
            library.mallopt(_MMAP_THRESHOLD, _LARGE)


Progress = Callable[[str], None]
"""Called with a short phrase at the start of every stage."""
StageProgress = Callable[..., None]
"""Called with a short phrase, and the share of the work that is done where that is known."""


def or_silent(progress: Callable[..., None] | None) -> Callable[..., None]:
    """The progress callback: the given one, else one that does nothing."""
    return progress or (lambda *_: None)
