"""The tied law against the free one, and the curvature that stability takes from a fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo import fit
from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics import kalman
from bayes_grpo.dynamics.reduction import oscillator_coefficients
from bayes_grpo.planning.plan import plan, stiffness_of_fit
from bayes_grpo.regimes.built_in.oscillator import Oscillator
from bayes_grpo.regimes.built_in.reduction import Reduction
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.runs import make_run
from tests.helpers.selection import few

LEVELS = {"fixed_point": (0.6, 0.5), "initial_reward": (0.2, 0.4)}


def noisy(n=40, **settings):
    rng = np.random.default_rng(1)
    step = np.arange(1.0, n + 1)
    return make_run(step, 0.2 + 0.4 * (1 - np.exp(-step / 9)) + 0.03 * rng.standard_normal(n), **settings)


@pytest.mark.parametrize(
    ("momentum", "refresh", "exposure"), few([(0.9, 1, 0.3), (0.5, 8, 0.9), (0.0, 4, 0.5)], (0.5, 8, 0.9))
)
def test_equals_the_free_law_with_the_same_coefficients(momentum, refresh, exposure):
    table = rows_of(noisy(momentum=momentum, refresh_interval=refresh))
    learning_time = 20.0
    found = oscillator_coefficients((1 - momentum) / learning_time, momentum, exposure * (refresh - 1) / 2)
    omega = np.sqrt(found.stiffness / found.mass)
    zeta = found.damping / (2 * np.sqrt(found.stiffness * found.mass))
    noises = {"observation_sd": jnp.asarray(0.03), "fluctuation_sd": jnp.asarray(0.02)}
    with jax.enable_x64(True):
        rows = padded(table)
        tied = {"learning_time": jnp.asarray(learning_time), "lag_exposure": jnp.asarray(exposure), **noises}
        free = {
            "response_time": jnp.asarray(np.sqrt(1 + 4 * zeta**2) / omega),
            "damping_ratio": jnp.asarray(zeta),
            **noises,
        }
        y = jnp.asarray(rows.y)
        one = float(kalman.log_likelihood(Reduction().state_space(tied, LEVELS, rows), y))
        other = float(kalman.log_likelihood(Oscillator().state_space(free, LEVELS, rows), y))
    assert one == pytest.approx(other, rel=1e-9)


def test_lag_is_the_mean_age_under_a_held_policy():
    draws = {"learning_time": np.array([20.0, 40.0]), "lag_exposure": np.array([0.5, 1.0])}
    for refresh, lag in ((1, np.zeros(2)), (4, np.array([0.75, 1.5]))):
        table = rows_of(noisy(momentum=0.9, refresh_interval=refresh))
        expected = 0.1 - 0.1 / draws["learning_time"] * lag
        np.testing.assert_allclose(Reduction().derived(draws, table)["damping"], expected)


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
    found, draws = stiffness_of_fit(fitted, rate)
    # e-fold time 9 steps: g = (1 - μ)/9, K = g/η.
    low, high = np.quantile(draws, [0.02, 0.98])
    assert low < 0.5 / 9 / rate < high
    assert found.source == "low_lag_run"
    np.testing.assert_allclose(stiffness_of_fit(fitted, learning_rate=2 * rate)[1], draws / 2)


def test_curvature_without_a_learning_rate_is_refused():
    fitted = fit(noisy(momentum=0.5, refresh_interval=4), "exponential", seed=0)
    with pytest.raises(SettingError, match=r"settings=\{.learning_rate"):
        plan(fitted, learning_rate=1e-3)
    assert stiffness_of_fit(fitted, learning_rate=1e-3)[0].source == "lagged_run"
