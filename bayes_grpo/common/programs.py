"""Compiled programs: made once for the shapes of their arguments, and run over many draws in chunks of one size."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np
from jax.errors import JaxRuntimeError

from bayes_grpo.common.cache import compilation_cache
from bayes_grpo.common.machine import cores, give_back, resident
from bayes_grpo.common.once import once
from bayes_grpo.common.traced import lowered

_WIDE = {"xla_cpu_prefer_vector_width": 512}
"""Vectors as wide as the processor has them; XLA would stop at 256 bits. A tenth to a quarter faster with AVX-512."""
PROGRAMS = 128
"""Compiled programs kept in a process. Each holds about 280 memory mappings, and Linux allows a process 65,530."""
TRIMMED = 1000.0
"""Memory of a process, MB, from which on what compilations leave behind is handed back."""
GROWTH = 250.0
"""MB by which a process grows before that is done again: it looks at every object, a quarter of a second each time."""

Caller = Callable[[Any, tuple[Any, ...], tuple[Any, ...]], Any]
"""Takes what makes a program, its options and its arguments; gives what the program returns as NumPy arrays."""
_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


class _Leavings:
    """What compilations leave behind, handed back where the process has grown by `GROWTH` since the last time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.most = TRIMMED

    def look(self) -> None:
        if resident() > self.most and self.lock.acquire(blocking=False):
            try:
                give_back()
                self.most = max(TRIMMED, resident()) + GROWTH
            finally:
                self.lock.release()


_LEAVINGS = _Leavings()


def accelerated() -> bool:
    """Whether JAX computes on an accelerator, where wide programs beat long ones."""
    return jax.default_backend() != "cpu"


@once(PROGRAMS)
def _compiled(make: Any, options: tuple[Any, ...], treedef: Any, shapes: tuple[Any, ...]) -> Any:
    """A program compiled for arguments of given shapes; the same shapes never compile twice in a process.

    A thread that asks for what another one is compiling waits for it.
    """
    with compilation_cache() as folder:
        compiled = _compile(lowered(make, options, treedef, shapes, folder))
    _LEAVINGS.look()
    return lambda *arguments: compiled(*jax.tree.leaves(arguments))


def _compile(text: Any) -> Any:
    if jax.default_backend() == "cpu" and platform.machine() in ("x86_64", "AMD64"):
        with suppress(JaxRuntimeError):  # another version of XLA may not know the option
            return text.compile(compiler_options=_WIDE)
    return text.compile()


def program(make: Any, options: tuple[Any, ...], *arguments: Any) -> Any:
    """The compiled program for these arguments.

    Args:
        make: Function of the options that returns the function to compile. Where that returns arrays, plain tuples and
            dictionaries, it is traced once for many processes (`bayes_grpo.common.traced`).
        options: Hashable.
        *arguments: Arrays, or trees of arrays; their shapes and types alone matter.

    Returns:
        The compiled function of such arguments.
    """
    leaves, treedef = jax.tree.flatten(arguments)
    return _compiled(make, options, treedef, tuple((x.shape, x.dtype) for x in leaves))


def call(make: Any, options: tuple[Any, ...], *arguments: Any) -> Any:
    """What a program returns for these arguments, as NumPy arrays; 64-bit.

    Args:
        make: Function of the options that returns the function to compile.
        options: Hashable.
        *arguments: Arrays, or trees of arrays.
    """
    return (_CALLER.get() or call_here)(make, options, arguments)


def call_here(make: Any, options: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
    """The same, whoever makes the calls of this thread."""
    with jax.enable_x64(True):  # a thread does not inherit the caller's setting
        return jax.tree.map(np.asarray, program(make, options, *arguments)(*arguments))


@contextmanager
def calls_go_to(caller: Caller) -> Iterator[None]:
    """Within the block, calls of this thread are made by another, who may run those of many threads as one."""
    token = _CALLER.set(caller)
    try:
        yield
    finally:
        _CALLER.reset(token)


def forget_programs() -> None:
    """Lets go of all programs compiled here; those that are needed again come from the cache on disk, in seconds."""
    _compiled.cache_clear()


def over_draws(make: Any, options: tuple[Any, ...], chunk: int, draws: Any, *shared: Any) -> Any:
    """Runs a program over any number of draws, in chunks of one size so that it compiles once.

    Args:
        make: Function of the options that returns the function of (a chunk of draws, *shared) to compile.
        options: Hashable.
        chunk: Draws a call.
        draws: Arrays with a common leading axis, or a tree of them.
        *shared: Arguments that are the same for all draws.

    Returns:
        What the program returns, NumPy arrays with the draws' leading axis.
    """
    draws = jax.tree.map(np.asarray, draws)
    total = len(jax.tree.leaves(draws)[0])
    parts = [np.arange(i, i + chunk) % total for i in range(0, total, chunk)]
    chunks = [jax.tree.map(lambda x, pick=pick: x[pick], draws) for pick in parts]
    if len(chunks) == 1 or _CALLER.get() is not None:
        found = [call(make, options, part, *shared) for part in chunks]
    else:
        with ThreadPoolExecutor(max_workers=min(len(chunks), cores())) as pool:
            found = list(pool.map(lambda part: call(make, options, part, *shared), chunks))
    return jax.tree.map(lambda *x: np.concatenate(x)[:total], *found)
