"""Smoothed importance weights against ArviZ's."""

from typing import Any

import numpy as np
import pytest
from arviz_stats.base.array import array_stats as typed

from bayes_grpo.common.pareto import smoothed_weights

array_stats: Any = typed  # its methods are typed for every shape of answer


@pytest.mark.parametrize("efficiency", [1.0, 0.4])
def test_many_rows_are_smoothed_at_once_as_arviz_smooths_each(efficiency):
    rng = np.random.default_rng(5)
    log_weight = np.array([0.1, 0.5, 1.5])[:, None] * rng.standard_exponential((3, 1200))
    weight, shape = smoothed_weights(log_weight, efficiency)
    theirs, their_shape = array_stats.psislw(-log_weight, r_eff=efficiency, axis=-1)
    np.testing.assert_allclose(weight, np.exp(theirs), rtol=1e-9)
    np.testing.assert_allclose(shape, their_shape, rtol=1e-9)


def test_a_tail_that_is_none_is_left_as_it_is():
    log_weight = np.stack([np.zeros(400), np.random.default_rng(6).standard_normal(400)])
    weight, shape = smoothed_weights(log_weight, 1.0)
    np.testing.assert_allclose(weight[0], 1 / 400)
    assert np.isnan(shape[0])
    assert np.isfinite(shape[1])
