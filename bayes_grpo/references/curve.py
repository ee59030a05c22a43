"""A run as a smooth curve and the noise of its rows, by an exact Gaussian on stretches of rows.

    y = curve + noise,   curve ~ level + a Gaussian process (Matérn 3/2),   noise ~ N(0, sd²), row by row

The level is as good as free; scale, length and clock of the process are those of the highest marginal likelihood on a
grid. Long runs are cut into stretches, each with a curve of its own, so that the work grows
with the rows and not with their cube; all runs that are read together are cut at the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from bayes_grpo.rows.series import Series

_STRETCH = 200
"""Rows of a stretch at most."""
_MIN_ROWS = 6
"""Rows of a stretch at least; a shorter one says nothing about the scatter of rows about a curve."""
_LENGTHS = (8.0, 20.0, 60.0, 200.0)
"""Length scales of the process that are tried, in rows: shorter ones would follow the noise."""
_RATIOS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Variances of the process that are tried, in those of the noise."""
_EARLY = (1.0, 5.0)
"""Rows within which a run's first changes may pass: warped clocks, faster at first, are tried in addition to steps."""
_LEVEL = 1e4
"""Prior variance of the level in that of the noise."""


class Segment(NamedTuple):
    """Rows of a run between two cuts.

    Attributes:
        place: Between which cuts.
        rows: Which rows of the table, a slice.
        root: Eigenvectors of the curve's prior covariance, shape (n, n).
        value: Its eigenvalues in units of the noise's variance, shape (n,).
    """

    place: int
    rows: slice
    root: np.ndarray
    value: np.ndarray


@dataclass(frozen=True, eq=False)
class SmoothCurve:
    """A run as a smooth curve and noise.

    Attributes:
        table: Its rows.
        sd: Standard deviation of a row's noise, reward.
        smooth: Posterior mean of the curve at the rows, shape (n,); NaN at rows of no stretch.
        stretches: The rows that are looked at.
    """

    table: Series
    sd: float
    smooth: np.ndarray
    stretches: tuple[Segment, ...]

    @property
    def observed(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values where the curve is known."""
        there = np.isfinite(self.smooth)
        return self.table.step[there], self.smooth[there]

    def scored(self, stretch: Segment) -> tuple[np.ndarray, np.ndarray]:
        """Rows of a stretch, weighted by their inverse covariance, shape (n,), and that, shape (n, n)."""
        inverse = (stretch.root / (stretch.value + 1.0)) @ stretch.root.T
        return inverse @ (self.table.y[stretch.rows] / self.sd), inverse


def cuts_of(tables: Sequence[Series]) -> np.ndarray:
    """Steps between which no stretch of any run has more than `_STRETCH` rows."""
    gaps = [float(np.median(np.diff(t.step))) for t in tables if len(t.step) > 1]
    width = _STRETCH * min(gaps, default=1.0)
    first = min(t.step[0] for t in tables)
    last = max(t.step[-1] for t in tables)
    return first - 0.5 * width / _STRETCH + width * np.arange(2 + int((last - first) / width))


def smooth_curve(table: Series, cuts: np.ndarray | None = None) -> SmoothCurve | None:
    """Course and noise of a run, in stretches between cuts; None where its rows do not scatter or are too few."""
    from scipy.linalg import helmert  # here: without reference runs a forecast needs no SciPy

    cuts = cuts_of([table]) if cuts is None else cuts
    place = np.searchsorted(cuts, table.step)
    parts = {int(k): np.flatnonzero(place == k) for k in np.unique(place)}
    slices = {k: slice(x[0], x[-1] + 1) for k, x in parts.items() if len(x) >= _MIN_ROWS}
    if not slices or float(np.ptp(table.y)) <= 0.0:
        return None
    time = (table.step - table.step[0]) / float(np.median(np.diff(table.step)))
    # Some run with the logarithm of the rows since a span, and as fast as these at the end of the run.
    clocks = [time, *((time[-1] + span) * np.log1p(time / span) for span in _EARLY)]
    deviation = {k: helmert(x.stop - x.start).T for k, x in slices.items()}  # contrasts, which no level changes
    best: tuple[float, float, float, dict[int, np.ndarray]] | None = None
    for length, clock in product(_LENGTHS, clocks):
        kernels = {k: _matern(clock[x], length) for k, x in slices.items()}
        # Free of the level, a kernel has one set of eigenvectors for all its scales.
        parts = [np.linalg.eigh(deviation[k].T @ kernels[k] @ deviation[k]) for k in slices]
        value = np.maximum(np.concatenate([p[0] for p in parts]), 0.0)
        y = np.concatenate(
            [p[1].T @ (deviation[k].T @ table.y[x]) for p, (k, x) in zip(parts, slices.items(), strict=True)]
        )
        for ratio in _RATIOS:
            var = float(np.sum(y**2 / (ratio * value + 1.0))) / max(len(y), 1)
            score = -0.5 * len(y) * np.log(max(var, 1e-300)) - 0.5 * float(np.sum(np.log(ratio * value + 1.0)))
            if best is None or score > best[0]:
                best = (score, var, ratio, kernels)
    assert best is not None
    _, var, ratio, kernels = best
    if not var > (1e-9 * table.scale) ** 2:
        return None
    stretches = []
    for k, x in slices.items():
        value, root = np.linalg.eigh(ratio * kernels[k] + _LEVEL)
        stretches.append(Segment(k, x, root, np.maximum(value, 0.0)))
    smooth = np.full(len(table.y), np.nan)
    for s in stretches:
        y = table.y[s.rows] - table.centre
        smooth[s.rows] = table.centre + s.root @ (s.value / (s.value + 1.0) * (s.root.T @ y))
    return SmoothCurve(table, float(np.sqrt(var)), smooth, tuple(stretches))


def _matern(time: np.ndarray, length: float) -> np.ndarray:
    r = np.sqrt(3.0) * np.abs(time[:, None] - time) / length
    return (1.0 + r) * np.exp(-r)
