"""Stored and found text compared: words exactly, numbers within a tolerance."""

import math
import re
from difflib import SequenceMatcher, unified_diff
from typing import NamedTuple


class Tolerance(NamedTuple):
    """What counts as equal: relative and absolute tolerance of a number, and points of a percentage."""

    relative: float
    absolute: float
    points: float


EXACT = Tolerance(0.002, 0.0002, 0.0002)
"""Where no sampler is at work."""
SAMPLED = Tolerance(0.1, 0.05, 1.0)
"""Where one is: its draws differ a little by machine, and a small chance by its last digit."""
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?%?")


def difference(stored: str, found: str, tolerance: Tolerance) -> str:
    """A unified diff in which numbers within the tolerance are equal; "" where nothing else differs.

    Spaces and line breaks do not count: a number of another length moves both.
    """
    before, after = stored.splitlines(), found.splitlines()
    if _close(stored, found, tolerance):
        return ""
    pairs = SequenceMatcher(None, [_masked(x) for x in before], [_masked(x) for x in after], autojunk=False)
    for a, b, size in pairs.get_matching_blocks():
        for i in range(size):
            if _close(before[a + i], after[b + i], tolerance):
                after[b + i] = before[a + i]
    return "\n".join(unified_diff(before, after, "stored", "found", lineterm=""))


def _masked(text: str) -> str:
    return " ".join(_NUMBER.sub("#", text).split())


def _close(a: str, b: str, tolerance: Tolerance) -> bool:
    if _masked(a) != _masked(b):
        return False
    return all(_equal(x, y, tolerance) for x, y in zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True))


def _equal(a: str, b: str, tolerance: Tolerance) -> bool:
    if a.endswith("%") != b.endswith("%"):
        return False
    absolute = tolerance.points if a.endswith("%") else tolerance.absolute
    first, second = (float(x.rstrip("%")) for x in (a, b))
    return math.isclose(first, second, rel_tol=tolerance.relative, abs_tol=absolute)
