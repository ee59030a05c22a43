"""R-hat, effective sample sizes, E-BFMI and power scaling beside ArviZ's, on chains of all tempers."""

from typing import Any

import numpy as np
import pytest
from arviz_stats.base.array import array_stats as typed

from bayes_grpo.common.pareto import smoothed_weights
from bayes_grpo.fitting.sampling.convergence import energy_fraction, ess_bulk, ess_tail, rhat

array_stats: Any = typed  # its methods are typed for every shape of answer


def chains(kind: str) -> np.ndarray:
    """Four chains of an autoregression; NUTS repeats draws, and a stuck chain is elsewhere."""
    rng = np.random.default_rng(3)
    n, memory = {"odd": (501, 0.9), "short": (20, 0.3), "stuck": (300, 0.999)}.get(kind, (400, -0.4))
    kicks = rng.standard_normal((4, n))
    draws = kicks.copy()
    for i in range(1, n):
        draws[:, i] = memory * draws[:, i - 1] + np.sqrt(1 - memory**2) * kicks[:, i]
    if kind == "repeated":
        draws[:, 1::3] = draws[:, 0 : n - 1 : 3][:, : draws[:, 1::3].shape[1]]
    if kind == "stuck":
        draws[0] += 5.0
    return draws


@pytest.mark.parametrize("kind", ["plain", "odd", "short", "stuck", "repeated"])
def test_numbers_are_those_of_arviz(kind):
    draws = chains(kind)
    assert rhat(draws) == pytest.approx(float(array_stats.rhat(draws)), rel=1e-12)
    assert ess_bulk(draws) == pytest.approx(float(array_stats.ess(draws, method="bulk")), rel=1e-10)
    theirs = float(array_stats.ess(draws, method="tail", prob=(0.05, 0.95)))
    assert ess_tail(draws, 0.05, 0.95) == pytest.approx(theirs, rel=1e-10)
    np.testing.assert_allclose(energy_fraction(draws), array_stats.bfmi(draws), rtol=1e-12)


def test_draws_that_are_not_finite_have_no_numbers():
    draws = chains("plain")
    draws[1, 7] = np.inf
    assert np.isnan([rhat(draws), ess_bulk(draws), ess_tail(draws, 0.05, 0.95)]).all()


def test_a_constant_mixes_as_independent_draws_would():
    assert ess_tail(np.zeros((4, 100)), 0.05, 0.95) == 400.0


@pytest.mark.parametrize("alpha", [0.99, 1.01, 3.0])
def test_smoothed_weights_are_those_of_arviz(alpha):
    log_density = -0.5 * chains("plain") ** 2
    efficiency = ess_tail(log_density.reshape(1, -1), 0.05, 0.95) / log_density.size
    found = smoothed_weights((alpha - 1.0) * log_density.ravel(), efficiency)[0]
    theirs = np.exp(array_stats.power_scale_lw(log_density, alpha=alpha, axis=(-2, -1))).ravel()
    np.testing.assert_allclose(found, theirs / theirs.sum(), rtol=1e-9)
    assert found.sum() == pytest.approx(1.0)


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
