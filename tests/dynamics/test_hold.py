"""The composed hold map against stepping by hand and against the spectral radius of the calculator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.common.errors import FitError
from bayes_grpo.dynamics.hold import hold_rows
from bayes_grpo.dynamics.thresholds import hold_growth, spectral_radius
from bayes_grpo.regimes.built_in.hold import Hold
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.runs import make_run
from tests.helpers.selection import few


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def stepped(gain, exposure, first, steps, window, momentum, refresh):
    """One row by hand: the state and the row's mean as linear maps of the initial state and each step's noise."""
    n = int(steps.sum()) if np.ndim(steps) else int(steps)
    columns = 3 + n
    x, change, h = np.eye(3, columns)
    mean = np.zeros(columns)
    for j in range(n):
        if (first + j) % refresh == 0:
            h = x
        if j >= n - window:
            mean = mean + h / window
        noise = np.eye(1, columns, 3 + j)[0]
        change = momentum * change - gain * ((1 - exposure) * x + exposure * h) + noise
        x = x + change
    return np.stack([x, change, h]), x if window == 0 else mean


@pytest.mark.parametrize("exposure", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("momentum", "refresh"), few([(0.0, 1), (0.9, 1), (0.5, 4), (0.9, 7)], (0.0, 1), (0.9, 7)))
def test_composed_rows_equal_steps_by_hand(momentum, refresh, exposure):
    first = np.array([0.0, 1.0, 3.0, 8.0, 11.0, 20.0])
    steps = np.array([1.0, 2.0, 5.0, 3.0, 9.0, 1.0])
    window = np.array([1.0, 2.0, 5.0, 1.0, 4.0, 0.0])
    gain = np.array([0.1, 0.3, 0.05, 0.2, 0.1, 0.7])
    row = hold_rows(*map(jnp.asarray, (gain, exposure, first, steps, window, momentum, float(refresh))))
    for i in range(len(gain)):
        state, mean = stepped(gain[i], exposure, first[i], steps[i], window[i], momentum, refresh)
        np.testing.assert_allclose([[v[i] for v in r] for r in row.transition], state[:, :3], atol=1e-13)
        np.testing.assert_allclose(
            [[v[i] for v in r] for r in row.noise_cov], state[:, 3:] @ state[:, 3:].T, atol=1e-13
        )
        np.testing.assert_allclose([v[i] for v in row.observation], mean[:3], atol=1e-13)
        np.testing.assert_allclose([v[i] for v in row.cross_cov], state[:, 3:] @ mean[3:], atol=1e-13)
        np.testing.assert_allclose(row.observation_var[i], mean[3:] @ mean[3:], atol=1e-13)


@pytest.mark.thorough
def test_derivatives_equal_finite_differences():
    data = (jnp.array([0.0, 3.0]), jnp.array([4.0, 9.0]), jnp.array([2.0, 9.0]), jnp.asarray(0.7), jnp.asarray(3.0))

    def total(p):
        row = hold_rows(jnp.stack([p[0], 2 * p[0]]), p[1], *data)
        return sum((jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(row)), start=jnp.zeros(()))

    at, h = jnp.array([0.15, 0.4]), 1e-6
    numeric = jnp.stack([(total(at + h * e) - total(at - h * e)) / (2 * h) for e in jnp.eye(2)])
    np.testing.assert_allclose(jax.grad(total)(at), numeric, rtol=1e-7)


@pytest.mark.parametrize(("momentum", "refresh"), [(0.0, 1), (0.5, 4), (0.9, 8)])
def test_growth_of_many_draws_is_the_spectral_radius_of_each(momentum, refresh):
    gain, exposure = np.array([[0.02, 0.3]]), np.array([[1.0, 0.5]])
    expected = [spectral_radius(g, momentum, refresh, "hold", e) for g, e in zip(gain[0], exposure[0], strict=True)]
    np.testing.assert_allclose(hold_growth(gain, momentum, refresh, exposure)[0], expected, rtol=1e-9)


def test_broken_steps_are_refused():
    table = rows_of(make_run(np.arange(10) + 0.5, np.arange(10) % 3, refresh_interval=2))
    with pytest.raises(FitError, match="whole numbers"):
        Hold().check(table)
