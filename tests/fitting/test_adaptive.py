"""Tempered adaptive importance sampling on targets whose evidence and quantiles are known in closed form."""

import math

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from scipy.stats import norm

from bayes_grpo.common.sampling import smoothed_weights
from bayes_grpo.fitting.sampling.adaptive import (
    ImportanceSettings,
    WeightedPoints,
    adaptive_points,
)
from tests.helpers.selection import few


def quantile(points, i, q):
    order = np.argsort(points.z[:, i])
    edges = np.cumsum(points.weight[order])
    return np.interp(q, edges - 0.5 * points.weight[order], points.z[order, i])


@pytest.mark.parametrize("sd", few([1.0, 0.05, 0.003], 0.05))
def test_a_normal_likelihood(sd):
    """Posterior and evidence in closed form, from as wide as the prior to 300 times narrower in 4 coordinates."""
    at = np.array([0.5, -1.0, 1.5, 0.0])
    found, _ = adaptive_points(lambda z: norm.logpdf(z, at, sd).sum(axis=1), 4, 0)
    assert found.log_evidence == pytest.approx(norm.logpdf(at, 0.0, math.hypot(1.0, sd)).sum(), abs=0.1)
    centre, spread = at / (1.0 + sd**2), sd / math.hypot(1.0, sd)
    for i in range(4):
        for q in (0.05, 0.5, 0.95):
            assert quantile(found, i, q) == pytest.approx(norm.ppf(q, centre[i], spread), abs=0.15 * spread)


@pytest.mark.thorough
def test_two_modes_keep_their_shares():
    """Modes 30 of their widths apart, one with three times the mass of the other."""
    far = np.array([1.2, 1.2, 0.0])

    def log_likelihood(z):
        one, other = (norm.logpdf(z, at, 0.08).sum(axis=1) for at in (far, -far))
        return np.logaddexp(one + math.log(0.75), other + math.log(0.25))

    shares = []
    for seed in range(5):
        points, checks = adaptive_points(log_likelihood, 3, seed)
        assert checks.passed
        shares.append(float(points.weight[points.z[:, 0] > 0].sum()))
    np.testing.assert_allclose(shares, 0.75, atol=0.06)


def test_a_start_close_by_saves_rounds_and_one_far_off_changes_nothing():
    at = np.array([0.5, -1.0, 1.5])

    def log_likelihood(z):
        return norm.logpdf(z, at, 0.02).sum(axis=1)

    rng = np.random.default_rng(1)
    afresh, checks = adaptive_points(log_likelihood, 3, 0)
    starts = at + 0.03 * rng.standard_normal((500, 3)), -at + 0.03 * rng.standard_normal((500, 3))
    close, off = (adaptive_points(log_likelihood, 3, 0, start=x) for x in starts)
    assert close[1].rounds < checks.rounds
    for points, found in (close, off):
        assert found.passed
        assert points.log_evidence == pytest.approx(afresh.log_evidence, abs=0.1)


def test_what_cannot_be_reached_is_said():
    """A spike of no width: the rounds end before the posterior is reached."""
    settings = ImportanceSettings(rounds=4)
    _, trust = adaptive_points(lambda z: -1e12 * np.abs(z).sum(axis=1), 3, 0, settings)
    assert not trust.passed
    assert any("did not reach the posterior" in x for x in trust.reasons)
    _, nowhere = adaptive_points(lambda z: np.full(len(z), -np.inf), 3, 0, settings)
    assert not nowhere.passed
    assert nowhere.effective == 0.0


def test_weights_of_no_likelihood_are_worth_nothing():
    nothing = WeightedPoints(np.zeros((4, 2)), np.full(4, -np.inf))
    assert nothing.effective == 0.0
    assert nothing.weight == pytest.approx(0.25)
    assert nothing.pareto_k == math.inf
    some = WeightedPoints(np.arange(8.0).reshape(4, 2), np.log([1.0, 1.0, 2.0, 1e-300]))
    assert some.effective == pytest.approx(16.0 / 6.0)
    picked = some.resampled(400, np.random.default_rng(0))
    assert np.mean(picked[:, 0] == 4.0) == pytest.approx(0.5, abs=0.01)
    assert WeightedPoints(np.zeros((1000, 1)), np.zeros(1000)).pareto_k == -math.inf


@pytest.mark.parametrize("efficiency", [1.0, 0.4])
def test_many_rows_are_smoothed_at_once_as_arviz_smooths_each(efficiency):
    rng = np.random.default_rng(5)
    log_weight = np.array([0.1, 0.5, 1.5])[:, None] * rng.standard_exponential((3, 1200))
    weight, shape = smoothed_weights(log_weight, efficiency)
    theirs, their_shape = array_stats.psislw(-log_weight, r_eff=efficiency, axis=-1)  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_allclose(weight, np.exp(theirs), rtol=1e-9)
    np.testing.assert_allclose(shape, their_shape, rtol=1e-9)


def test_a_tail_that_is_none_is_left_as_it_is():
    log_weight = np.stack([np.zeros(400), np.random.default_rng(6).standard_normal(400)])
    weight, shape = smoothed_weights(log_weight, 1.0)
    np.testing.assert_allclose(weight[0], 1 / 400)
    assert np.isnan(shape[0])
    assert np.isfinite(shape[1])
