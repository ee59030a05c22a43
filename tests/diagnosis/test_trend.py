"""The trend of a signal: coverage, robustness, degenerate input."""

import numpy as np
import pytest

from bayes_grpo.diagnosis.trend import TREND_ROWS, total_change
from tests.helpers.trends import fit_trend, trend_or_none

CURVES = {
    "flat": lambda x: np.full_like(x, 0.4),
    "saturating": lambda x: 1.0 - np.exp(-4.0 * x),
    "rise and fall": lambda x: np.sin(3.0 * x) ** 2,
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("rows", [15, 40, 150])
def test_bands_cover_the_truth(name, rows):
    x = np.linspace(0.0, 1.0, rows)
    inside = []
    for seed in range(30):
        y = CURVES[name](x) + 0.1 * np.random.default_rng(seed).standard_normal(rows)
        trend = fit_trend(100.0 * x, y)
        low, high = np.quantile(trend.draws, [0.05, 0.95], axis=0)
        truth = CURVES[name](trend.step / 100.0)
        inside.append((low <= truth) & (truth <= high))
    assert 0.75 <= np.mean(inside) <= 0.99


def test_one_row_far_off_does_not_bend_the_course():
    x = np.arange(60.0)
    y = 0.01 * x + 0.02 * np.random.default_rng(0).standard_normal(60)
    y[30] = 5.0
    trend = fit_trend(x, y)
    assert abs(np.interp(30.0, trend.step, trend.mean) - 0.3) < 0.05


def test_change_is_known_as_well_as_a_straight_line_lets_it():
    x = np.arange(100.0)
    y = 0.02 * x + 0.5 * np.random.default_rng(3).standard_normal(100)
    change = fit_trend(x, y).change()
    # Least squares knows the change over the log to 2 sqrt(3) σ / sqrt(n) = 0.17.
    assert 0.12 < change.std() < 0.5
    assert abs(change.mean() - 1.98) < 3 * change.std()


def test_scale_and_shift_do_not_matter():
    x, y = np.arange(50.0), np.random.default_rng(0).standard_normal(50).cumsum()
    plain, moved = fit_trend(x, y), fit_trend(x, 1000.0 + 0.01 * y)
    np.testing.assert_allclose(moved.draws, 1000.0 + 0.01 * plain.draws, rtol=0, atol=1e-6)


def test_long_logs_are_averaged_and_gaps_left_out():
    x = np.arange(1000.0)
    y = np.where(x % 3 == 0, np.nan, x / 1000.0)
    trend = fit_trend(x, y)
    assert len(trend.step) == TREND_ROWS
    assert trend.logged.rows == np.isfinite(y).sum()
    np.testing.assert_allclose(trend.mean, trend.step / 1000.0, atol=0.005)


def test_no_spread_and_too_few_values():
    trend = fit_trend(np.arange(10.0), np.full(10, 0.3))
    np.testing.assert_allclose(trend.mean, 0.3, atol=1e-5)
    assert trend.noise_sd > 0
    assert trend_or_none(np.arange(5.0), np.array([np.nan, 1.0, np.nan, 2.0, np.nan])) is None


def test_draws_between_rows_and_beyond_them():
    trend = fit_trend(np.array([0.0, 10.0, 20.0]), np.array([0.0, 1.0, 2.0]))
    middle, after = trend.at(np.array([5.0, 99.0])).T
    np.testing.assert_allclose(middle, trend.draws[:, :2].mean(axis=1))
    np.testing.assert_allclose(after, trend.draws[:, -1])


SETTLES = 0.84 - 0.8 * np.exp(-np.arange(41.0)) + 0.012 * np.random.default_rng(0).standard_normal(41)
JUMPS = np.where(np.arange(52) < 10, 0.08, 0.38 + 0.007 * np.arange(1, 53)) + 0.03 * np.random.default_rng(
    1
).standard_normal(52)
WILD = np.where(np.arange(60) == 20, 0.0, 0.5 + 0.02 * np.random.default_rng(2).standard_normal(60))


@pytest.mark.parametrize(
    ("value", "change", "width"),
    [(SETTLES, 0.8, 0.1), (JUMPS, 0.67, 1.0), (WILD, 0.0, 0.1)],
    ids=["a start that settles in a few rows", "a jump", "one wild row is no rise"],
)
def test_the_change_counts_starts_and_jumps_in_full_and_no_wild_row(value, change, width):
    """First rows that are few and far off were taken for wild ones: a tenth of a rise of .8 remained."""
    low, high = np.quantile(total_change(fit_trend(np.arange(float(len(value))), value)), [0.05, 0.95])
    assert low < change < high
    assert high - low < width


def test_a_change_since_a_step_counts_a_jump_right_after_it_in_full():
    x = np.arange(1.0, 53.0)
    y = np.select([x <= 10, x <= 20], [0.08, 0.5], 0.77) + 0.03 * np.random.default_rng(2).standard_normal(52)
    change = fit_trend(x, y).change_since(10.0, 50.0)
    assert np.mean(change) == pytest.approx(0.69, abs=0.05)
    assert np.std(change) < 0.06
