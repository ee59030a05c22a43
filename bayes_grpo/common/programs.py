"""Compiled programs: one for the shapes of its arguments, kept in the process and on disk, run over draws in chunks.

What is kept on disk, measured on a log of 400 rows in CPU seconds of the whole command, cache warm, medians of two
or three runs: XLA's compiled programs (JAX's own cache; `fit` 12.5 against 22.6 with an empty one, `report` 36
against 106), and the programs' text as JAX traced them, as StableHLO
(https://docs.jax.dev/en/latest/export/export.html): JAX asks its cache by that text,
which each process would otherwise trace again in Python (`fit` 12.5 against 13.3 without, `forecast` 10.6 against
13.1, `report` 36 against 44). The text is kept under a hash of all its inputs. A regime of another package has no
stable name, so its programs are not kept, nor are those of an accelerator.

JAX's cache is a setting of the whole process. It is ours only while a program of this package is compiled, so that
other programs of the process never meet our directory.
"""

from __future__ import annotations

import hashlib
import os
import platform
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from types import FunctionType
from typing import Any

import jax
import numpy as np
import platformdirs

from bayes_grpo.common.files import atomic_write
from bayes_grpo.common.runtime import cores

VARIABLE = "BAYES_GRPO_CACHE"
"""Environment variable with the cache directory; an empty value turns the cache off."""
PROGRAMS = 128
"""Compiled programs kept in a process. Each holds about 280 memory mappings, and Linux allows a process 65,530."""
_WIDE = {"xla_cpu_prefer_vector_width": 512}
"""Vectors as wide as the processor has them; XLA would stop at 256 bits. A tenth to a quarter faster with AVX-512."""
_QUICK = {"xla_backend_optimization_level": 1, "xla_llvm_disable_expensive_passes": True}
"""For programs over draws that run a few times: compiled in 12 to 25% less time, and about as fast."""
_BORROWED = {"jax_persistent_cache_min_compile_time_secs": 0.2, "jax_persistent_cache_min_entry_size_bytes": 0}
_STATES = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl", "jax_threefry_partitionable")
"""Settings of JAX by which the text of our programs differs."""
_DIGEST = hashlib.sha256().digest_size
"""Bytes before a text that tell whether it is whole."""
_PACKAGE = Path(__file__).parent.parent


def accelerated() -> bool:
    """True where JAX computes on an accelerator, where wide programs beat long ones."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    chosen = device if isinstance(device, str) else getattr(device, "platform", None)
    return (chosen or jax.default_backend()) != "cpu"


def call(make: Any, options: tuple[Any, ...], *arguments: Any, rarely: bool = False) -> Any:
    """Results of a program for these arguments, as NumPy arrays; 64-bit.

    ``make`` takes the options, which are hashable, and returns the function to compile. Its text is kept where that
    returns arrays, plain tuples and dictionaries. Shapes and types of the arguments, arrays or trees of them, decide
    which program is taken. One that runs ``rarely`` costs more to compile than its calls.
    """
    with jax.enable_x64(True):  # a thread does not inherit the caller's setting
        program, leaves = _program(make, options, arguments, rarely)
        return jax.tree.map(np.asarray, program(*leaves))


def prepare(make: Any, options: tuple[Any, ...], *arguments: Any) -> None:
    """Compiles the program of a later `call` with arguments like these."""
    with jax.enable_x64(True):
        _program(make, options, arguments)


def _program(
    make: Any, options: tuple[Any, ...], arguments: tuple[Any, ...], rarely: bool = False
) -> tuple[Any, list[Any]]:
    leaves, treedef = jax.tree.flatten(arguments)
    types = (getattr(x, "dtype", None) or np.result_type(x) for x in leaves)  # NumPy cannot name JAX's random keys
    shapes = tuple(zip(map(np.shape, leaves), types, strict=True))
    with _LOOKUP:  # of two threads that find none, each would make one
        program = _cached_program(make, options, treedef, shapes, rarely=rarely)
    return program.compiled(), leaves


_CHUNK = 512
"""Draws a call of a program; threads share the calls."""
_BATCH = 64
"""Draws side by side on a CPU: their arrays stay in its cache. All 512 at once take 1.1 to 1.7 times as long."""


def over_draws(one: Any, options: tuple[Any, ...], draws: Any, *shared: Any, rarely: bool = False) -> Any:
    """Runs a program over any number of draws, in chunks of one size so that it compiles once.

    ``one`` is a function of (*options, one draw, *shared); draws are arrays with a common leading axis, or a tree of
    them.
    """
    draws = jax.tree.map(np.asarray, draws)
    total = len(jax.tree.leaves(draws)[0])
    picks = [np.arange(i, i + _CHUNK) % total for i in range(0, total, _CHUNK)]
    chunks = [jax.tree.map(lambda x, pick=pick: x[pick], draws) for pick in picks]
    with ThreadPoolExecutor(max_workers=min(len(chunks), cores())) as pool:
        program = (one, options, _CHUNK if accelerated() else _BATCH)
        parts = pool.map(lambda part: call(_in_batches, program, part, *shared, rarely=rarely), chunks)
        return _joined(parts, total)


def _joined(parts: Iterable[Any], total: int) -> Any:
    """Chunks one after another, each written to its place as it comes: all of them beside the whole are 50 MB a fit."""
    whole: Any = None
    for i, part in enumerate(parts):
        if whole is None:
            whole = jax.tree.map(lambda x: np.empty((total, *x.shape[1:]), x.dtype), part)
        place = slice(i * _CHUNK, min((i + 1) * _CHUNK, total))
        size = place.stop - place.start
        jax.tree.map(lambda to, x, place=place, size=size: np.copyto(to[place], x[:size]), whole, part)
    return whole


def _in_batches(one: Any, options: tuple[Any, ...], batch: int) -> Any:
    return lambda draws, *shared: jax.lax.map(lambda draw: one(*options, draw, *shared), draws, batch_size=batch)


def forget_programs() -> None:
    """Releases all compiled programs; programs needed again are loaded from the cache on disk, in seconds."""
    _cached_program.cache_clear()


class _Program:
    """A program for the shapes of its arguments; of several threads that ask for it, the first one compiles it."""

    def __init__(
        self, make: Any, options: tuple[Any, ...], treedef: Any, shapes: tuple[Any, ...], rarely: bool
    ) -> None:
        self._source = make, options, treedef, shapes
        self._rarely = rarely
        self._compiled: Any = None
        self._lock = threading.Lock()

    def compiled(self) -> Any:
        with self._lock:
            if self._compiled is None:
                with compilation_cache() as folder:
                    lowered = _lowered(*self._source, folder=folder)
                    self._compiled = lowered.compile(compiler_options=_options(self._rarely))
            return self._compiled


_cached_program = lru_cache(PROGRAMS)(_Program)
_LOOKUP = threading.Lock()


def _options(rarely: bool) -> dict[str, Any] | None:
    if accelerated():
        return None
    wide = _WIDE if platform.machine() in ("x86_64", "AMD64") else {}
    return wide | (_QUICK if rarely else {}) or None


class _CompileSettings:
    """JAX's settings while threads of this package compile: the first borrows them, the last gives them back."""

    lock = threading.Lock()
    users = 0
    before: dict[str, Any]

    def change(self, users: int, wanted: dict[str, Any]) -> None:
        from jax.experimental.compilation_cache.compilation_cache import reset_cache

        with self.lock:
            self.users += users
            if users == self.users == 1:
                self.before = {name: getattr(jax.config, name) for name in wanted}
            if self.users == (users == 1):  # the first to come, or the last to go
                for name, value in (wanted if users == 1 else self.before).items():
                    jax.config.update(name, value)
                reset_cache()  # JAX keeps the directory that it saw first, whatever the setting says later


_LOAN = _CompileSettings()


@contextmanager
def compilation_cache() -> Iterator[Path | None]:
    """Context that keeps compiled programs, unless the user has set a cache of their own or turned ours off.

    Gives the directory of our cache; None where it is not in use.
    """
    given = os.environ.get(VARIABLE)
    folder = Path(given or Path(platformdirs.user_cache_dir("bayes_grpo"), "xla"))
    theirs = jax.config.jax_compilation_cache_dir and not _LOAN.users
    try:
        if given == "" or theirs:
            raise OSError
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home costs seconds, not the result
        yield None
        return
    wanted = {"jax_compilation_cache_dir": str(folder), **_BORROWED}
    _LOAN.change(1, wanted)
    try:
        yield folder
    finally:
        _LOAN.change(-1, wanted)


def _lowered(
    make: Any, options: tuple[Any, ...], treedef: Any, shapes: tuple[Any, ...], *, folder: Path | None = None
) -> Any:
    """A program before it is compiled, a function of the leaves of its arguments; its text is kept in a folder."""
    leaves = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    name = None if folder is None or accelerated() else _name((make, options))
    if folder is None or name is None:
        return _traced(make, options, treedef).lower(*leaves)
    from jax import export  # a twentieth of a second

    source = (name, str(treedef), str(shapes), _versions(), *(str(getattr(jax.config, x, None)) for x in _STATES))
    file = folder / f"{hashlib.sha256(repr(source).encode()).hexdigest()}.stablehlo"
    text = _read(file)
    if text is not None:
        return jax.jit(export.deserialize(text).call).lower(*leaves)
    made = export.export(_traced(make, options, treedef))(*leaves)
    with suppress(Exception):  # a full disk costs seconds, not the result
        text = bytes(made.serialize())
        with atomic_write(file) as temporary:
            temporary.write_bytes(hashlib.sha256(text).digest() + text)
    return jax.jit(made.call).lower(*leaves)  # the same text from now on, by which XLA's cache knows it


def _traced(make: Any, options: tuple[Any, ...], treedef: Any) -> Any:
    return jax.jit(lambda *leaves: make(*options)(*jax.tree.unflatten(treedef, leaves)))


def _read(file: Path) -> bytearray | None:
    """A kept text; None where there is none, or a damaged one."""
    with suppress(OSError):
        content = file.read_bytes()
        if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
            return bytearray(content[_DIGEST:])
    return None


def _name(option: Any) -> str | None:
    """Words from which nothing but the option follows, given the package's source; None where there are none."""
    if option is None or isinstance(option, bool | int | float | str):
        return repr(option)
    if isinstance(option, tuple):
        parts = [_name(x) for x in option]
        return None if None in parts else f"({', '.join(map(str, parts))})"
    kind = option if isinstance(option, FunctionType) else type(option)
    where = f"{kind.__module__}.{kind.__qualname__}"
    if not where.startswith("bayes_grpo.") or "<" in where:
        return None
    if isinstance(option, FunctionType):
        return where
    values = _name(tuple(getattr(option, x.name) for x in fields(option))) if is_dataclass(option) else None
    return None if values is None else f"{where}{values}"


@cache
def _versions() -> tuple[str, ...]:
    """Hash of the package's source, and versions of what writes a program's text."""
    source = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        source.update(file.read_bytes())
    return source.hexdigest(), *(metadata.version(x) for x in ("jax", "jaxlib", "numpyro"))
