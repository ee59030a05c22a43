"""Which of many cases a newcomer waits for; `.ci/run` runs a part of the rest, which is marked `thorough`."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
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


def pieces_of(files: Iterable[str]) -> list[str]:
    """The piece of each test, of the files that tests are in: a few of one file's tests, which share its fixtures."""
    seen: Counter[str] = Counter()
    pieces = []
    for name in files:
        pieces.append(f"{name}#{seen[name] // PIECE}")
        seen[name] += 1
    return pieces


def shards(tests: Mapping[str, int], parts: int) -> list[list[str]]:
    """Pieces in parts of equally many tests: the largest first, each into the part that has fewest so far."""
    found: list[list[str]] = [[] for _ in range(parts)]
    total = [0] * parts
    for name in sorted(tests, key=lambda x: (-tests[x], x)):
        fewest = total.index(min(total))
        found[fewest].append(name)
        total[fewest] += tests[name]
    return found


def shard(tests: Mapping[str, int], number: int, parts: int, rooms: Set[str] = frozenset()) -> list[str]:
    """One part of the pieces, and some of the folders named after rooms, half as many tests at most: time is bounded.

    Which of the rooms' pieces those are goes round with the number, as the parts do.
    """
    own = shards(tests, parts)[number]
    near = [name for name in sorted(tests) if name.split("/")[0] in rooms and name not in own]
    first = number % max(1, len(near))
    left = sum(tests.values()) // (2 * parts)
    for name in near[first:] + near[:first]:
        if tests[name] <= left:
            own.append(name)
            left -= tests[name]
    return own


def _thorough(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.thorough)
