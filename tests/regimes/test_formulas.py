"""The likelihood written again from the formulas of docs/model.md alone, with SciPy."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from bayes_grpo import get_regime, rows_of
from bayes_grpo.fitting.sampling.target import target_of, values_of_draws
from tests.helpers.reference import exponential_moments, oscillator_moments, rows_moments, stretches
from tests.helpers.runs import make_run
from tests.helpers.selection import few

NOISES = {"observation_sd": 0.05, "fluctuation_sd": 0.04}
LEVELS = {"fixed_point": 0.8, "initial_reward": 0.2}


@pytest.fixture(scope="module", params=few(["mixed", "plain", "instant"], "mixed"))
def table(request):
    """Twelve rows: with gaps, windows, unequal weights and a falling rate; of one window; or instantaneous."""
    rng = np.random.default_rng(0)
    window = np.array([2.0, 1, 0, 3, 1, 1, 2, 4, 1, 1, 2, 1])
    if request.param != "mixed":
        window = np.full(12, float(request.param == "plain"))
    step = np.cumsum(window + (request.param != "plain") * rng.integers(1, 3, 12))
    table = rows_of(make_run(step, 0.2 + 0.6 * (1 - np.exp(-step / 12)) + 0.05 * rng.standard_normal(12)))
    if request.param != "mixed":
        return replace(table, window=window)
    return replace(table, window=window, rate=np.linspace(1.0, 0.2, 12), weight=rng.uniform(0.5, 2.0, 12))


def density(table, mean, cov):
    """Log density of rows with these moments, measured with noise."""
    observed: Any = cov + np.diag(NOISES["observation_sd"] ** 2 / table.precision)
    return multivariate_normal.logpdf(table.y, mean, observed)


def ours(name, values, table):
    density = jax.jit(lambda given: get_regime(name).distribution(given | NOISES | LEVELS, table).log_prob(table.y))
    with jax.enable_x64(True):
        return float(density(values))


KNOWN = (LEVELS["fixed_point"], 0.0), (LEVELS["initial_reward"], 0.0)


@pytest.mark.parametrize("zeta", few([-0.05, 0.3, 1.0, 4.0], -0.05, 1.0))
def test_oscillator(zeta, table):
    omega = np.sqrt(1 + 4 * zeta**2) / 7.0
    expected = density(table, *oscillator_moments(zeta, omega, NOISES["fluctuation_sd"], stretches(table), *KNOWN))
    assert ours("oscillator", {"response_time": 7.0, "damping_ratio": zeta}, table) == pytest.approx(expected, rel=1e-8)


def test_exponential(table):
    expected = density(table, *exponential_moments(9.0, NOISES["fluctuation_sd"], stretches(table), *KNOWN))
    assert ours("exponential", {"relaxation_time": 9.0}, table) == pytest.approx(expected, rel=1e-8)


def test_sigmoid(table):
    middle, exponent, time = 8.0, 1.7, 3.0
    table = replace(
        table, start=float(table.step[0] - table.window[0])
    )  # f is stationary where the first window starts
    nodes, weights = np.polynomial.legendre.leggauss(3)

    def left(step):
        return np.where(step > 0, 1 / (1 + (np.maximum(step, 1e-300) / middle) ** exponent), 1.0)

    places = table.step - table.window * (1 - 0.5 * (1 + nodes[:, None]))
    share = (0.5 * weights @ left(places)) / left(np.array(table.start))
    variance = NOISES["fluctuation_sd"] ** 2
    curve = LEVELS["fixed_point"] + (LEVELS["initial_reward"] - LEVELS["fixed_point"]) * share
    fluctuation, cov = rows_moments(
        np.zeros(2),
        np.diag([variance, 0.0]),
        lambda u: np.array([[-1 / time, 0.0], [1.0, 0.0]]),
        lambda u: np.diag([2 * variance / time, 0.0]),
        stretches(table),
    )
    expected = density(table, curve + fluctuation, cov)
    values = {"midpoint": middle, "exponent": exponent, "fluctuation_time": time}
    assert ours("sigmoid", values, table) == pytest.approx(expected, rel=1e-8)


def test_prior_of_the_oscillator(table):
    """Every parameter at standard normal numbers, the damping ratio on both sides of zero."""
    target = target_of(get_regime("oscillator"), table)
    z = np.array([[0.3, 0.2, -0.4, 1.1], [-1.5, -2.5, 0.8, -0.6], [1.2, -3.5, 0.0, 0.5]])
    found = values_of_draws(target, z)
    n, length = len(table.y), table.length
    sd = np.sqrt(np.mean((table.y - table.y.mean()) ** 2))
    drawn = length / 5 * np.exp(min(1.0, np.log(max(n, 8) / 5) / 2.5) * z[:, 0])
    time = np.sqrt(drawn**2 + (length / (2 * n)) ** 2)
    s = np.sinh(np.arcsinh(2.0) + 0.8 * z[:, 1])
    assert (s < 0).any()
    upper = (s + np.sqrt(s**2 + 0.1**2)) / 2
    growth = 15 * time / length * np.tanh(2 * (upper - s) / 15)
    expected = {
        "response_time": time,
        "damping_ratio": upper - growth * np.sqrt(2 / (1 + np.sqrt(1 + 16 * growth**2))),
        "observation_sd": sd / 2 * np.exp(z[:, 2]),
        "fluctuation_sd": sd / 5 * np.exp(z[:, 3]),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-10, err_msg=name)


@pytest.mark.parametrize("moved", [0.0, 2.0])
def test_prior_of_the_levels(moved):
    """Of rows in [0, 1] the product of two normals, of others the first of them."""
    y = moved + np.array([0.1, 0.3, 0.2, 0.6, 0.7, 0.9, 0.8, 1.0])
    target = target_of(get_regime("oscillator"), rows_of(make_run(np.arange(1.0, 9.0), y)))
    grid = np.linspace(-10.0, 15.0, 50001)
    density = norm.pdf(grid, y.mean(), 3 * y.std())
    if not moved:
        density = density * norm.pdf(grid, 0.5, 0.3)
    density = density / density.sum()
    mean = density @ grid
    sd = np.sqrt(density @ (grid - mean) ** 2)
    for name in LEVELS:
        assert target.priors[name].median == pytest.approx(mean, rel=1e-3)
        assert target.priors[name].spread == pytest.approx(sd, rel=1e-3)
