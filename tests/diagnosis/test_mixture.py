"""Densities with features left out."""

import numpy as np
import pytest
from scipy import stats

from bayes_grpo.diagnosis.mixture import Mixture, fit_mixture

TWO = Mixture(
    np.array([0.3, 0.7]),
    np.array([[0.0, 1.0, -1.0], [2.0, -1.0, 0.5]]),
    np.array([[[1.0, 0.3, 0.0], [0.3, 2.0, 0.1], [0.0, 0.1, 0.5]], np.diag([0.5, 1.0, 2.0])]),
)


def test_density_is_that_of_student_t():
    x = np.array([0.4, 0.2, -0.3])
    nu = TWO.freedom
    terms = [
        w * stats.multivariate_t.pdf(x, m, c * (nu - 2) / nu, df=nu)  # pyright: ignore[reportArgumentType]
        for w, m, c in zip(TWO.weight, TWO.mean, TWO.cov, strict=True)
    ]
    assert TWO.log_density(x) == pytest.approx(np.log(sum(terms)))


def test_leaving_a_feature_out_integrates_over_it():
    grid = np.linspace(-80.0, 80.0, 40001)
    joint = [np.exp(TWO.log_density(np.array([0.4, v, -0.3]))) for v in grid[::20]]
    integral = np.sum(joint) * (grid[20] - grid[0])
    assert np.exp(TWO.log_density(np.array([0.4, np.nan, -0.3]))) == pytest.approx(integral, rel=1e-3)


def test_nothing_there_says_nothing():
    assert TWO.log_density(np.full(3, np.nan)) == 0.0


def test_written_and_read_back():
    again = Mixture.from_dict(TWO.to_dict())
    x = np.array([0.1, np.nan, 0.7])
    assert again.log_density(x) == pytest.approx(TWO.log_density(x), abs=1e-3)
    np.testing.assert_allclose(again.cov, np.swapaxes(again.cov, 1, 2))


def test_two_groups_are_found():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal([-3, 0], 1, (120, 2)), rng.normal([3, 1], 0.5, (80, 2))])
    found = fit_mixture(x, np.full(2, 1e-3), largest=2)
    order = found.mean[:, 0].argsort()
    np.testing.assert_allclose(found.mean[order], [[-3, 0], [3, 1]], atol=0.4)
    np.testing.assert_allclose(found.weight[order], [0.6, 0.4], atol=0.06)


def test_too_few_runs_are_refused():
    with pytest.raises(ValueError, match="at least 10"):
        fit_mixture(np.zeros((4, 2)), np.ones(2))
