"""The curvature that stability takes from a fit."""

import numpy as np
import pytest

from bayes_grpo import fit
from bayes_grpo.common.errors import SettingError
from bayes_grpo.planning.curvature import curvature_of
from tests.helpers.runs import make_run


def noisy(n=40, **settings):
    rng = np.random.default_rng(1)
    step = np.arange(1.0, n + 1)
    return make_run(step, 0.2 + 0.4 * (1 - np.exp(-step / 9)) + 0.03 * rng.standard_normal(n), **settings)


def test_curvature_of_a_fit():
    rate = 2e-3
    run = noisy(
        momentum=0.5,
        momentum_convention="heavy_ball",
        refresh_interval=1,
        schedule="constant",
        signals={"learning_rate": np.full(40, rate)},
    )
    fitted = fit(run, "exponential", seed=0)
    found = curvature_of(fitted)
    # e-fold time 9 steps: g = (1 - μ)/9, K = g/η.
    low, high = np.quantile(found.draws, [0.02, 0.98])
    assert low < 0.5 / 9 / rate < high
    assert found.source == "low_lag_run"
    np.testing.assert_allclose(curvature_of(fitted, learning_rate=2 * rate).draws, found.draws / 2)


def test_curvature_without_a_learning_rate_is_refused():
    fitted = fit(noisy(momentum=0.5, refresh_interval=4), "exponential", seed=0)
    with pytest.raises(SettingError, match="--fit-learning-rate"):
        curvature_of(fitted)
    assert curvature_of(fitted, learning_rate=1e-3).source == "same_run"
