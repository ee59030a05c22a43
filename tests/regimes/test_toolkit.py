"""What a user of NumPyro and ArviZ does with a regime, by public names alone."""

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayes_grpo as bg
from bayes_grpo.regimes import (
    FLUCTUATION,
    LEVELS,
    POSITIVE,
    Parameter,
    Prior,
    TrendRegime,
    fluctuation_rows,
    row_times,
    trend_space,
    window_mean,
)
from tests.helpers.runs import rising_run

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


class Gompertz(TrendRegime):
    """s(t) of exp(−b e^(−t/τ)), by public names."""

    name = "gompertz"
    title = "Gompertz curve"

    @property
    def parameters(self):
        time = Parameter("time", "step", "τ", POSITIVE, lambda t: Prior(t.length / 5.0, 0.8))
        return (time, *FLUCTUATION, *LEVELS)

    def state_space(self, values, linear, rows):
        at = jnp.exp(-3.0 * jnp.exp(-row_times(rows, weighted=False).nodes / values["time"]))
        first = jnp.exp(-3.0)
        return trend_space(window_mean(1.0 - at) / (1.0 - first), fluctuation_rows(values, rows), values, linear, rows)


def test_a_regime_of_ones_own_is_fitted_and_scored():
    found = bg.fit(rising_run(), Gompertz(), seed=1)
    other = bg.fit(rising_run(), "exponential", seed=1)
    table = az.compare({"gompertz": found.to_datatree(), "exponential": other.to_datatree()})
    assert set(table.index) == {"gompertz", "exponential"}


def test_crps_of_a_forecast_s_paths():
    run = rising_run(60)
    draws = np.sort(bg.forecast(run.until(40), until=60, seed=0).rows, axis=0)
    y, n = run.reward[40:], len(draws)
    weight = (2 * np.arange(1, n + 1) - n - 1)[:, None] / n**2
    crps = np.abs(draws - y).mean(0) - (weight * draws).sum(0)
    assert 0 < crps.mean() < 0.2
