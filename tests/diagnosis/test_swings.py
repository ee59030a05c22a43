"""How far a reward swings and since when, against runs whose swings were begun by hand."""

import numpy as np
import pytest

from bayes_grpo.diagnosis.gather import gather
from bayes_grpo.diagnosis.modes.dynamical_instability import MODE as INSTABILITY
from bayes_grpo.events.swings import about_trend, wider_from
from bayes_grpo.events.trend import TREND_DRAWS
from tests.helpers.runs import make_run, steps
from tests.helpers.trends import there


def swinging(begin: int, n: int = 200, period: float = 12.0, noise: float = 0.02) -> np.ndarray:
    """Rows about 0.5 that swing from one row on."""
    rng, i = np.random.default_rng(begin), np.arange(n)
    swing = np.where(i >= begin, 0.3 * np.sin(2 * np.pi * (i - begin) / period), 0.0)
    return 0.5 + swing + noise * rng.standard_normal(n)


@pytest.mark.parametrize("begin", [20, 90, 150])
def test_swings_begin_where_they_were_begun(begin):
    found = wider_from(swinging(begin))
    assert found.shape == (TREND_DRAWS,)
    low, high = np.quantile(found, [0.05, 0.95])
    # The slow trend leans into the swings: within a period of them.
    assert begin - 12 <= low <= high <= begin + 12


def test_swings_from_the_start_have_no_calm_part():
    assert np.quantile(wider_from(swinging(0)), 0.9) <= 6


def test_where_nothing_changes_it_is_the_first_row():
    found = wider_from(np.random.default_rng(3).standard_normal(300))
    assert (found == 0).mean() > 0.95


def test_calmer_rows_at_the_end_are_no_beginning():
    assert np.quantile(wider_from(swinging(60)[::-1]), 0.9) <= 12


def test_rows_on_a_line_are_nothing():
    assert np.all(wider_from(np.full(30, 0.4)) == 0)


@pytest.mark.parametrize("begin", [40, 90])
def test_swings_speak_for_instability_from_where_they_began(begin):
    """And from no row before."""
    run = make_run(steps(200), swinging(begin, period=20.0))
    trends = there(gather(run)).trends
    assert trends.swinging > 0.5
    speaks = INSTABILITY.course(trends)[:, INSTABILITY.predictors.index("swings")]
    at = trends.reward.step
    assert speaks[at < begin - 25].max() < 0.2
    assert speaks[at > begin + 25].min() > 0.9


@pytest.mark.parametrize("jump", [3, 40, 97])
def test_a_jump_is_no_swing_and_swings_are_not_taken_for_jumps(jump):
    i = np.arange(120)
    noise = 0.02 * np.random.default_rng(jump).standard_normal(120)
    assert about_trend(np.where(i >= jump, 1.0, 0.0) + noise).std() < 0.025
    swings = 0.5 * np.sin(2 * np.pi * i / 30) + noise
    assert about_trend(swings).std() > 0.9 * swings.std()


@pytest.mark.parametrize("n", [3, 5, 8, 2000])
def test_logs_of_any_length_have_a_slow_trend(n):
    y = np.random.default_rng(n).standard_normal(n)
    away = about_trend(y)
    assert away.shape == (n,)
    assert away.std() <= y.std()
    # Least squares: what is left has no part of the cubic.
    np.testing.assert_allclose(np.vander(np.linspace(-1, 1, n), min(4, n)).T @ away, 0.0, atol=1e-8 * n)
