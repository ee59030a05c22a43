"""Which of many cases a newcomer waits for; `.ci/run` runs a part of the rest, which is marked `thorough`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from pathlib import Path, PurePosixPath
from typing import Any

import pytest


def few(values: Iterable[Any], *kept: Any, by: Callable[[Any], Any] = lambda value: value) -> list[Any]:
    """Values for `pytest.mark.parametrize`, in their order; those that are not kept are marked `thorough`.

    Args:
        values: All cases; a tuple is one of several arguments.
        *kept: Those of the default run, as ``by`` gives them.
        by: What tells a case, its value if not given.

    Raises:
        ValueError: If a kept case is none of the values, so that the default run would do without it.
    """
    values = list(values)
    missing = [case for case in kept if case not in [by(value) for value in values]]
    if missing:
        raise ValueError(f"expected some of the cases, found {missing}")
    return [v if by(v) in kept else _thorough(v) for v in values]


def part(text: str) -> tuple[int, int]:
    """``K/N`` as two numbers, K modulo N; a number that only grows, such as that of commits, goes through all parts.

    Raises:
        ValueError: If it is not two whole numbers, the second of at least 1.
    """
    number, parts = map(int, text.split("/"))
    if parts < 1:
        raise ValueError(f"expected at least one part, found {text}")
    return number % parts, parts


def every[T](things: Iterable[T], number: int, parts: int) -> list[T]:
    """Every so many of things, from one on: neighbours, which take alike long, fall into different parts."""
    return list(things)[number::parts]


def rooms_of(changed: Iterable[str]) -> set[str]:
    """Rooms of the package whose files, or whose tests, are among changed paths below the repository."""
    rooms: set[str] = set()
    for path in map(PurePosixPath, changed):
        if path.parts[:1] == ("bayes_grpo",):
            rooms.add(PurePosixPath(path.parts[1]).stem)
        elif path.parts[:1] == ("tests",) and len(path.parts) > 2:
            rooms.add(path.parts[1])
    return rooms


def shard(files: Sequence[Path], number: int, parts: int, rooms: Set[str] = frozenset()) -> list[Path]:
    """Every so many of test files, and as many more of the folders named after rooms, so that time stays bounded.

    Where the rooms have more files than that, the number decides which, as it does for all files.
    """
    rotating = every(files, number, parts)
    near = [path for path in files if path.parent.name in rooms and path not in rotating]
    first = number * len(rotating) % max(1, len(near))
    return rotating + (near[first:] + near[:first])[: len(rotating)]


def _thorough(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.thorough)
