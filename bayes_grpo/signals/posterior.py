r"""Posterior of a latent path of noisy rows, in closed form on a grid.

    y_i = m(t_i) + e_i,    e_i ~ N(0, σ² / w_i)
    m(t) = a + b t + s W(t) + J 1[t ≥ t_J] + B t,    e_O wide for one row O

W is a random walk, J one possible jump, O one possible row that is an outlier, B a trend far steeper than b; at most
one of these three occurs, and the places of the first two are unknown. σ and s lie on a grid with a log-normal prior.
Given these, everything is Gaussian: the covariance of the rows is that of noise and walk, which one eigendecomposition
makes diagonal for every σ and s, plus columns for a, b and the event (Woodbury's identity). The weights of all cells
(σ, s, event) are exact; draws take a cell and then a path by conditioning a draw of the prior (Matheron's rule).
No number of rows is required: few rows leave the posterior wide. The steep trend is for logs of few rows
with many steps in each, whose whole rise lies between neighboring rows.

The prior is that of public logs, the mean and the spread over their authors of the logarithms of noise and of movement
per row. See Durbin and Koopman, Time Series Analysis by State Space Methods (2012), chapters 2 and 4.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from bayes_grpo.rows.series import ExpectedNoise

PATH_DRAWS = 300
"""Draws of a path."""
_NORMAL_POINTS = np.linspace(-2.5, 2.5, 9)
"""Points of the grid, in standard deviations of the prior of log noise and log movement."""
_SPACING = _NORMAL_POINTS[1] - _NORMAL_POINTS[0]
_LEVEL_VARIANCE = 9.0
_MIDDLE = np.array([[1.0, 0.5], [0.0, 1.0]])
"""Level in the middle and slope, for which there is a prior, of the level at the first row and the rise since."""
_LEAST_NOISE = 1e-3


RANGE_NOISE = (0.10, 0.50, 0.15)
"""First, by rows, by gap: log of a row's standard deviation over the range of n first rows with g steps between them.

Its mean is first − by_rows log n − by_gap log g, over 21 repositories, for 3 to 40 rows and steps between them from 1
to 200 (`benchmarks/calibration/few_rows.py`).
"""
_OUTLIER_VARIANCE = 4.0
"""Relative to the variance of a jump."""


class PathPrior(NamedTuple):
    """Prior of a path, on the scale on which it is fitted.

    Attributes:
        log_noise: Mean of the logarithm of the standard deviation of a row.
        log_noise_sd: Its standard deviation, over authors.
        log_movement: Mean of the logarithm of the standard deviation of the walk per row.
        log_movement_sd: Its standard deviation.
        at_rest: Probability of no movement at all.
        slope: Standard deviation of the slope per row.
        jump: Probability of a jump.
        jump_sd: Standard deviation of its size.
        outlier: Probability of one row far off.
        trend: Probability of a steep trend over all rows.
        trend_sd: Standard deviation of its size, from the first row to the last.
    """

    log_noise: float = -2.6
    log_noise_sd: float = 1.1
    log_movement: float = -4.8
    log_movement_sd: float = 1.2
    at_rest: float = 0.18
    slope: float = 0.005
    jump: float = 0.15
    jump_sd: float = 0.5
    outlier: float = 0.1
    trend: float = 0.05
    trend_sd: float = 0.7

    def scaled_to_range(self, rows: int, gap: float) -> PathPrior:
        """The prior of a signal in units of the range of its own rows, which few rows have not yet spanned.

        Args:
            rows: Number of logged rows.
            gap: Steps between two rows.
        """
        first, by_rows, by_gap = RANGE_NOISE
        expected = first - by_rows * math.log(rows) - by_gap * math.log(max(gap, 1.0))
        return self._replace(log_noise=max(self.log_noise, expected))

    def with_noise(self, expected: ExpectedNoise, unit: float) -> PathPrior:
        """The prior where a row's standard deviation is expected beforehand.

        Args:
            expected: The expected one, in the unit of the signal.
            unit: Standard deviation, in that unit, of what has one of 1 on the scale of the fit.
        """
        log_noise = float(np.log(max(expected.sd / unit, _LEAST_NOISE)))
        if expected.at_least:
            log_noise = max(log_noise, self.log_noise)
        # As unsure as ever: a long log that scatters otherwise than its batch says shows it.
        return self._replace(log_noise=log_noise)


class PathDraws(NamedTuple):
    """Draws of a path, shape (draws, n), and the posterior mean of the standard deviation of a row."""

    path: np.ndarray
    noise: float


class _Rotated(NamedTuple):
    """The rows in coordinates in which noise and walk are both independent.

    Attributes:
        spread: Variance of the walk per coordinate, for unit movement, shape (n,).
        back: Matrix from coordinates to weighted rows, shape (n, n).
        root: Square roots of the rows' weights, shape (n,).
        rows: The rows less their mean, shape (n,).
        line: Columns of the level at the first row and of the rise since, shape (n, 2). The walk begins at the first
            row, so that noise alone tells one coordinate; a slope about the middle would share it with the level, and
            in long logs the difference of the two would be rounding.
        events: Columns of a jump before rows 1 to n - 1, then of an outlier in rows 0 to n - 1, then a trend,
            shape (n, 2n).
    """

    spread: np.ndarray
    back: np.ndarray
    root: np.ndarray
    rows: np.ndarray
    line: np.ndarray
    events: np.ndarray


class _Cells(NamedTuple):
    """Posterior of the discrete part.

    Standard deviations of a row and of the walk per row in each cell of the grid, shape (cells,), and the probability
    of each cell and event (column 0: none), shape (cells, 2n + 1).
    """

    noise: np.ndarray
    movement: np.ndarray
    weight: np.ndarray


def path_draws(
    time: np.ndarray, rows: np.ndarray, weight: np.ndarray, prior: PathPrior, seed: int, draws: int = PATH_DRAWS
) -> PathDraws:
    """Draws from the posterior of a path.

    Args:
        time: Time of the (averaged) rows, in logged rows, shape (n,), increasing from 0.
        rows: Their values, shape (n,), n at least 2.
        weight: Effective number of logged rows in each, shape (n,).
        prior: The prior, on the scale of the values.
        seed: Seed of the draws.
        draws: Number of draws.
    """
    centre = float(np.average(rows, weights=weight))
    rotated = _rotated(time, rows - centre, weight)
    line_variance = np.array([_LEVEL_VARIANCE, (prior.slope * time[-1]) ** 2 + 1e-12])
    of_jump = prior.jump_sd**2
    jumps = np.full(len(rows) - 1, of_jump)
    outliers = np.full(len(rows), _OUTLIER_VARIANCE * of_jump)
    event_variance = np.concatenate([jumps, outliers, [prior.trend_sd**2]])
    cells = _cells(rotated, prior, line_variance, event_variance)
    path = _draw(rotated, cells, line_variance, event_variance, np.random.default_rng(seed), draws)
    noise_share = cells.weight.sum(axis=1)
    return PathDraws(path + centre, float(np.sqrt(noise_share @ cells.noise**2)))


def _rotated(time: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> _Rotated:
    n = len(rows)
    root = np.sqrt(weight)
    walk = np.minimum.outer(time, time) * np.outer(root, root)
    spread, back = np.linalg.eigh(walk)
    line = np.stack([np.ones(n), time / time[-1]], axis=1)
    jumps = np.tril(np.ones((n, n)))[:, 1:]
    events = np.concatenate([jumps, np.eye(n), line[:, 1:] - 0.5], axis=1)
    return _Rotated(
        spread=np.maximum(spread, 0.0),
        back=back,
        root=root,
        rows=back.T @ (root * rows),
        line=back.T @ (root[:, None] * line),
        events=back.T @ (root[:, None] * events),
    )


def _line_precision(line_variance: np.ndarray) -> np.ndarray:
    """Prior precision of the columns of the line, of the variances of level and slope in the middle, shape (2, 2)."""
    return _MIDDLE.T @ np.diag(1.0 / line_variance) @ _MIDDLE


def _cells(r: _Rotated, prior: PathPrior, line_variance: np.ndarray, event_variance: np.ndarray) -> _Cells:
    """Weights of noise, movement and event, each by its exact marginal likelihood."""
    points = len(_NORMAL_POINTS)
    noise_point = np.repeat(_NORMAL_POINTS, points + 1)
    movement_point = np.tile(np.concatenate([[-np.inf], _NORMAL_POINTS]), points)
    still = np.isinf(movement_point)
    noise = np.exp(prior.log_noise + prior.log_noise_sd * noise_point)
    movement = np.exp(prior.log_movement + prior.log_movement_sd * movement_point)
    share = (1.0 - prior.at_rest) * _SPACING / np.sqrt(2.0 * np.pi)
    moves = np.log(share) - 0.5 * np.where(still, 0.0, movement_point) ** 2
    log_prior = -0.5 * noise_point**2 + np.where(still, np.log(prior.at_rest), moves)

    variance = noise[:, None] ** 2 + movement[:, None] ** 2 * r.spread
    precision = 1.0 / variance
    weighted_line = precision[:, None, :] * r.line.T
    information = weighted_line @ r.line + _line_precision(line_variance)
    covariance = np.linalg.inv(information)
    line_rows = weighted_line @ r.rows
    fitted_line = (covariance @ line_rows[:, :, None])[:, :, 0]
    squares = precision @ r.rows**2 - np.sum(line_rows * fitted_line, axis=1)
    log_determinant = np.log(variance).sum(axis=1) + np.linalg.slogdet(information)[1]
    log_none = log_prior - 0.5 * (squares + log_determinant)

    line_events = weighted_line @ r.events
    explained = covariance @ line_events
    size = precision @ r.events**2 - np.sum(line_events * explained, axis=1)
    match = (precision * r.rows) @ r.events - np.sum(line_rows[:, :, None] * explained, axis=1)
    ratio = 1.0 + event_variance * size
    gain = 0.5 * event_variance * match**2 / ratio - 0.5 * np.log(ratio)

    n = len(r.rows)
    jump = np.full(n - 1, np.log(prior.jump / (n - 1)))
    outlier = np.full(n, np.log(prior.outlier / n))
    log_event = np.concatenate([jump, outlier, [np.log(prior.trend)]])
    none = np.log(1.0 - prior.jump - prior.outlier - prior.trend)
    log_weight = np.concatenate([log_none[:, None] + none, log_none[:, None] + gain + log_event], axis=1)
    weight = np.exp(log_weight - log_weight.max())
    return _Cells(noise, movement, weight / weight.sum())


def _draw(
    r: _Rotated, cells: _Cells, line_variance: np.ndarray, event_variance: np.ndarray, rng: Generator, draws: int
) -> np.ndarray:
    """Paths, shape (draws, n): cells by systematic resampling, then Matheron's rule for all draws at once."""
    n = len(r.rows)
    spot = (rng.random() + np.arange(draws)) / draws
    picked = np.minimum(np.searchsorted(np.cumsum(cells.weight), spot), cells.weight.size - 1)
    cell, event = np.divmod(rng.permutation(picked), 2 * n + 1)
    noise_variance = cells.noise[cell, None] ** 2
    walk_variance = cells.movement[cell, None] ** 2 * r.spread
    none = event == 0
    column = np.where(none[:, None], 0.0, r.events.T[np.maximum(event - 1, 0)])
    size_variance = np.where(none, 0.0, event_variance[np.maximum(event - 1, 0)])
    of_path = ((event > 0) & (event < n)) | (event == 2 * n)

    line = rng.standard_normal((draws, 2)) * np.sqrt(line_variance) @ np.linalg.inv(_MIDDLE).T
    size = rng.standard_normal(draws) * np.sqrt(size_variance)
    walk = rng.standard_normal((draws, n)) * np.sqrt(walk_variance)
    noise = rng.standard_normal((draws, n)) * np.sqrt(noise_variance)
    steady = walk + line @ r.line.T
    difference = r.rows - steady - size[:, None] * column - noise

    columns = np.concatenate([np.broadcast_to(r.line.T, (draws, 2, n)), column[:, None, :]], axis=1)
    prior_precision = np.zeros((draws, 3, 3))
    prior_precision[:, :2, :2] = _line_precision(line_variance)
    prior_precision[:, 2, 2] = 1.0 / np.where(none, 1.0, size_variance)
    precision = 1.0 / (noise_variance + walk_variance)
    weighted = columns * precision[:, None, :]
    information = weighted @ columns.transpose(0, 2, 1) + prior_precision
    right = weighted @ difference[:, :, None]
    solved = np.linalg.solve(information, right)[:, :, 0]
    answer = precision * difference - np.sum(weighted * solved[:, :, None], axis=1)

    # Of line and event the solution itself: their prior variances times `answer` would multiply its rounding.
    steady = steady + walk_variance * answer + solved[:, :2] @ r.line.T
    size = size + solved[:, 2]
    path = steady + np.where(of_path, size, 0.0)[:, None] * column
    return (path @ r.back.T) / r.root
