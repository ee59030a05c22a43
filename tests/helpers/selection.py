"""Which of many cases a newcomer waits for; `.ci/run` runs a part of the rest, which is marked `thorough`."""

from collections import Counter
from collections.abc import Callable, Iterable, Set
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import settings

PIECE = 2
"""Tests of a file that run together."""


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


def examples(times: float, quick: float | None = None) -> settings:
    """So many times the examples of `pytest_configure` in ``tests/conftest.py``; of its 25 ``quick`` times as many."""
    few = settings().max_examples < 100
    share = quick if few and quick is not None else times
    return settings(max_examples=round(share * settings().max_examples))


def part(text: str) -> tuple[int, int]:
    """``K/N`` as two numbers, K modulo N; a number that only grows, such as that of commits, goes through all parts.

    Raises:
        ValueError: If it is not two whole numbers, the second of at least 1.
    """
    number, parts = map(int, text.split("/"))
    if parts < 1:
        raise ValueError(f"expected at least one part, found {text}")
    return number % parts, parts


def rooms_of(changed: Iterable[str]) -> set[str]:
    """Rooms of the package whose code is among changed paths below the repository."""
    return {
        PurePosixPath(path.parts[1]).stem
        for path in map(PurePosixPath, changed)
        if path.parts[:1] == ("bayes_grpo",) and path.suffix == ".py"
    }


def shard(files: Iterable[str], number: int, parts: int, rooms: Set[str] = frozenset()) -> list[bool]:
    """Whether each test is in one part, given the files that the tests are in.

    A few tests of a file stay together, since they share its fixtures. Of the folders named after rooms there are half
    as many more: which ones goes round with the number, as the parts do.
    """
    seen: Counter[str] = Counter()
    pieces = []
    for name in files:
        pieces.append((name, seen[name] // PIECE))
        seen[name] += 1
    size = Counter(pieces)
    every = sorted(size, key=size.__getitem__, reverse=True)
    own = every[number::parts]
    near = [piece for piece in every if piece[0].split("/")[0] in rooms and piece not in own]
    first = number % max(1, len(near))
    chosen = {*own, *(near[first:] + near[:first])[: len(own) // 2]}
    return [piece in chosen for piece in pieces]


def _thorough(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.thorough)
