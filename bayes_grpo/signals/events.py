"""Sudden events in the rows of a signal that are over or done at once: dips and jumps.

A row counts as far off beyond five standard deviations of a row about its neighbors, and 15% of the signal's range.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayes_grpo.rows.series import stretches
from bayes_grpo.signals.logged import Logged

_FAR = 5.0
_SD_OF_MEDIAN, _OF_RMS = 1.4826, 0.6
"""Of the noise over the median and the root mean square of the moves; the larger estimate counts."""
_PART = 0.15
_AT_ONCE = 0.7
"""Share of a change of level that a single row covers, for a jump."""
_LONGEST_DIP = 30
_DIP_PART = 6
_ONE_ROW = 2.0
"""Ratio of a dip of one row over one of several, before it is named."""
_SHORTEST = 12
_SIDE = 6
_SIDES = 4
"""Rows on each side of a jump whose medians are its levels."""
_MOST = 3
"""More events than this are how the signal scatters."""


class Dip(NamedTuple):
    """Rows far off their surroundings, and over: places of the first and last, the most extreme value, the usual."""

    first: int
    last: int
    extreme: float
    usual: float


class Jump(NamedTuple):
    """A level that changed at one row and stayed: its place, and the levels before and after."""

    row: int
    before: float
    after: float


def _far(y: Logged) -> float:
    """Distance from which a row counts as far off, by the standard deviation of a row about its neighbors."""
    moves = np.abs(np.diff(y.value))
    noise = max(_SD_OF_MEDIAN * np.median(moves), _OF_RMS * np.sqrt(np.mean(moves**2))) / np.sqrt(2.0)
    return max(_FAR * float(noise), _PART * float(np.ptp(y.value)), 1e-300)


def dips_of(y: Logged) -> tuple[Dip, ...]:
    """Short stretches far off their running median and over; none where there are many."""
    half = min(max(_SHORTEST, y.rows // _DIP_PART), _LONGEST_DIP)
    if y.rows < 2 * half:
        return ()
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(y.value, half, mode="edge"), 2 * half + 1)
    off = np.abs(y.value - np.median(windows, axis=1))
    far = _far(y)
    found = [(a, b) for a, b in stretches(off > far) if b > a or off[a] > _ONE_ROW * far]
    if len(found) > _MOST:
        return ()
    usual = float(np.median(y.value))
    inside = [(a, b) for a, b in found if a >= _MOST and b < y.rows - _MOST]
    return tuple(Dip(a, b, float(max(y.value[a : b + 1], key=lambda x: abs(x - usual))), usual) for a, b in inside)


def jumps_of(y: Logged) -> tuple[Jump, ...]:
    """Rows at which the level changed at once and stayed; none where there are many."""
    if y.rows < _SIDES * _SIDE:
        return ()
    medians = np.median(np.lib.stride_tricks.sliding_window_view(y.value, _SIDE), axis=1)
    before, after = medians[:-_SIDE], medians[_SIDE:]
    change = np.abs(after - before)
    row_change = np.abs(np.diff(y.value)[_SIDE - 1 :])
    near = [range(d.first - _SIDE, d.last + _SIDE + 1) for d in dips_of(y)]
    far = _far(y)
    found: list[Jump] = []
    for i in np.argsort(-change):
        row = int(i) + _SIDE
        if change[i] <= far:
            break
        if row_change[i] > _AT_ONCE * change[i] and not any(row in x for x in near):
            near.append(range(row - _SIDE, row + _SIDE + 1))
            found.append(Jump(row, float(before[i]), float(after[i])))
    return tuple(sorted(found)) if len(found) <= _MOST else ()
