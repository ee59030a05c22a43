"""The reduced model of the laboratory: coefficients in closed form, and the regime against the free oscillator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from bayes_grpo.dynamics import kalman, thresholds
from bayes_grpo.regimes.built_in.oscillator import Oscillator
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.lab import reduction
from benchmarks.lab.reduction import REDUCTION, oscillator_coefficients
from tests.helpers.runs import make_run

pytestmark = pytest.mark.thorough
LEVELS = {"fixed_point": (0.6, 0.5), "initial_reward": (0.2, 0.4)}


def noisy(n=40, **settings):
    rng = np.random.default_rng(1)
    step = np.arange(1.0, n + 1)
    return make_run(step, 0.2 + 0.4 * (1 - np.exp(-step / 9)) + 0.03 * rng.standard_normal(n), **settings)


def test_continuum_mass_puts_the_onset_where_the_discrete_map_has_it():
    mu = 0.9
    m = reduction.oscillator_coefficients(1.0, 1e-3, mu).mass
    # c² = 4 m k with c = 1 − μ.
    assert (1 - mu) ** 2 / (4 * m) == pytest.approx(2.632e-3, rel=1e-3)
    assert float(thresholds.onset_of_oscillation(mu)) == pytest.approx(2.633e-3, rel=2e-4)


def test_coefficients_in_closed_form_and_the_ema_convention():
    m, c, k = reduction.oscillator_coefficients(0.1, 0.5, 0.8, lag=2.0)
    assert (m, c, k) == pytest.approx((0.9 + 0.1, 0.2 - 0.1, 0.05))
    ema = reduction.oscillator_coefficients(0.1, 0.5, 0.8, lag=2.0, convention="ema")
    assert ema == pytest.approx((0.9 + 0.02, 0.2 - 0.02, 0.01))
    # c > 0 under EMA reads η K K_ref < 1, whatever β.
    edge = reduction.oscillator_coefficients(0.25, 1.0, 0.63, lag=4.0, convention="ema")
    assert edge.damping == pytest.approx(0.0, abs=1e-12)


def test_mean_lag_of_each_model():
    assert [reduction.mean_lag(5, model) for model in ("rule", "delay", "hold")] == [5.0, 5.0, 2.0]


def test_stationary_variance_of_theory_and_lyapunov():
    assert reduction.stationary_variance(1.0, 0.02, 0.9) == pytest.approx(250.0)
    assert reduction.stationary_variance(1.0, 0.02, 0.9, exact=True) == pytest.approx(251.3, abs=0.05)
    companion = np.array([[1 + 0.7 - 0.3, -0.7], [1.0, 0.0]])
    covariance = solve_discrete_lyapunov(companion, np.diag([2.0, 0.0]))
    found = reduction.stationary_variance(2.0, 0.3, 0.7, exact=True)
    assert found == pytest.approx(covariance[0, 0], rel=1e-9)


def test_stationary_variance_diverges_at_the_threshold():
    threshold = float(thresholds.published_threshold(0.9, 4))
    near, at = reduction.stationary_variance(1.0, np.array([0.999, 1.0]) * threshold, 0.9, lag=4.0)
    assert near > 100 * reduction.stationary_variance(1.0, 0.5 * threshold, 0.9, lag=4.0)
    assert np.isinf(at)


@pytest.mark.parametrize(("momentum", "refresh", "exposure"), [(0.9, 1, 0.3), (0.5, 8, 0.9), (0.0, 4, 0.5)])
def test_equals_the_free_law_with_the_same_coefficients(momentum, refresh, exposure):
    table = rows_of(noisy(momentum=momentum, refresh_interval=refresh))
    learning_time = 20.0
    found = oscillator_coefficients(1.0, (1 - momentum) / learning_time, momentum, exposure * (refresh - 1) / 2)
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
        one = float(kalman.log_likelihood(REDUCTION.state_space(tied, LEVELS, rows), y))
        other = float(kalman.log_likelihood(Oscillator().state_space(free, LEVELS, rows), y))
    assert one == pytest.approx(other, rel=1e-9)


def test_lag_is_the_mean_age_under_a_held_policy():
    draws = {"learning_time": np.array([20.0, 40.0]), "lag_exposure": np.array([0.5, 1.0])}
    for refresh, lag in ((1, np.zeros(2)), (4, np.array([0.75, 1.5]))):
        table = rows_of(noisy(momentum=0.9, refresh_interval=refresh))
        expected = 0.1 - 0.1 / draws["learning_time"] * lag
        np.testing.assert_allclose(REDUCTION.derived(draws, table)["damping"], expected)
