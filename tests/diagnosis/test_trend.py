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
    assert trend.rows == np.isfinite(y).sum()
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


def test_a_start_that_settles_in_a_few_rows_counts_in_the_change():
    """Its first rows are few and far off, and were taken for wild ones: of a rise of .8 a tenth was told."""
    step = np.arange(0.0, 205.0, 5.0)
    value = 0.84 - 0.8 * np.exp(-step / 5.0) + 0.012 * np.random.default_rng(0).standard_normal(41)
    low, high = np.quantile(total_change(fit_trend(step, value)), [0.05, 0.95])
    assert low < 0.8 < high
    assert high - low < 0.1


def test_a_jump_counts_in_the_change():
    step, rng = np.arange(1.0, 53.0), np.random.default_rng(1)
    value = np.where(step <= 10, 0.08, 0.45 + 0.007 * (step - 10)) + 0.03 * rng.standard_normal(52)
    low, high = np.quantile(total_change(fit_trend(step, value)), [0.05, 0.95])
    assert low < 0.67 < high


def test_a_change_since_a_step_counts_a_jump_right_after_it_in_full():
    x = np.arange(1.0, 53.0)
    y = np.select([x <= 10, x <= 20], [0.08, 0.5], 0.77) + 0.03 * np.random.default_rng(2).standard_normal(52)
    change = fit_trend(x, y).change_since(10.0, 50.0)
    assert np.mean(change) == pytest.approx(0.69, abs=0.05)
    assert np.std(change) < 0.06


def test_one_wild_row_is_no_rise():
    value = 0.5 + 0.02 * np.random.default_rng(2).standard_normal(60)
    value[20] = 0.0
    assert abs(total_change(fit_trend(np.arange(60.0), value)).mean()) < 0.05
