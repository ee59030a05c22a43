"""Regimes as NumPyro distributions: densities, batches, and the posterior of `fit` in a model of plain NumPyro."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density

from bayes_grpo import REGIMES, SamplerSettings, fit, get_regime, padded, rows_of, stacked
from bayes_grpo.common.errors import SettingError
from bayes_grpo.fitting.fit import draw_prior
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.rows.padding import prepare_rows
from tests.helpers.reference import dense, dense_log_density, dense_moments
from tests.helpers.runs import make_run, rising_run, steps

EXPONENTIAL = get_regime("exponential")
SHORT = SamplerSettings(num_chains=4, num_warmup=300, num_samples=1000)
VALUES = {
    "relaxation_time": 15.0,
    "observation_sd": 0.05,
    "fluctuation_sd": 0.03,
    "fixed_point": 0.8,
    "initial_reward": 0.2,
}


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def run():
    return rising_run()


@pytest.fixture(scope="module")
def table(run):
    return rows_of(run)


@pytest.mark.parametrize("name", list(REGIMES))
def test_log_density_is_that_of_a_dense_normal(name, table):
    """Every regime at a draw of its prior; linear parameters known, and integrated out under a normal prior."""
    regime = get_regime(name)
    draws = draw_prior(target_of(regime, prepare_rows(table)), np.random.default_rng(1), size=3)
    values = {p.name: float(draws[p.name][0]) for p in regime.parameters}
    rows = padded(table)
    for levels in ({}, {p.name: (0.5, 0.3) for p in regime.linear}):
        given = values | levels
        pairs = {p.name: levels.get(p.name, (values[p.name], 0.0)) for p in regime.linear}
        space = regime.state_space({p.name: jnp.asarray(values[p.name]) for p in regime.sampled}, pairs, rows)
        expected = _dense(space, rows.y)
        np.testing.assert_allclose(regime.distribution(given, rows).log_prob(rows.y), expected, rtol=1e-7)


@pytest.mark.thorough
def test_batches_plates_and_vmap_agree_with_one_at_a_time(table):
    rows, times = padded(table), jnp.array([5.0, 15.0, 60.0])
    one = np.array([float(_density(VALUES | {"relaxation_time": t}, rows)) for t in times])
    batched = EXPONENTIAL.distribution(VALUES | {"relaxation_time": times}, rows)
    assert (batched.batch_shape, batched.event_shape) == ((3,), rows.y.shape)
    np.testing.assert_allclose(batched.log_prob(rows.y), one, rtol=1e-10)
    mapped = jax.vmap(lambda t: EXPONENTIAL.distribution(VALUES | {"relaxation_time": t}, rows).log_prob(rows.y))
    np.testing.assert_allclose(mapped(times), one, rtol=1e-10)
    np.testing.assert_allclose(jax.jit(mapped)(times), one, rtol=1e-10)

    def model(y):
        with numpyro.plate("settings", 3):
            numpyro.sample("y", EXPONENTIAL.distribution(VALUES | {"relaxation_time": times}, rows), obs=y)

    total, _ = log_density(model, (jnp.broadcast_to(rows.y, (3, *rows.y.shape)),), {}, {})
    np.testing.assert_allclose(total, one.sum(), rtol=1e-10)
    leaves, tree = jax.tree.flatten(batched)
    np.testing.assert_allclose(jax.tree.unflatten(tree, leaves).log_prob(rows.y), one, rtol=1e-10)


def test_several_logs_of_different_lengths_stand_in_one_plate():
    runs = [rising_run(40, 0), rising_run(30, 1), make_run(2.0 * steps(20), np.linspace(0.1, 0.7, 20), window=2.0)]
    tables = [rows_of(run) for run in runs]
    rows = stacked(tables)
    assert rows.y.shape == (3, 40)
    density = jax.jit(lambda rows: _density(VALUES, rows))  # operation by operation, each compiles a program of its own
    expected = [float(density(padded(t, 40))) for t in tables]
    assert EXPONENTIAL.distribution(VALUES, rows).batch_shape == (3,)
    np.testing.assert_allclose(density(rows), expected, rtol=1e-9)
    sample = jax.jit(lambda key: EXPONENTIAL.distribution(VALUES, rows).sample(key, (2,)))
    assert sample(jax.random.key(0)).shape == (2, 3, 40)


@pytest.mark.thorough
def test_draws_have_the_moments_of_the_law(table):
    rows = padded(table, len(table.y))
    given = EXPONENTIAL.distribution(VALUES | {"fixed_point": (0.8, 0.1)}, rows)
    draws = np.asarray(given.sample(jax.random.key(3), (20_000,)))
    t = table.step - 0.5
    share = np.exp(-t / 15.0) * (2 * 15.0 * np.sinh(0.5 / 15.0))
    np.testing.assert_allclose(draws.mean(axis=0), 0.8 - 0.6 * share, atol=0.006)
    # The density of its own draws, on average, is minus the entropy of the normal that they come from.
    cov = np.cov(draws.T)
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * cov)[1]
    density = np.asarray(given.log_prob(draws[:2000]))
    assert abs(density.mean() + entropy) < 4 * density.std() / np.sqrt(2000) + 0.1


def test_rows_missing_in_the_middle_are_never_a_wrong_number(table):
    rows = padded(table)
    y = np.array(rows.y)
    y[7] = np.nan
    space = EXPONENTIAL.state_space(*_parts(VALUES), rows)
    found = EXPONENTIAL.distribution(VALUES, rows).log_prob(y)
    np.testing.assert_allclose(found, _dense(space, y), rtol=1e-9)


def test_values_outside_of_a_parameter_s_range_are_refused(table):
    with pytest.raises(SettingError, match="values above 0 of observation_sd"):
        EXPONENTIAL.distribution(VALUES | {"observation_sd": -1.0}, table, validate_args=True)


def plain_model(table):
    """The exponential with the default priors of `fit`, the levels sampled like everything else."""
    rows, free = padded(table, len(table.y)), {}
    for p in EXPONENTIAL.sampled:
        prior = p.default(table)
        free[p.name] = numpyro.sample(p.name, dist.LogNormal(jnp.log(prior.median), prior.spread))
    levels = {
        p.name: numpyro.sample(p.name, dist.Normal(p.default(table).median, p.default(table).spread))
        for p in EXPONENTIAL.linear
    }
    bound = EXPONENTIAL.physical(free, rows)
    numpyro.sample("y", EXPONENTIAL.distribution(bound | levels, rows), obs=rows.y)


@pytest.mark.thorough
def test_a_plain_model_has_the_posterior_of_the_fit(run, table):
    found = fit(run, "exponential", sampler=SHORT)
    kernel = NUTS(plain_model, dense_mass=True, target_accept_prob=0.9)
    mcmc = MCMC(kernel, num_warmup=500, num_samples=2000, progress_bar=False)
    mcmc.run(jax.random.key(1), table)
    draws = mcmc.get_samples()
    assert int(mcmc.get_extra_fields()["diverging"].sum()) < 30
    for name in VALUES:
        ours, theirs = found.draws(name).ravel(), np.asarray(draws[name])
        for q in (0.1, 0.5, 0.9):
            assert abs(np.quantile(ours, q) - np.quantile(theirs, q)) < 0.2 * ours.std(), (name, q)


@pytest.mark.parametrize("name", list(REGIMES))
def test_derived_quantities_are_traceable(name, table):
    """So that a hierarchy can pool them; the same numbers from NumPy and from a compiled function."""
    regime = get_regime(name)
    values = {p.name: np.full((2, 3), p.default(table).median) for p in regime.parameters}
    plain, traced = regime.derived(values, table), jax.jit(lambda v: regime.derived(v, table))(values)
    for key, found in plain.items():
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, traced[key], rtol=1e-9)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({k: v for k, v in VALUES.items() if k != "fixed_point"}, "without fixed_point"),
        (VALUES | {"stiffness": 1.0}, "'stiffness'"),
    ],
)
def test_values_that_do_not_fit_are_named(values, said, table):
    with pytest.raises(SettingError, match=said):
        EXPONENTIAL.distribution(values, padded(table))


def _parts(values):
    """Sampled values and known levels."""
    levels = {k: (jnp.asarray(values[k]), 0.0) for k in ("fixed_point", "initial_reward")}
    return {k: jnp.asarray(v) for k, v in values.items() if k not in levels}, levels


def _density(values, rows):
    return EXPONENTIAL.distribution(values, rows).log_prob(rows.y)


def _dense(space, y):
    """Log density without any filter."""
    full = jax.tree.map(np.asarray, dense(space, len(y)))
    mean, cov = dense_moments(full)
    return dense_log_density(np.asarray(y), mean, cov)


@pytest.mark.parametrize(("zeta", "times"), [(0.1, 2.258), (0.5, 1.189), (2.0, 1.015)])
def test_fluctuation_sd_says_the_stationary_sd_of_an_oscillator(zeta, times, table):
    """As its meaning states; far from the start nothing of the initial state is left."""
    assert times == pytest.approx(np.sqrt(np.sqrt(1 + 4 * zeta**2) / (2 * zeta)), abs=1e-3)
    rows = padded(table)._replace(window=None, gap=np.asarray(1e4), rate=None)
    values = {"response_time": 10.0, "damping_ratio": zeta, "fluctuation_sd": 0.03, "observation_sd": 0.05}
    levels = {"fixed_point": (0.5, 0.0), "initial_reward": (0.5, 0.0)}
    with jax.enable_x64(True):
        space = get_regime("oscillator").state_space({k: jnp.asarray(v) for k, v in values.items()}, levels, rows)
        sd = float(jnp.sqrt(jnp.asarray(space.observation_var)))
    assert sd == pytest.approx(0.03 * times, rel=1e-3)
