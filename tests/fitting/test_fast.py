"""The fast posterior of a law: against prior draws, the smoother and NUTS; and NUTS where it cannot be trusted."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo import SamplerSettings
from bayes_grpo.fitting.draws import Draws, fast_posterior, sample_posterior
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings, WeightDiagnostics, WeightedPoints
from bayes_grpo.fitting.sampling.target import FARTHEST, log_likelihood, log_likelihoods, potential, target_of
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import padded, shared
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series
from tests.helpers.runs import make_run, steps
from tests.helpers.selection import few

LAWS = ("flat", "exponential", "oscillator", "bernoulli", "logistic", "sigmoid")


def posterior_on(regime: Regime, table: Series, **options: Any) -> Draws:
    return fast_posterior(target_of(regime, table, arrays=shared(table)), **options)


def make_table(y: np.ndarray) -> Series:
    return rows_of(make_run(steps(len(y)), y))


@pytest.fixture(scope="module")
def flat_rows():
    return make_table(0.5 + 0.05 * np.random.default_rng(0).standard_normal(24))


@pytest.fixture(scope="module")
def zigzag():
    """Rows that alternate: nothing tells measurement noise from short fluctuations, a ridge that chains climb badly."""
    rng = np.random.default_rng(3)
    return make_table(0.5 + 0.25 * np.cos(2.2 * np.arange(17)) + 0.05 * rng.standard_normal(17))


def test_starting_points_of_a_fit_take_the_program_of_forecasts(flat_rows):
    """Logs of 24 and 30 rows have one shape, a row without a value stays so, and the density is that of the fit."""
    y = np.array(padded(flat_rows).y)
    y[3] = np.nan
    target = target_of(get_regime("flat"), flat_rows).with_values(y)
    wide = target.in_shared_shapes()
    other = target_of(get_regime("flat"), make_table(np.linspace(0.1, 0.9, 30))).in_shared_shapes()
    assert jax.tree.map(np.shape, wide.arguments) == jax.tree.map(np.shape, other.arguments)
    assert jax.tree.map(np.shape, wide.arrays) == jax.tree.map(np.shape, shared(flat_rows))
    z = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(log_likelihoods(wide, z), log_likelihoods(target, z), rtol=1e-12)


@pytest.mark.parametrize("name", few(["flat", "oscillator"], "flat"))
def test_against_prior_draws_weighted_by_the_likelihood(zigzag, name):
    regime = get_regime(name)
    found = posterior_on(regime, zigzag, seed=0, fallback=False)
    assert found.usable
    assert not found.note
    assert isinstance(found.diagnostics, WeightDiagnostics)
    z = np.random.default_rng(1).standard_normal((400_000, len(regime.sampled)))
    exact = WeightedPoints(z, log_likelihoods(found.target, z))
    assert exact.effective > 300
    mean, cov = exact.moments()
    sd = np.sqrt(np.diag(cov))
    # Draws are picked from the weighted points, which has an error of its own.
    error = sd * np.sqrt(1.0 / exact.effective + 1.0 / found.diagnostics.effective + 1.0 / len(found.points))
    assert np.all(np.abs(found.points.mean(axis=0) - mean) < 4.0 * error)
    np.testing.assert_allclose(found.points.std(axis=0), sd, rtol=0.25)
    evidence_error = np.sqrt(1.0 / exact.effective + 1.0 / found.diagnostics.effective)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=4.0 * evidence_error)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [x if x in ("flat", "oscillator", "logistic") else pytest.param(x, marks=pytest.mark.slow) for x in LAWS]
)
def test_against_nuts(synthetic_run, name):
    """The share of draws below each quantile of NUTS's, of every parameter and both levels, is what it has to be.

    In shares and not in units of the parameter: the damping ratio has a thin second hill at large values, where a
    hundredth of the draws moves the 95% quantile by half a standard deviation.
    """
    regime, table = get_regime(name), rows_of(synthetic_run)
    nuts = sample_posterior(target_of(regime, table), seed=2, sampler=SamplerSettings(num_samples=4000)).draws
    # As many draws as make the largest difference below four of its standard errors.
    settings = ImportanceSettings(effective=6000.0, draws=6000, rounds=40)
    fast = posterior_on(regime, table, seed=1, settings=settings, fallback=False).sample_marginalized(0)
    assert fast.usable
    draws = {p.name: nuts.points[:, i] for i, p in enumerate(regime.sampled)}
    found = {p.name: fast.points[:, i] for i, p in enumerate(regime.sampled)}
    draws, found = (
        x | {p.name: y.flat(p.name) for p in regime.marginalized} for x, y in ((draws, nuts), (found, fast))
    )
    assert set(found) == set(draws)
    for parameter, x in draws.items():
        for q, within in ((0.05, 0.025), (0.5, 0.05), (0.95, 0.025)):
            below = np.mean(found[parameter] < np.quantile(x, q))
            assert below == pytest.approx(q, abs=within), (parameter, q)


@pytest.mark.parametrize("name", few(LAWS, "exponential"))
def test_the_batched_likelihood_is_the_sampler_s_own(synthetic_run, name):
    table = rows_of(synthetic_run)
    regime = get_regime(name)
    target = target_of(regime, table)
    prior, rows = target.arguments
    z = np.random.default_rng(0).standard_normal((5, len(regime.sampled)))
    with jax.enable_x64(True):
        alone = jax.jit(partial(log_likelihood, regime, prior=prior, rows=rows))
        one = [float(alone(z=jnp.asarray(x))) for x in z]
    np.testing.assert_allclose(log_likelihoods(target, z), one, rtol=1e-9)
    among_many = replace(target, arrays=shared(table))
    np.testing.assert_allclose(log_likelihoods(among_many, z), one, rtol=1e-9)


@pytest.mark.thorough
def test_far_from_the_prior_the_likelihood_stands_still(flat_rows):
    """A warm-up once leapt 140 prior sds away, to a noise of 3e-41, and found a log density of 1e122 there."""
    regime = get_regime("exponential")
    target = target_of(regime, flat_rows)
    far = np.array([-10.2, -139.7, 24.3])
    there, edge = log_likelihoods(target, np.stack([far, np.clip(far, -FARTHEST, FARTHEST)]))
    assert there == edge
    assert abs(edge) < 1e6
    with jax.enable_x64(True):
        assert potential(regime, jnp.asarray(far), *target.arguments) == pytest.approx(0.5 * np.sum(far**2) - edge)
    near = np.array([[0.5, -1.0, 0.3], [0.5, -0.9 * FARTHEST, 0.3], [0.5, -FARTHEST, 0.3]])
    assert len(set(log_likelihoods(target, near))) == 3


@pytest.mark.thorough
def test_nuts_where_the_points_cannot_be_trusted(flat_rows):
    """One round of 300 points is too few for any trust; NUTS is run, and points spread about its draws."""
    few = ImportanceSettings(rounds=1, batch=300)
    regime = get_regime("flat")
    alone = posterior_on(regime, flat_rows, settings=few, fallback=False)
    assert not alone.usable
    assert "limit" in alone.note
    mended = posterior_on(
        regime, flat_rows, settings=few, sampler=SamplerSettings(num_chains=2, num_warmup=200, num_samples=600)
    )
    assert mended.usable
    assert "NUTS" in mended.note
    whole = posterior_on(regime, flat_rows)
    assert mended.log_evidence == pytest.approx(whole.log_evidence, abs=0.2)
    np.testing.assert_allclose(mended.points.mean(axis=0), whole.points.mean(axis=0), atol=0.25)
