"""Traced programs kept beside the compiled ones: tracing a law takes a quarter of a second, reading it back a tenth.

JAX's cache of compiled programs is asked with the program's text, so that every process traces it anew. Here the text
is kept as well (`jax.export`, a flat buffer and no pickle), under a name made of all that it depends on: the function
and its options, the shapes, this package's source, the version of JAX.
"""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any

import jax
import jax.export

from bayes_grpo.common.cache import cache_directory
from bayes_grpo.common.errors import OutputError
from bayes_grpo.common.files import written_whole


def stored[T: type](kind: T) -> T:
    """Decorator of a named tuple that goes into a compiled program or comes out of it, so that it can be kept."""
    jax.export.register_namedtuple_serialization(kind, serialized_name=f"{kind.__module__}.{kind.__qualname__}")
    return kind


def lowered(make: Any, options: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
    """A program ready to compile, read back where it was traced before.

    Args:
        make: Function of the options that returns the function to compile.
        options: Hashable.
        arguments: Shapes and types of the arguments, or trees of them.

    Returns:
        What ``jax.jit(make(*options)).lower(*arguments)`` returns.
    """
    directory = cache_directory()
    name = None if directory is None else _name(make, options, arguments)
    if directory is None or name is None:
        return jax.jit(make(*options)).lower(*arguments)
    path = directory / "traced" / name
    content = _whole_content(path)
    if content is not None:
        with suppress(ValueError):  # a type that this process does not know yet
            return jax.jit(jax.export.deserialize(content).call).lower(*arguments)
    traced = jax.jit(make(*options))
    try:
        exported = jax.export.export(traced)(*arguments)
        content = exported.serialize()
    except ValueError:  # a type that cannot be kept
        return traced.lower(*arguments)
    with suppress(OSError, OutputError):  # a full disk costs the next process a second, and not this one its result
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as temporary:
            temporary.write_bytes(hashlib.sha256(content).digest() + content)
    return jax.jit(exported.call).lower(*arguments)


def _whole_content(path: Path) -> bytearray | None:
    """What was written to the file; None where there is none, or not the whole of it."""
    try:
        kept = path.read_bytes()
    except OSError:
        return None
    checksum, content = kept[:32], kept[32:]
    return bytearray(content) if hashlib.sha256(content).digest() == checksum else None


def _name(make: Any, options: tuple[Any, ...], arguments: tuple[Any, ...]) -> str | None:
    """Name of the file; None where something of unknown origin takes part."""
    parts = [f"{make.__module__}.{make.__qualname__}"]
    sources = {_source(make.__module__)}
    for option in options:
        kind = type(option)
        if option is None or isinstance(option, bool | int | float | str):
            parts.append(repr(option))
        elif isinstance(option, FunctionType) and "<" not in option.__qualname__:
            parts.append(f"{option.__module__}.{option.__qualname__}")
            sources.add(_source(option.__module__))
        elif is_dataclass(option):
            values = [repr(getattr(option, f.name)) for f in fields(option)]
            parts.append(f"{kind.__module__}.{kind.__qualname__}{values}")
            sources |= {_source(c.__module__) for c in kind.__mro__ if c.__module__ not in ("abc", "builtins")}
        else:
            return None
    if None in sources:
        return None
    leaves, treedef = jax.tree.flatten(arguments)
    shapes = [(x.shape, str(x.dtype)) for x in leaves]
    about = (
        parts,
        str(treedef),
        shapes,
        jax.__version__,
        jax.default_backend(),
        bool(jax.config.read("jax_enable_x64")),
    )
    text = repr((about, sorted(x for x in sources if x), _package()))
    return f"{hashlib.sha256(text.encode()).hexdigest()}.bin"


@lru_cache(maxsize=256)
def _source(module: str) -> str | None:
    """A module's file as it is now; None for one without, such as a notebook's."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return None if file is None else _state(Path(file))


@lru_cache(maxsize=1)
def _package() -> str:
    """This package's source as it is now."""
    root = Path(__file__).resolve().parents[1]
    states = sorted(_state(path) for path in root.rglob("*.py"))
    return hashlib.sha256("\n".join(states).encode()).hexdigest()


def _state(path: Path) -> str:
    found = path.stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"
