"""Stored and found text compared: words exactly, numbers within a tolerance."""

from __future__ import annotations

import math
import re
from difflib import SequenceMatcher, unified_diff

EXACT = (0.002, 0.0002)
SAMPLED = (0.1, 0.05)
"""Relative and absolute tolerance where no sampler is at work and where one is."""
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def difference(stored: str, found: str, tolerance: tuple[float, float]) -> str:
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


def _close(a: str, b: str, tolerance: tuple[float, float]) -> bool:
    if _masked(a) != _masked(b):
        return False
    relative, absolute = tolerance
    pairs = zip(map(float, _NUMBER.findall(a)), map(float, _NUMBER.findall(b)), strict=True)
    return all(math.isclose(x, y, rel_tol=relative, abs_tol=absolute) for x, y in pairs)
