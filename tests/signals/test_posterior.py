"""The posterior of a path against dense Gaussian algebra that shares no code with it, and its calibration."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from bayes_grpo.signals.posterior import RANGE_NOISE, PathPrior, _cells, _rotated, path_draws
from tests.helpers.claims import kept

PRIOR = PathPrior(
    log_noise=-2.0, log_movement=-3.0, slope=0.03, jump=0.3, jump_sd=0.6, outlier=0.2, trend=0.1, trend_sd=0.9
)
Z = np.linspace(-2.5, 2.5, 9)
"""Grid of log noise and log movement in standard deviations, as the documentation of the posterior gives it."""


def dense(time, rows, weight, prior):
    """Weights of (noise, movement, event), and the exact mean and standard deviation of the mixture of paths."""
    n = len(rows)
    y = rows - np.average(rows, weights=weight)
    middle = time / time[-1] - 0.5
    line = 9.0 + (prior.slope * time[-1]) ** 2 * np.outer(middle, middle)
    movements = [(0.0, prior.at_rest)]
    density = norm.pdf(Z) * (Z[1] - Z[0])
    for z, p in zip(Z, density, strict=True):
        movements.append((np.exp(prior.log_movement + prior.log_movement_sd * z), (1.0 - prior.at_rest) * p))
    logs, means, variances = [], [], []
    for z in Z:
        noise = np.exp(prior.log_noise + prior.log_noise_sd * z) ** 2 * np.diag(1.0 / weight)
        for movement, p_movement in movements:
            steady = line + movement**2 * np.minimum.outer(time, time)
            events = [(steady, steady + noise, 1.0 - prior.jump - prior.outlier - prior.trend)]
            for i in range(1, n):
                after = (np.arange(n) >= i).astype(float)
                jumped = steady + prior.jump_sd**2 * np.outer(after, after)
                events.append((jumped, jumped + noise, prior.jump / (n - 1)))
            for i in range(n):
                off = np.diag((np.arange(n) == i) * 4.0 * prior.jump_sd**2)
                events.append((steady, steady + noise + off, prior.outlier / n))
            steep = steady + prior.trend_sd**2 * np.outer(middle, middle)
            events.append((steep, steep + noise, prior.trend))
            for path, seen, p_event in events:
                log_rows = multivariate_normal.logpdf(y, np.zeros(n), seen)
                logs.append(np.log(p_movement * p_event) - 0.5 * z**2 + log_rows)
                gain = np.linalg.solve(seen, path).T
                means.append(gain @ y)
                variances.append(np.diag(path - gain @ path))
    w = np.exp(np.array(logs) - max(logs))
    w /= w.sum()
    mean = w @ np.array(means)
    square = w @ (np.array(variances) + np.array(means) ** 2)
    return w, mean + np.average(rows, weights=weight), np.sqrt(square - mean**2)


ROWS = {
    "rise": (np.arange(8.0), 0.1 * np.arange(8.0) + 0.05 * np.cos(3.0 * np.arange(8.0)), np.ones(8)),
    "jump": (np.arange(9.0), np.repeat([0.2, 0.9], [5, 4]) + 0.03 * np.sin(5.0 * np.arange(9.0)), np.ones(9)),
    "outlier": (np.arange(7.0), np.array([0.5, 0.52, 0.49, 1.4, 0.51, 0.48, 0.5]), np.ones(7)),
    "steep": (np.arange(6.0), np.array([0.07, 0.38, 0.83, 0.98, 1.2, 1.5]), np.ones(6)),
    "irregular": (np.array([0, 1, 5, 6, 14, 30.0]), np.array([0.1, 0.3, 0.2, 0.5, 0.4, 0.8]), np.arange(1.0, 7.0)),
}


@pytest.mark.parametrize("name", ROWS)
def test_weights_and_moments_are_those_of_dense_algebra(name):
    time, rows, weight = ROWS[name]
    n = len(rows)
    expected, mean, sd = dense(time, rows, weight, PRIOR)
    line_variance = np.array([9.0, (PRIOR.slope * time[-1]) ** 2])
    event_variance = np.append(PRIOR.jump_sd**2 * np.repeat([1.0, 4.0], [n - 1, n]), PRIOR.trend_sd**2)
    rotated = _rotated(time, rows - np.average(rows, weights=weight), weight)
    found = _cells(rotated, PRIOR, line_variance, event_variance).weight
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-8)
    draws = 40_000
    path = path_draws(time, rows, weight, PRIOR, seed=3, draws=draws).path
    np.testing.assert_allclose(path.mean(axis=0), mean, atol=5.0 * sd.max() / np.sqrt(draws))
    np.testing.assert_allclose(path.std(axis=0), sd, rtol=0.05)


@pytest.mark.thorough
def test_bands_cover_paths_of_the_prior():
    """Ranks of the true level at one random row a path: 90% bands cover 90%, within three standard errors."""
    rng = np.random.default_rng(0)
    n, runs = 16, 400
    time = np.arange(float(n))
    density = norm.pdf(Z) / norm.pdf(Z).sum()
    inside = tail = 0
    for i in range(runs):
        noise = np.exp(PRIOR.log_noise + PRIOR.log_noise_sd * rng.choice(Z, p=density))
        moves = rng.random() > PRIOR.at_rest
        movement = moves * np.exp(PRIOR.log_movement + PRIOR.log_movement_sd * rng.choice(Z, p=density))
        slope = PRIOR.slope * time[-1] * rng.standard_normal() * (time / time[-1] - 0.5)
        walk = movement * np.cumsum(np.append(0.0, rng.standard_normal(n - 1)))
        path = 3.0 * rng.standard_normal() + slope + walk
        rows_off = np.zeros(n)
        event = rng.random()
        if event < PRIOR.jump:
            path = path + PRIOR.jump_sd * rng.standard_normal() * (time >= rng.integers(1, n))
        elif event < PRIOR.jump + PRIOR.outlier:
            rows_off[rng.integers(n)] = 2.0 * PRIOR.jump_sd * rng.standard_normal()
        elif event < PRIOR.jump + PRIOR.outlier + PRIOR.trend:
            path = path + PRIOR.trend_sd * rng.standard_normal() * (time / time[-1] - 0.5)
        rows = path + noise * rng.standard_normal(n) + rows_off
        at = rng.integers(n)
        draws = path_draws(time, rows, np.ones(n), PRIOR, seed=i).path[:, at]
        low, middle, high = np.quantile(draws, (0.05, 0.5, 0.95))
        inside += low <= path[at] <= high
        tail += path[at] > middle
    assert abs(inside / runs - 0.9) < 3.0 * np.sqrt(0.09 / runs)
    assert abs(tail / runs - 0.5) < 3.0 * np.sqrt(0.25 / runs)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("block", [100.0, 1_667.0, 16_667.0])
def test_long_logs_lose_nothing_to_rounding(block):
    """Up to a million rows in 60 blocks: the first one is known far better than the walk to the next."""
    place = np.arange(60.0)
    rows = 0.8 - 0.6 * np.exp(-place / 12.0) + 0.001 * np.cos(7.0 * place)
    found = path_draws(block * place, rows, np.full(60, block), PathPrior(), seed=0)
    np.testing.assert_allclose(found.path.mean(axis=0), rows, atol=0.001)
    assert found.path.std(axis=0).max() < 0.005


def test_draws_depend_on_the_seed_alone():
    time, rows, weight = ROWS["jump"]
    first, again, other = (path_draws(time, rows, weight, PRIOR, seed).path for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_noise_is_found_where_there_are_rows_enough():
    rng = np.random.default_rng(4)
    rows = 0.5 + 0.08 * rng.standard_normal(60)
    assert path_draws(np.arange(60.0), rows, np.ones(60), PathPrior(), seed=0).noise == pytest.approx(0.08, rel=0.2)


def test_few_rows_have_the_noise_that_was_measured():
    learned = kept("few_rows")
    # The paths that were measured have this prior too, which moves the second digit.
    assert pytest.approx((learned["first"], learned["by_rows"], learned["by_gap"]), abs=0.01) == RANGE_NOISE
    assert PathPrior().scaled_to_range(3, 1.0).log_noise == pytest.approx(0.10 - 0.50 * np.log(3.0))
    assert PathPrior().scaled_to_range(3, 100.0).log_noise < PathPrior().scaled_to_range(3, 10.0).log_noise
    assert PathPrior().scaled_to_range(10_000, 1.0) == PathPrior()
