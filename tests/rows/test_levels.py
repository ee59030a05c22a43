"""First, last and best level of a reward."""

import numpy as np
import pytest

from bayes_grpo.rows.levels import reward_levels


def test_levels_are_means_of_a_tenth_of_the_rows():
    step = np.arange(1.0, 101.0)
    reward = np.interp(step, [1.0, 50.0, 100.0], [0.0, 0.98, 0.5])
    reward[20] = np.nan
    found = reward_levels(step, reward)
    assert found.first == pytest.approx(reward[:10].mean())
    assert found.last == pytest.approx(reward[-10:].mean())
    assert found.last < found.best < reward[49]
    assert 50.0 <= found.best_step <= 60.0


def test_few_rows_are_one_mean_and_none_are_no_number():
    assert reward_levels(np.array([1.0, 2.0]), np.array([0.2, 0.4])) == pytest.approx((0.3, 0.3, 0.3, 2.0))
    assert np.isnan(reward_levels(np.empty(0), np.empty(0))).all()
