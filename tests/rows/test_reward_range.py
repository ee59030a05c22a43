"""One home for the range of a reward: stated, or guessed where all rows lie in [0, 1]."""

import math

import numpy as np
import pytest

from bayes_grpo.rows.reward_range import RewardRange, both_ends, reward_range
from tests.helpers.paths import paths_of
from tests.helpers.runs import make_run, steps

SHARES, POINTS = np.array([0.0, 0.3, 0.7]), np.array([0.2, 5.0, 9.0])


def settings(**stated):
    return dict(make_run(steps(3), SHARES, **stated).settings.items())


@pytest.mark.parametrize(
    ("values", "stated", "low", "high", "message"),
    [
        (SHARES, {}, 0.0, 1.0, "reward_low, reward_high"),
        (POINTS, {}, -math.inf, math.inf, ""),
        (SHARES, {"reward_low": -1.0, "reward_high": 2.0}, -1.0, 2.0, ""),
        (POINTS, {"reward_low": 0.0, "reward_high": 10.0}, 0.0, 10.0, ""),
        (SHARES, {"reward_high": 3.0}, 0.0, 3.0, "0 is taken for the lowest"),
        (SHARES, {"reward_low": -1.0}, -1.0, 1.0, "1 is taken for the highest"),
        (SHARES, {"reward_low": 1.0}, -math.inf, math.inf, ""),
        (POINTS, {"reward_high": 10.0}, -math.inf, math.inf, ""),
        (np.array([]), {}, -math.inf, math.inf, ""),
    ],
)
def test_levels_need_both_ends(values, stated, low, high, message):
    found = both_ends(values, settings(**stated))
    assert (found.low, found.high) == (low, high)
    assert message in found.assumed
    assert bool(message) == bool(found.assumed)


def test_a_forecast_takes_one_end_alone():
    assert reward_range(SHARES, settings(reward_high=3.0)) == RewardRange(high=3.0)
    assert reward_range(SHARES, settings(reward_low=-1.0)) == RewardRange(low=-1.0)


def test_the_diagnosis_honours_either_end():
    seen = paths_of(make_run(steps(40), np.linspace(0.1, 0.9, 40), reward_high=3.0))
    assert (seen.ends.low, seen.ends.high) == (0.0, 3.0)
    assert "reward_low" in seen.ends.assumed
    assert not paths_of(make_run(steps(40), np.linspace(0.1, 9.0, 40), reward_high=10.0)).ends.bounded
