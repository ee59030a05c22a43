"""Programs as JAX traced them, kept between processes: tracing is Python's work, and took a fifth of a report.

XLA's cache (`bayes_grpo.common.cache`) keeps what was compiled, but JAX asks for it by the program's text. To make that
anew in every process costs more than all else that a warm cache leaves to do, and holds up every other thread. So the
text is kept too, as StableHLO (https://docs.jax.dev/en/latest/export/export.html), under a hash of all that it follows
from: the function and its options, the shapes of its arguments, this package's source, the versions of JAX and NumPyro.

What cannot be named is never kept: a law of another package, whose source may change unseen, or a function that was
made at run time. Nor are the programs of an accelerator. They are traced as ever.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import FunctionType
from typing import Any

import jax

from bayes_grpo.common.files import written_whole

_PACKAGE = Path(__file__).parent.parent
_STATES = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl", "jax_threefry_partitionable")
"""Settings of JAX by which the text of our programs differs."""

_DIGEST = hashlib.sha256().digest_size
"""Bytes before a text that tell whether it is whole."""


def lowered(make: Any, options: tuple[Any, ...], treedef: Any, shapes: tuple[Any, ...], folder: Path | None) -> Any:
    """A program on its way to the compiler, a function of the leaves of its arguments.

    Args:
        make: Function of the options that returns the function to compile; this returns arrays, plain tuples and
            dictionaries, or it is not kept.
        options: Hashable.
        treedef: Structure of the arguments.
        shapes: Shape and type of every leaf.
        folder: Where texts are kept; None for nowhere.

    Returns:
        What JAX calls lowered.
    """
    leaves = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    name = None if folder is None or jax.default_backend() != "cpu" else _name((make, options))
    if folder is None or name is None:
        return _traced(make, options, treedef).lower(*leaves)
    from jax import export  # a twentieth of a second

    said = (name, str(treedef), str(shapes), _versions(), *(str(getattr(jax.config, x, None)) for x in _STATES))
    file = folder / f"{hashlib.sha256(repr(said).encode()).hexdigest()}.stablehlo"
    text = _read(file)
    if text is not None:
        return jax.jit(export.deserialize(text).call).lower(*leaves)
    made = export.export(_traced(make, options, treedef))(*leaves)
    with suppress(Exception):  # a disk that is full costs seconds, not the result
        _write(file, bytes(made.serialize()))
    return jax.jit(made.call).lower(*leaves)  # the same text from now on, by which XLA's cache knows it


def _traced(make: Any, options: tuple[Any, ...], treedef: Any) -> Any:
    def of_leaves(*leaves: Any) -> Any:
        return make(*options)(*jax.tree.unflatten(treedef, leaves))

    return jax.jit(of_leaves)


def _read(file: Path) -> bytearray | None:
    """A text that was kept; None where there is none, or a damaged one."""
    with suppress(OSError):
        held = file.read_bytes()
        if hashlib.sha256(held[_DIGEST:]).digest() == held[:_DIGEST]:
            return bytearray(held[_DIGEST:])
    return None


def _write(file: Path, text: bytes) -> None:
    with written_whole(file) as temporary:
        temporary.write_bytes(hashlib.sha256(text).digest() + text)


def _name(option: Any) -> str | None:
    """Words from which nothing but the option follows, given the package's source; None where there are none."""
    if option is None or isinstance(option, bool | int | float | str):
        return repr(option)
    if isinstance(option, tuple):
        parts = [_name(x) for x in option]
        return None if None in parts else f"({', '.join(str(x) for x in parts)})"
    kind = option if isinstance(option, FunctionType) else type(option)
    where = f"{kind.__module__}.{kind.__qualname__}"
    if not where.startswith("bayes_grpo.") or "<" in where:
        return None
    if isinstance(option, FunctionType):
        return where
    if not is_dataclass(option):
        return None
    held = _name(tuple(getattr(option, x.name) for x in fields(option)))
    return None if held is None else f"{where}{held}"


@cache
def _versions() -> tuple[str, ...]:
    """Hash of the package's source, and versions of what writes a program's text."""
    source = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        source.update(file.read_bytes())
    return source.hexdigest(), *(metadata.version(x) for x in ("jax", "jaxlib", "numpyro"))
