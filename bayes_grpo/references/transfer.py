"""The rest of a run as its reference runs predict it.

    y(s) = mean curve of the reference runs(s) + Σ weight[j] · (curve[j](s) − mean curve(s)) + own way(s) + noise(s)

The weights are normal, so that a run may be like some reference runs and unlike others; its own way is a level and a
slowly varying deviation (Ornstein and Uhlenbeck's); noises of rows are known in part where the order of the data is
shared. How far weights and own way go, and whether the reference runs' mean curve counts at all, is averaged over a
grid by marginal likelihood of the rows that the run has. A regression of this kind is known as a
synthetic control (Abadie and others 2010, https://doi.org/10.1198/jasa.2009.ap08746).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.references.curve import SmoothCurve, cuts_of, smooth_curve
from bayes_grpo.references.gather import ExcludedRun, ReferenceRuns
from bayes_grpo.references.order import DataOrder, StepEffect, order_of, orders_of
from bayes_grpo.rows.series import Series


@dataclass(frozen=True, eq=False)
class JointReading:
    """A run and its reference runs, as smooth curves; that of the run is None where its rows have no noise.

    ``excluded`` are runs that were named and not used; ``order`` is the data order that the run shares, if any.
    """

    table: Series
    curve: SmoothCurve | None
    names: tuple[str, ...]
    curves: tuple[SmoothCurve, ...]
    excluded: tuple[ExcludedRun, ...]
    order: DataOrder | None
    searched: bool = False

    def transfer_forecast(self, step: np.ndarray, window: np.ndarray) -> TransferForecast | None:
        """Forecast of the run's future rows; None where fewer than two reference runs extend beyond its last row."""
        t, order = self.table, self.order
        both = np.stack([np.concatenate([t.step, step]), np.concatenate([t.window, window])])
        effect = None if order is None else (order.at(both), order.share.median)
        return transfer_forecast(both[0], t.y, self.curves, effect)


def read_jointly(table: Series, references: ReferenceRuns) -> JointReading:
    """Reads the rows of a run so far, and no later ones, together with all rows of its reference runs."""
    cuts = cuts_of([table, *(rows for _, rows in references.runs)])
    names = []
    curves = []
    excluded = list(references.excluded)
    for run, rows in references.runs:
        curve = smooth_curve(rows, cuts)
        if curve is None:
            excluded.append(ExcludedRun(plain(run.name, 80), "its rows are too few or do not scatter"))
            continue
        names.append(plain(run.name, 80))
        curves.append(curve)
    curve_of_run = smooth_curve(table, cuts)
    order = None
    if curve_of_run is not None:
        orders = orders_of(curves)
        order = order_of(curve_of_run, orders, len(curves) - sum(len(o.members) for o in orders))
    return JointReading(table, curve_of_run, tuple(names), tuple(curves), tuple(excluded), order, references.searched)


_COUNTS = (False, True)
"""Hypotheses: the reference runs' mean curve does not count, or it does."""
_WEIGHTS = (0.0, 0.5, 1.5)
"""Standard deviation of a reference run's weight."""
_SDS, _TIMES = (0.03, 0.1, 0.3), (0.3, 2.0)
"""Standard deviation of the run's own way in the spread of the curves, and its time in the run's length."""
_NOISES = (0.7, 1.0)
"""Noise of a row in that which neighboring rows differ by."""
_LEVELS = (2.0, 0.2)
"""Standard deviation of the run's level in the spread of the curves, where their mean does not and does count."""
_ROWS = 200
"""Latest rows of the run that are looked at."""
_OVERLAP = 2.0 / 3.0
"""Share of the run's rows that a reference run has to have curves for."""


@dataclass(frozen=True, eq=False)
class TransferForecast:
    """Rows to come as reference runs let expect them: a mixture of normals, one a point of the grid.

    Attributes:
        weight: Of every point of the grid, shape (grid,).
        mean: Mean of the underlying reward, shape (grid, h).
        root: Square root of its covariance, shape (grid, h, h).
        noise: Standard deviation of a row about it, shape (grid, h).
        effect: Mean effect of the data on the rows, reward, shape (grid, h).
        gain: Log marginal likelihood of the rows over that without reference runs.
    """

    weight: np.ndarray
    mean: np.ndarray
    root: np.ndarray
    noise: np.ndarray
    effect: np.ndarray
    gain: float

    def paths(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Underlying reward and rows, shape (count, h) each."""
        at = np.searchsorted(np.cumsum(self.weight), (np.arange(count) + 0.5) / count).clip(max=len(self.weight) - 1)
        z = rng.standard_normal((count, self.mean.shape[1]))
        latent = self.mean[at]
        for g in np.unique(at):
            latent[at == g] += z[at == g] @ self.root[g].T
        rows = latent + self.effect[at] + self.noise[at] * rng.standard_normal(latent.shape)
        return latent, rows


def transfer_forecast(
    step: np.ndarray,
    y: np.ndarray,
    references: Sequence[SmoothCurve],
    order: tuple[StepEffect, float] | None = None,
) -> TransferForecast | None:
    """Forecast of rows from reference runs; None where fewer than two of them extend beyond the run's last row.

    Args:
        step: Steps at which the run's rows and those to come end, shape (n + h,).
        y: The run's rows, shape (n,).
        references: Smooth curves of its reference runs, to their ends.
        order: Effects of the data on all rows, and their share of a row's noise variance; None without a shared order.
    """
    n = len(y)
    used = [j for j, c in enumerate(references) if _reaches(c, step[:n])]
    if len(used) < 2:
        return None
    skip = max(0, n - _ROWS)
    n = n - skip
    step = step[skip:]
    y = y[skip:]
    curves = _continued(np.stack([np.interp(step, *references[j].observed, right=np.nan) for j in used]), n)
    if curves is None:
        return None
    centre = curves.mean(axis=0)
    deviations = (curves - centre).T
    noise = float(np.std(np.diff(y))) / math.sqrt(2.0) + 1e-6 * (float(np.std(y)) + 1e-12)
    unit = float(np.std(centre)) + float(np.sqrt(np.mean(deviations**2))) + noise
    time = np.abs(step[:, None] - step) / (step[n - 1] - step[0])
    drift = {t: unit**2 * np.exp(-time / t) for t in _TIMES}
    similarity = deviations @ deviations.T
    effects: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros(len(step)), np.ones(len(step)))]
    if order is not None:
        mean, var = (x[skip:] for x in order[0])
        share = order[1]
        effects.append((math.sqrt(share) * mean, 1.0 - share * (1.0 - var)))
    from scipy.special import logsumexp, softmax  # here: without reference runs a forecast needs no SciPy

    found, without = [], []
    for counts, weights, sd, t, factor, (mean, var) in product(_COUNTS, _WEIGHTS, _SDS, _TIMES, _NOISES, effects):
        cov = weights**2 * similarity + sd**2 * drift[t] + (_LEVELS[counts] * unit) ** 2
        row_sd = factor * noise
        expected = centre if counts else np.full(len(step), y.mean())
        shift = row_sd * mean
        point = _conditioned(y - shift[:n], expected, cov, row_sd**2 * var)
        found.append((*point, row_sd * np.sqrt(var[n:]), shift[n:]))
        without.append(not counts and not weights and mean is effects[0][0])
    score = np.array([f[0] for f in found])
    alone = np.array(without)
    gain = np.diff([logsumexp(score[x], b=1.0 / x.sum()) for x in (alone, ~alone)])[0]
    weight = softmax(score)
    relevant = np.flatnonzero(weight >= 1e-4)
    mean, cov, sd, shift = (np.stack([found[i][k] for i in relevant]) for k in (1, 2, 3, 4))
    value, vector = np.linalg.eigh(cov)
    root = vector * np.sqrt(np.maximum(value, 0.0))[:, None, :]
    return TransferForecast(weight[relevant] / weight[relevant].sum(), mean, root, sd, shift, float(gain))


def _conditioned(
    y: np.ndarray, expected: np.ndarray, cov: np.ndarray, var: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Log density of rows, and mean and covariance of the underlying reward at those to come."""
    from scipy.linalg import solve_triangular

    n = len(y)
    lower = np.linalg.cholesky(cov[:n, :n] + np.diag(var[:n]))
    half = solve_triangular(lower, y - expected[:n], lower=True)
    across = solve_triangular(lower, cov[:n, n:], lower=True)
    score = -0.5 * float(half @ half) - float(np.sum(np.log(np.diag(lower))))
    return score, expected[n:] + across.T @ half, cov[n:, n:] - across.T @ across


def _reaches(curve: SmoothCurve, step: np.ndarray) -> bool:
    """True where a reference run covers most of the rows and goes on after the last."""
    there, _ = curve.observed
    return len(there) > 1 and there[-1] > step[-1] and there[0] <= step[int(len(step) * (1.0 - _OVERLAP))]


def _continued(curves: np.ndarray, n: int) -> np.ndarray | None:
    """Curves of reference runs that ended go on as the others did on average; None where none goes beyond row n."""
    if not np.isfinite(curves[:, n:]).any():
        return None
    out = curves.copy()
    for t in range(n, out.shape[1]):
        missing = np.isnan(curves[:, t])
        if missing.any():
            moved = 0.0 if missing.all() else float(np.mean(out[~missing, t] - out[~missing, t - 1]))
            out[missing, t] = out[missing, t - 1] + moved
    return out
