"""The likelihood written again from the formulas of docs/model.md alone, with SciPy."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import multivariate_normal, norm

from bayes_grpo import get_regime, rows_of
from bayes_grpo.fitting.sampling.target import target_of, values_of_draws
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


def over(drift, noise, t):
    """Transition and noise covariance over t: van Loan's block exponential over t/64, doubled to keep its digits."""
    n = len(drift)
    block = expm(np.block([[-drift, noise], [np.zeros((n, n)), drift.T]]) * t / 64.0)
    transition = block[n:, n:].T
    noise = transition @ block[:n, n:]
    for _ in range(6):
        transition, noise = transition @ transition, noise + transition @ noise @ transition.T
    return transition, noise


def density(table, mean, cov, drift, noise, curve):
    """Log density of rows whose x is the first of the state; the state's last component is the integral of x.

    Args:
        mean: Of the state at the start, shape (n,).
        cov: Its covariance.
        drift: Rate of the row → drift matrix.
        noise: Rate of the row → noise matrix.
        curve: Mean of the rows that the state does not know of, shape (rows,).
    """
    n, rows = len(mean), len(table.y)
    # Covariance of the state and of all rows so far.
    found, joint = np.zeros(rows), np.zeros((n + rows, n + rows))
    joint[:n, :n] = cov
    for i, (gap, window, rate) in enumerate(zip(table.gap(), table.window, table.rate, strict=True)):
        for t in (gap, window):
            keep = np.diag([1.0] * (n - 1) + [0.0])  # the integral starts at 0
            f, q = over(drift(rate), noise(rate), t)
            step = np.eye(n + rows)
            step[:n, :n] = f @ keep
            mean, joint = f @ keep @ mean, step @ joint @ step.T
            joint[:n, :n] += q
        see = np.eye(n + rows)
        see[n + i, :n] = np.eye(n)[0] if window == 0 else np.eye(n)[-1] / window
        see[n + i, n + i] = 0.0
        found[i], joint = see[n + i, :n] @ mean, see @ joint @ see.T
    observed: Any = joint[n:, n:] + np.diag(NOISES["observation_sd"] ** 2 / table.precision)
    return multivariate_normal.logpdf(table.y, found + curve, observed)


def ours(name, values, table):
    density = jax.jit(lambda given: get_regime(name).distribution(given | NOISES | LEVELS, table).log_prob(table.y))
    with jax.enable_x64(True):
        return float(density(values))


@pytest.mark.parametrize("zeta", few([-0.05, 0.3, 1.0, 4.0], -0.05, 1.0))
def test_oscillator(zeta, table):
    response = 7.0
    omega, root = np.sqrt(1 + 4 * zeta**2) / response, np.sqrt(1 + 4 * zeta**2)
    power = 2 * NOISES["fluctuation_sd"] ** 2 * omega**3 * root
    expected = density(
        table,
        np.array([LEVELS["initial_reward"] - LEVELS["fixed_point"], 0.0, 0.0]),
        np.zeros((3, 3)),
        lambda u: np.array([[0.0, 1.0, 0.0], [-u * omega**2, -2 * zeta * omega, 0.0], [1.0, 0.0, 0.0]]),
        lambda u: np.diag([0.0, power * u**2, 0.0]),
        LEVELS["fixed_point"],
    )
    assert ours("oscillator", {"response_time": response, "damping_ratio": zeta}, table) == pytest.approx(
        expected, rel=1e-8
    )


def test_exponential(table):
    tau, power = 9.0, 2 * NOISES["fluctuation_sd"] ** 2 / 9.0
    expected = density(
        table,
        np.array([LEVELS["initial_reward"] - LEVELS["fixed_point"], 0.0]),
        np.zeros((2, 2)),
        lambda u: np.array([[-u / tau, 0.0], [1.0, 0.0]]),
        lambda u: np.diag([power * u**2, 0.0]),
        LEVELS["fixed_point"],
    )
    assert ours("exponential", {"relaxation_time": tau}, table) == pytest.approx(expected, rel=1e-8)


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
    expected = density(
        table,
        np.zeros(2),
        np.diag([variance, 0.0]),
        lambda u: np.array([[-1 / time, 0.0], [1.0, 0.0]]),
        lambda u: np.diag([2 * variance / time, 0.0]),
        LEVELS["fixed_point"] + (LEVELS["initial_reward"] - LEVELS["fixed_point"]) * share,
    )
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
