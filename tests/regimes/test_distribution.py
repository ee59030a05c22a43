"""Regimes as NumPyro distributions and models: densities, batches, any priors, and the posterior of `fit`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import Predictive
from numpyro.infer.util import log_density

from bayes_grpo import REGIMES, SamplerSettings, fit, get_regime, load_fit, padded, rows_of, save_fit, stacked
from bayes_grpo.common.errors import BayesGrpoWarning, PriorError, SettingError
from bayes_grpo.dynamics.kalman import smooth
from bayes_grpo.dynamics.state_space import dense
from bayes_grpo.fitting.fit import draw_prior
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.regimes.base import Prior
from bayes_grpo.regimes.priors import GRID, resolve_priors, tabulated
from tests.helpers.reference import dense_log_density, dense_moments
from tests.helpers.runs import make_run, rising_run, steps
from tests.helpers.selection import few

pytestmark = pytest.mark.usefixtures("double_precision")
EXPONENTIAL = get_regime("exponential")
SHORT = SamplerSettings(num_chains=4, num_warmup=300, num_samples=1000)
VALUES = {
    "relaxation_time": 15.0,
    "observation_sd": 0.05,
    "fluctuation_sd": 0.03,
    "fixed_point": 0.8,
    "initial_reward": 0.2,
}


@pytest.fixture(scope="module")
def run():
    return rising_run()


@pytest.fixture(scope="module")
def table(run):
    return rows_of(run)


@pytest.mark.parametrize("name", list(REGIMES))
def test_densities_are_those_of_a_dense_normal(name, table):
    """Every regime at a draw of its prior, with a row missing; levels known, and integrated out under a normal prior.

    The inverse of the covariance of all rows gives every conditional.
    """
    regime, rows = get_regime(name), padded(table)
    draws = draw_prior(target_of(regime, table), np.random.default_rng(1), size=3)
    values = {p.name: float(draws[p.name][0]) for p in regime.parameters}
    y = np.where(np.arange(len(rows.y)) == 7, np.nan, rows.y)
    there = np.isfinite(y)
    sampled = {p.name: values[p.name] for p in regime.sampled}
    space = jax.jit(lambda levels: dense(regime.state_space(jax.tree.map(jnp.asarray, sampled), levels, rows), len(y)))
    for levels in ({}, {p.name: (0.5, 0.3) for p in regime.marginalized}):
        pairs = {p.name: levels.get(p.name, (values[p.name], 0.0)) for p in regime.marginalized}
        mean, cov = dense_moments(jax.tree.map(np.asarray, space(pairs)))
        density, left_out = _both(regime.distribution(values | levels, rows), y)
        np.testing.assert_allclose(density, dense_log_density(y, mean, cov), rtol=1e-7)
        inverse = np.linalg.inv(cov[np.ix_(there, there)])
        error, var = inverse @ (y - mean)[there] / np.diag(inverse), 1.0 / np.diag(inverse)
        wanted = -0.5 * (np.log(2 * np.pi * var) + error**2 / var)
        np.testing.assert_allclose(left_out[there], wanted, rtol=1e-7, atol=1e-8)


@jax.jit
def _both(distribution, y):
    """Log density and leave-one-out terms, compiled: operation by operation, each would be a program of its own."""
    space = distribution.regime.on_rows(distribution.values, distribution.levels, distribution.rows)
    return distribution.log_prob(y), smooth(space, y).loo_log_density


@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize("length", [1, 5, 13])
def test_values_of_another_length_are_no_missing_rows(length, validate, table):
    """One too short would otherwise be broadcast or scored as if its last rows were missing."""
    short = table.before(12)
    found = EXPONENTIAL.distribution(VALUES, short, validate_args=validate)
    with pytest.raises(SettingError, match=rf"event shape \(12,\).*found shape \({length},\)"):
        found.log_prob(np.zeros(length))


def test_an_infinite_value_is_no_missing_row(table):
    """An infinite value is an error, and where it is traced it has the density 0; NaN marks a missing row."""
    short = table.before(12)
    y = np.where(np.arange(12) == 7, np.inf, short.y)
    for validate in (False, True):
        found = EXPONENTIAL.distribution(VALUES, short, validate_args=validate)
        for value in (y, -y):
            with pytest.raises(SettingError, match=r"event shape \(12,\).*infinite one in row 7"):
                found.log_prob(value)
    found = EXPONENTIAL.distribution(VALUES, short)
    density = jax.jit(found.log_prob)
    assert density(y) == -np.inf
    missing = np.where(np.isinf(y), np.nan, y)
    assert np.isfinite(density(missing))
    np.testing.assert_allclose(density(np.stack([missing, y])), [density(missing), -np.inf], rtol=1e-12)


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
    drawn = jax.eval_shape(lambda key: EXPONENTIAL.distribution(VALUES, rows).sample(key, (2,)), jax.random.key(0))
    assert drawn.shape == (2, 3, 40)


@pytest.mark.parametrize("name", few(REGIMES, "bernoulli"))
def test_derived_quantities_are_traceable(name, table):
    """So that a hierarchy can pool them; the same numbers from NumPy and from a compiled function."""
    regime = get_regime(name)
    values = {p.name: np.full((2, 3), p.default(table).median) for p in regime.parameters}
    plain, traced = regime.derived(values, table), jax.jit(lambda v: regime.derived(v, table))(values)
    for key, found in plain.items():
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, traced[key], rtol=1e-9)


def test_single_precision_is_warned_of_and_values_are_validated(table):
    with (
        jax.enable_x64(False),
        numpyro.handlers.seed(rng_seed=0),
        pytest.warns(BayesGrpoWarning, match="enable_x64") as seen,
    ):
        EXPONENTIAL.model(table)
    assert len(seen) == 1
    with jax.enable_x64(False), pytest.warns(BayesGrpoWarning, match="enable_x64"):
        EXPONENTIAL.distribution(VALUES, table)
    with pytest.raises(SettingError, match="values above 0 of observation_sd"):
        EXPONENTIAL.distribution(VALUES | {"observation_sd": -1.0}, table, validate_args=True)


@pytest.mark.thorough
def test_stiffness_and_damping_are_the_oscillator_in_other_terms(table):
    """The same density at the same law, and a prior on either is what is drawn."""
    other = get_regime("stiffness_damping")
    noises = {k: VALUES[k] for k in ("observation_sd", "fluctuation_sd", "fixed_point", "initial_reward")}
    at = {"response_time": 12.0, "damping_ratio": 0.7}
    found = get_regime("oscillator").derived(noises | at, table)
    named = noises | {k: found[k] for k in ("stiffness", "damping")}
    both = (get_regime("oscillator"), noises | at), (other, named)
    one, two = (_both(regime.distribution(values, table), table.y)[0] for regime, values in both)
    np.testing.assert_allclose(one, two, rtol=1e-10)
    np.testing.assert_allclose([other.derived(named, table)[k] for k in at], list(at.values()), rtol=1e-12)
    prior = dist.Gamma(2.0, 10.0)
    drawn = draw_prior(target_of(other, table, {"damping": prior}), np.random.default_rng(0), 20_000)
    shares = [0.1, 0.5, 0.9]
    expected = np.quantile(np.asarray(prior.sample(jax.random.key(1), (100_000,))), shares)
    np.testing.assert_allclose(np.quantile(drawn["damping"], shares), expected, rtol=0.05)


def test_a_level_s_prior_is_the_same_from_a_distribution_and_from_a_fit(table):
    """A fit's priors can be given to another: a table of quantiles is no normal prior."""
    made = target_of(EXPONENTIAL, table, {"fixed_point": dist.Uniform(0.0, 1.0)})
    again = target_of(EXPONENTIAL, table, made.priors)
    assert again.regime == made.regime
    assert again.regime.sampled_levels == ("fixed_point",)
    np.testing.assert_array_equal(again.numbers.quantiles, made.numbers.quantiles)
    with numpyro.handlers.seed(rng_seed=0), pytest.raises(PriorError, match="give the distribution itself"):
        EXPONENTIAL.model(table, made.priors)


@pytest.mark.thorough
def test_a_fixed_point_with_any_prior_is_sampled_and_read_again(run, tmp_path):
    """A truncated normal far from its end is the normal that is integrated out."""
    priors = dist.Normal(0.8, 0.1), dist.TruncatedNormal(0.8, 0.1, low=-5.0)
    one, two = (fit(run, "exponential", priors={"fixed_point": p}, seed=2, sampler=SHORT) for p in priors)
    save_fit(two, tmp_path / "fit.nc")
    assert load_fit(tmp_path / "fit.nc").regime == two.regime != one.regime
    for name in VALUES:
        a, b = (x.draws(name).ravel() for x in (one, two))
        np.testing.assert_allclose(np.quantile(b, [0.1, 0.5, 0.9]), np.quantile(a, [0.1, 0.5, 0.9]), atol=0.2 * a.std())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({k: v for k, v in VALUES.items() if k != "fixed_point"}, "without fixed_point"),
        (VALUES | {"stiffness": 1.0}, "'stiffness'"),
    ],
)
def test_values_that_do_not_fit_are_named(values, message, table):
    with pytest.raises(SettingError, match=message):
        EXPONENTIAL.distribution(values, padded(table))


@pytest.mark.parametrize("given", [Prior(7.0, 0.2), (7, 0.2), {"median": 7, "spread": 0.2}, ("7", "0.2")])
def test_a_prior_replaces_the_default_of_its_parameter_alone(given, table):
    priors = resolve_priors(EXPONENTIAL, table, {"relaxation_time": given})
    assert priors == resolve_priors(EXPONENTIAL, table) | {"relaxation_time": Prior(7.0, 0.2)}


def test_default_priors_know_scale_and_length_alone():
    """Shuffled rows have the same scale and length, so they must get the same priors."""
    y = np.random.default_rng(0).normal(size=50)
    logs = make_run(steps(50), y), make_run(steps(50), np.random.default_rng(1).permutation(y))
    one, other = (resolve_priors(get_regime("oscillator"), rows_of(run)) for run in logs)
    for name, prior in one.items():
        assert prior.median == pytest.approx(other[name].median, abs=1e-12)
        assert prior.spread == pytest.approx(other[name].spread)


FIXED = "number above 0 to fix relaxation_time at"


@pytest.mark.parametrize(
    ("name", "prior", "message"),
    [
        ("relaxation_time", dist.Normal(1.0, 1.0), "is positive, but Normal puts 1"),
        ("relaxation_time", dist.Normal(-50.0, 1.0), "is positive, but most of Normal"),
        ("relaxation_time", dist.Poisson(3.0), "continuous distribution of one number, found Poisson"),
        ("relaxation_time", dist.LogNormal(np.zeros(2), 1.0), "continuous distribution of one number"),
        ("fixed_point", dist.StudentT(3.0, 0.5, 0.1), "expected a Normal with one mean and sd"),
        ("curvature", (1, 1), "has no such parameter; it has relaxation_time"),
        ("relaxation_time", (1, 0), "spread above 0"),
        ("relaxation_time", (-1, 1), "is positive"),
        ("relaxation_time", (float("nan"), 1), "finite median"),
        ("relaxation_time", {"mean": 3}, "two numbers"),
        *(("relaxation_time", value, FIXED) for value in (-1.0, 0, float("nan"), dist.Delta(-3.0))),
    ],
)
def test_priors_that_cannot_be_are_refused(name, prior, message, table):
    with pytest.raises(PriorError, match=message):
        resolve_priors(EXPONENTIAL, table, {name: prior})


def test_quantiles_keep_both_tails():
    time = next(p for p in EXPONENTIAL.parameters if p.name == "relaxation_time")
    found = np.array(tabulated(time, dist.LogNormal(1.0, 0.5)).quantiles)
    np.testing.assert_allclose(found, 1.0 + 0.5 * GRID, atol=1e-5)


def _density(values, rows):
    return EXPONENTIAL.distribution(values, rows).log_prob(rows.y)


@pytest.mark.parametrize(
    ("regime", "name", "given"),
    few(
        [
            ("oscillator", "damping_ratio", dist.Uniform(-1.0, 1.0)),
            ("oscillator", "response_time", dist.Uniform(0.1, 3.0)),
            ("flat", "fluctuation_time", dist.LogNormal(-1.0, 0.5)),
            *(
                ("flat", "observation_sd", x)
                for x in (dist.Gamma(3.0, 2.0), dist.HalfNormal(2.0), dist.HalfCauchy(1.0))
            ),
            ("flat", "observation_sd", dist.InverseGamma(3.0, 2.0)),
        ],
        "fluctuation_time",
        by=lambda case: case[1],
    ),
)
def test_a_distribution_over_a_parameter_is_its_prior(regime, name, given, table):
    """Also where the default prior is bound to the rows: growth within the log, times no shorter than half a row."""
    target = target_of(get_regime(regime), table, {name: given})
    drawn = draw_prior(target, np.random.default_rng(0), 20_000)[name]
    shares = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]
    expected = np.quantile(np.asarray(given.sample(jax.random.key(1), (200_000,))), shares)
    np.testing.assert_allclose([np.mean(drawn < x) for x in expected], shares, atol=0.012)
    sites = Predictive(get_regime(regime).model, num_samples=1)(jax.random.key(0), table, {name: given})
    assert f"{name}_free" not in sites
    conditioned: Any = numpyro.handlers.condition(get_regime(regime).model, {name: jnp.asarray(0.7)})
    with numpyro.handlers.seed(rng_seed=0):
        assert float(conditioned(table, {name: given})[name]) == pytest.approx(0.7)


@pytest.mark.parametrize("handler", [numpyro.handlers.condition, numpyro.handlers.do])
def test_a_handler_that_numpyro_would_ignore_is_refused(handler, table):
    model, time = EXPONENTIAL.model, {"relaxation_time": jnp.asarray(5.0)}
    with numpyro.handlers.seed(rng_seed=0):
        with pytest.raises(SettingError, match=r"'relaxation_time'.*relaxation_time_free"):
            handler(model, data=time)(table)
        with pytest.raises(SettingError, match="'fixed_point'"):
            handler(model, data={"fixed_point": jnp.asarray(0.8)})(table, marginalize=True)
        drawn = handler(model, data=time | {"relaxation_time_free": jnp.log(5.0)})(table)
        with pytest.raises(SettingError, match="'fixed_point'"):
            numpyro.handlers.substitute(model, {"fixed_point": jnp.asarray(0.8)})(table, marginalize=True)
        replaced: Any = numpyro.handlers.substitute(model, time)(table)
    assert float(drawn["relaxation_time"]) == pytest.approx(5.0, rel=0.01)
    assert float(replaced["relaxation_time"]) == 5.0


@pytest.mark.parametrize(("zeta", "times"), few([(0.1, 2.258), (0.5, 1.189), (2.0, 1.015)], (0.5, 1.189)))
def test_fluctuation_sd_says_the_stationary_sd_of_an_oscillator(zeta, times, table):
    """As its meaning states; far from the start nothing of the initial state is left."""
    assert times == pytest.approx(np.sqrt(np.sqrt(1 + 4 * zeta**2) / (2 * zeta)), abs=1e-3)
    rows = padded(table)._replace(window=None, gap=np.asarray(1e4), rate=None)
    values = {"response_time": 10.0, "damping_ratio": zeta, "fluctuation_sd": 0.03, "observation_sd": 0.05}
    levels = {"fixed_point": (0.5, 0.0), "initial_reward": (0.5, 0.0)}
    space = jax.jit(lambda drawn: get_regime("oscillator").state_space(drawn, levels, rows))(values)
    assert float(space.observation_var) == pytest.approx((0.03 * times) ** 2, rel=2e-3)
