import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo import SamplerSettings
from bayes_grpo.fitting.sampling.importance import LEAST_EFFECTIVE, WeightedDraws, importance_sample, resampled
from bayes_grpo.fitting.sampling.nuts import log_likelihoods
from bayes_grpo.fitting.sampling.posterior import FARTHEST, potential, prior_numbers
from bayes_grpo.fitting.sampling.sample import sample_posterior, usable_posterior
from bayes_grpo.logs.run import Run, Settings
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.table import RowTable

FAST = SamplerSettings(chains=2, warmup=200, draws=300)


def make_table(y: np.ndarray) -> RowTable:
    step, nothing = np.arange(1.0, len(y) + 1), np.array([])
    return rows_of(Run("made", "made", "none", "0", step, y, np.ones(len(y)), {}, nothing, nothing, Settings()))


@pytest.fixture(scope="module")
def flat_rows():
    return make_table(0.5 + 0.05 * np.random.default_rng(0).standard_normal(24))


@pytest.fixture(scope="module")
def zigzag():
    """Rows that alternate: nothing tells measurement noise from short fluctuations, a ridge that chains climb badly."""
    rng = np.random.default_rng(3)
    return make_table(0.5 + 0.25 * np.cos(2.2 * np.arange(17)) + 0.05 * rng.standard_normal(17))


def test_marginal_likelihood_against_prior_draws(flat_rows):
    regime, rows = get_regime("flat"), padded(flat_rows)
    prior = prior_numbers(regime, resolve_priors(regime, flat_rows))
    rng = np.random.default_rng(0)
    found = sample_posterior(regime, flat_rows, sampler=FAST, retry=False)
    with jax.enable_x64(True):
        z = rng.standard_normal((40000, len(regime.sampled)))
        direct = np.logaddexp.reduce(log_likelihoods(regime, z, prior, rows)) - np.log(len(z))
    near = importance_sample(regime, np.asarray(found.chain.z), prior, rows, 0)
    assert abs(near.log_evidence - direct) < 0.1
    # A proposal that is off costs precision, not truth.
    z = 0.7 * rng.standard_normal((400, 3)) + 0.3
    off = [importance_sample(regime, z, prior, rows, seed).log_evidence for seed in range(12)]
    assert abs(np.logaddexp.reduce(off) - np.log(len(off)) - direct) < 0.2


@pytest.mark.parametrize("name", ["flat", "oscillator"])
def test_resampled_draws_have_the_moments_of_prior_draws_weighted_by_the_likelihood(zigzag, name):
    regime, rows = get_regime(name), padded(zigzag)
    found = sample_posterior(regime, zigzag, sampler=SamplerSettings(chains=2, warmup=50, draws=500), retry=False)
    better = resampled(regime, found, rows, seed=0)
    assert better.usable
    assert better.effective is not None
    assert better.effective >= LEAST_EFFECTIVE
    assert np.asarray(better.chain.z).shape == np.asarray(found.chain.z).shape
    prior = prior_numbers(regime, found.priors)
    with jax.enable_x64(True):
        z = np.random.default_rng(1).standard_normal((400_000, len(regime.sampled)))
        exact = WeightedDraws(z, np.asarray(log_likelihoods(regime, z, prior, rows)))
    assert exact.effective > 300
    mean = exact.weight @ z
    sd = np.sqrt(exact.weight @ (z - mean) ** 2)
    draws = np.asarray(better.chain.z).reshape(-1, z.shape[1])
    error = sd * np.sqrt(1.0 / exact.effective + 1.0 / LEAST_EFFECTIVE)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4.0 * error)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.25)
    levels = np.asarray(better.summary.linear)
    assert np.all(np.isfinite(levels))
    # The rows alternate about 0.5, and so does what is drawn for their level.
    fixed_point = levels[..., [p.name for p in regime.parameters if p.linear].index("fixed_point")]
    assert np.median(fixed_point) == pytest.approx(0.5, abs=0.1)


def test_far_from_the_prior_the_likelihood_stands_still(flat_rows):
    """A warm-up once leapt 140 prior sds away, to a noise of 3e-41, and found a log density of 1e122 there."""
    regime, rows = get_regime("exponential"), padded(flat_rows)
    prior = prior_numbers(regime, resolve_priors(regime, flat_rows))
    far = np.array([-10.2, -139.7, 24.3])
    with jax.enable_x64(True):
        there, edge = log_likelihoods(regime, np.stack([far, np.clip(far, -FARTHEST, FARTHEST)]), prior, rows)
        assert there == edge
        assert abs(edge) < 1e6
        assert potential(regime, jnp.asarray(far), prior, rows) == pytest.approx(0.5 * np.sum(far**2) - edge)
        near = np.array([[0.5, -1.0, 0.3], [0.5, -0.9 * FARTHEST, 0.3], [0.5, -FARTHEST, 0.3]])
        assert len(set(log_likelihoods(regime, near, prior, rows))) == 3


def test_draws_that_can_be_used_are_left_alone(flat_rows):
    regime, rows = get_regime("flat"), padded(flat_rows)
    found = usable_posterior(regime, flat_rows, rows, sampler=FAST)
    assert found.convergence.usable
    assert found.effective is None
    plain = sample_posterior(regime, flat_rows, sampler=FAST, rows=rows, retry=False)
    np.testing.assert_array_equal(found.chain.z, plain.chain.z)


def test_draws_that_cannot_be_used_are_resampled(flat_rows):
    """The effective size of n draws is at most n log10 n, so 50 draws never reach 100."""
    few = SamplerSettings(chains=2, warmup=200, draws=25)
    found = usable_posterior(get_regime("flat"), flat_rows, padded(flat_rows), sampler=few, retry=False)
    assert not found.convergence.usable
    assert found.usable
    assert found.effective is not None
    assert found.effective >= LEAST_EFFECTIVE


def test_weights_of_no_likelihood_are_worth_nothing():
    nothing = WeightedDraws(np.zeros((4, 2)), np.full(4, -np.inf))
    assert nothing.effective == 0.0
    assert nothing.weight == pytest.approx(0.25)
    some = WeightedDraws(np.arange(8.0).reshape(4, 2), np.log([1.0, 1.0, 2.0, 1e-300]))
    assert some.effective == pytest.approx(16.0 / 6.0)
    picked = some.resampled(400, np.random.default_rng(0))
    assert np.mean(picked[:, 0] == 4.0) == pytest.approx(0.5, abs=0.01)
