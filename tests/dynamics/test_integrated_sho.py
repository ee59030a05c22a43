"""Window means of the oscillator against another package's, long after the start, where it has forgotten that."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import smolgp
from smolgp.kernels.integrated import IntegratedSHO

from bayes_grpo.dynamics import kalman
from tests.dynamics.test_likelihood import oscillator_space, rows_with

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("double_precision")]
OMEGA, NOISE, FLUCTUATION = 0.05, 0.05, 0.03
FIXED = 0.6
BEFORE = 10_000.0
"""Steps from the start to the first row: many times the slowest decay."""


@pytest.mark.parametrize("zeta", [0.2, 0.7, 2.0])
def test_density_is_that_of_an_integrated_stochastic_oscillator(zeta):
    rng = np.random.default_rng(3)
    window = rng.choice([1.0, 2.0, 5.0], 30)
    step = np.cumsum(window + rng.choice([0.0, 1.0, 3.0], 30))
    y = FIXED + 0.08 * rng.standard_normal(30)
    rows = rows_with(y, step, window, np.ones(30), np.ones(30), start=-BEFORE)
    stretch = np.sqrt(1.0 + 4.0 * zeta**2)
    levels = {"fixed_point": (FIXED, 1e-8), "initial_reward": (0.2, 0.4)}
    space = oscillator_space(stretch / OMEGA, zeta, NOISE, FLUCTUATION, rows, levels)
    found = kalman.log_likelihood(space, jnp.asarray(rows.y))

    stationary_sd = FLUCTUATION * np.sqrt(stretch / (2.0 * zeta))
    kernel = IntegratedSHO(omega=OMEGA, quality=0.5 / zeta, sigma=stationary_sd)
    place: Any = (jnp.asarray(step - 0.5 * window), jnp.asarray(window), jnp.zeros(30, int))
    process = smolgp.GaussianProcess(kernel, place, noise=jnp.full(30, NOISE**2))
    assert float(found) == pytest.approx(float(process.log_probability(jnp.asarray(y - FIXED))), rel=1e-8)
