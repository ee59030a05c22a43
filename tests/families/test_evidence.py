"""What a run says, against the law's own likelihood and against formulas written plainly."""

from typing import Any

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from bayes_grpo.families.evidence import (
    BANDWIDTH,
    Scale,
    informed,
    kernels,
    level_quadratic,
    levels_integrated,
    run_likelihood,
)
from bayes_grpo.families.model import FamilyPriors, Runs, distances, log_weights, spread_of
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.prepared import prepare_rows
from bayes_grpo.rows.rows_of import rows_of
from tests.families.made import relaxing

LAW = get_regime("exponential")
SCALE = Scale(0.5, 0.2)


@pytest.fixture(scope="module")
def table():
    return rows_of(relaxing("one"))


def test_the_quadratic_is_the_laws_likelihood_at_any_levels(table):
    target = target_of(LAW, prepare_rows(table, many=True))
    with jax.enable_x64(True):
        numbers, rows = target.arguments
        z = np.random.default_rng(0).standard_normal((5, 3))
        top, slope, curve = level_quadratic(target, z, SCALE)
        u = np.asarray(numbers.location) + np.asarray(numbers.scale) * z
        t = np.array([0.7, -1.1])
        told = top + slope @ t - 0.5 * np.einsum("i,nij,j->n", t, curve, t)
        for i in range(5):
            values = {p.name: np.exp(u[i, j]) for j, p in enumerate(LAW.sampled)}
            values |= {p.name: SCALE.origin + SCALE.unit * t[j] for j, p in enumerate(LAW.linear)}
            assert told[i] == pytest.approx(float(LAW.distribution(values, rows).log_prob(rows.y)), rel=1e-8)


def test_levels_are_integrated_as_on_a_grid():
    slope, curve = np.array([1.0, -0.5]), np.array([[2.0, 0.3], [0.3, 1.0]])
    mean, sd = np.array([0.2, 0.4]), np.array([0.5, 0.8])
    axis = np.linspace(-6.0, 6.0, 401)
    t = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    inside = t @ slope - 0.5 * np.einsum("...i,ij,...j", t, curve, t)
    density = np.exp(inside) * norm.pdf(t[..., 0], mean[0], sd[0]) * norm.pdf(t[..., 1], mean[1], sd[1])
    whole = np.log(density.sum() * (axis[1] - axis[0]) ** 2)
    assert levels_integrated(np.zeros(()), slope, curve, mean, sd) == pytest.approx(whole, abs=1e-6)


def test_kernels_keep_mean_and_covariance_and_give_the_posterior_back_under_its_prior():
    rng = np.random.default_rng(1)
    z = rng.standard_normal((4000, 2)) @ np.array([[0.4, 0.2], [0.0, 0.5]]) + np.array([0.5, -0.3])
    places, width, gained = kernels(z)
    # Under the prior that was divided out every kernel counts the same, and is where it was drawn in to.
    cov: Any = np.eye(2) + width
    under = multivariate_normal(np.zeros(2), cov)
    own = under.logpdf(places[:50])
    assert np.ptp(own + gained[:50]) < 1e-9
    given = np.linalg.inv(np.linalg.inv(width) + np.eye(2))
    centres = places @ np.linalg.inv(width) @ given
    assert centres.mean(axis=0) == pytest.approx(z.mean(axis=0), abs=1e-9)
    assert np.cov(centres.T) + given == pytest.approx(np.cov(z.T), rel=1e-5)
    assert np.sqrt(given[0, 0] / np.var(z[:, 0])) == pytest.approx(BANDWIDTH, rel=1e-3)


def test_distances_are_those_of_the_covariances_written_out():
    rng = np.random.default_rng(2)
    root = rng.standard_normal((3, 4, 4))
    width, spread, away = root @ root.swapaxes(1, 2), rng.uniform(0.1, 1.0, 4), rng.standard_normal((3, 7, 4))
    with jax.enable_x64(True):
        squared, log_det = (np.asarray(x) for x in distances(away, width, spread))
    cov = width + np.diag(spread**2)
    expected = np.einsum("ndi,nij,ndj->nd", away, np.linalg.inv(cov), away)
    assert squared == pytest.approx(expected)
    assert log_det == pytest.approx(np.linalg.slogdet(cov)[1])


@pytest.mark.thorough
def test_two_sets_of_nodes_give_one_likelihood(table):
    """The prior that nodes were drawn by is divided out: another one must not matter, up to Monte Carlo error."""
    wide = run_likelihood(LAW, table, SCALE, nodes=2000, seed=1)
    mean = np.array([np.log(14.0), np.log(0.04), np.log(0.02), 1.0, -1.4])
    narrow = run_likelihood(LAW, table, SCALE, informed(LAW, mean, np.full(5, 0.4), SCALE), nodes=2000, seed=2)
    assert wide.warning == narrow.warning == ""
    spread = np.array([0.3, 0.3, 0.4, 0.3, 0.3])
    moves = np.array([[0.0] * 5, [0.2, 0.0, 0.0, 0.0, 0.0], [0.0, 0.1, 0.2, 0.0, 0.0], [0.0, 0.0, 0.0, 0.2, -0.2]])
    found = []
    for likelihood in (wide.likelihood, narrow.likelihood):
        runs = Runs.of([likelihood], np.zeros((1, 1)), np.zeros((1, 5)), np.zeros(1, int))
        with jax.enable_x64(True):
            one = [np.logaddexp.reduce(np.asarray(log_weights(runs, (mean + m)[None], spread))[0]) for m in moves]
        found.append(np.array(one) - one[0])
    assert found[0] == pytest.approx(found[1], abs=0.15)


def test_a_spread_is_at_least_the_floor_and_grows_with_its_number():
    none = np.zeros(2)
    priors = FamilyPriors(none, none, np.zeros((1, 2)), np.array([0.5, 0.2]), none)
    assert spread_of(priors, np.zeros(2)) == pytest.approx([0.02, 0.02])
    assert spread_of(priors, np.array([-2.0, 2.0])) == pytest.approx([1.0002, 0.4005], abs=1e-4)
