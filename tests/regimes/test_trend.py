"""The laws with a given mean against ODE solvers and dense normals."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.common.errors import FitError
from bayes_grpo.dynamics import kalman
from bayes_grpo.dynamics.flows import CENTRED, NORMALISED, centred_logit, half_logit
from bayes_grpo.dynamics.sampling import mean_path
from bayes_grpo.fitting.sampling.target import potential, prior_numbers
from bayes_grpo.regimes import REGIMES, get_regime
from bayes_grpo.regimes.common import FLUCTUATION, _net_rate
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers import nonlinear
from tests.helpers.reference import dense_log_density
from tests.helpers.runs import evaluated, make_run
from tests.helpers.selection import few

TRENDS = ("bernoulli", "logistic", "sigmoid")
NEW = ("flat", *TRENDS)
LEVELS = {"fixed_point": (0.7, 0.4), "initial_reward": (0.2, 0.3)}
NOISES = {"fluctuation_time": 3.0, "fluctuation_sd": 0.05, "observation_sd": 0.04}
VALUES = {
    "flat": NOISES,
    "bernoulli": {"half_gain_step": 35.0, "initial_success": 0.08, **NOISES},
    "logistic": {"half_gain_step": 35.0, "initial_success": 0.15, **NOISES},
    "sigmoid": {"midpoint": 40.0, "exponent": 1.7, **NOISES},
}
KINDS = ("plain", "late", "instant", "windows", "everything")


@lru_cache
def table_of(kind: str, n: int = 40):
    """Rows of several kinds of windows, gaps and learning rates."""
    rng = np.random.default_rng(3)
    step = np.arange(1.0, n + 1)
    settings: dict[str, Any] = {}
    rng.uniform(size=n)
    window, signals = np.ones(n), {}
    if kind == "late":
        step = step + 25.0
    if kind == "windows":
        step, window = 4.0 * step, np.full(n, 4.0)
    if kind == "everything":
        step = np.cumsum(rng.integers(2, 6, n)).astype(float) + 8.0
        window = rng.choice([1.0, 2.0], n)
        signals["learning_rate"] = 1e-5 * np.linspace(1.0, 0.1, n)
        settings = {"schedule": "logged"}
    y = 0.2 + 0.4 * (1 - np.exp(-step / 30)) + 0.05 * rng.standard_normal(n)
    if kind == "instant":
        return rows_of(make_run(step, np.full(n, np.nan), evals=evaluated(step * 1.5, y)))
    return rows_of(make_run(step, y, window=window, signals=signals, **settings))


def space_of(name, table):
    """State space of a law on unpadded rows."""
    values, regime = jax.tree.map(jnp.asarray, VALUES[name]), get_regime(name)
    return regime.state_space(
        values, {p.name: LEVELS[p.name] for p in regime.marginalized}, padded(table, len(table.y))
    )


def unforced(name, table):
    """Share of the way left in every row, by solver or quadrature."""
    values = VALUES[name]
    if name in nonlinear.POWERS:
        return (1 - nonlinear.path(name, values, table)[0]) / (1 - values["initial_success"])
    if name == "sigmoid":
        return nonlinear.sigmoid_means(values, table)
    return np.zeros(len(table.y))


@pytest.mark.parametrize("kind", few(KINDS, "everything"))
@pytest.mark.parametrize("name", few(NEW, "logistic"))
def test_unforced_mean_is_the_law_s(name, kind):
    table, n = table_of(kind), len(table_of(kind).y)
    with jax.enable_x64(True):
        state = jnp.asarray([0.0, 0.7] if name == "flat" else [0.2 - 0.7, 0.0, 0.7])
        found = np.asarray(jax.jit(lambda: mean_path(space_of(name, table), state, n))())
    wanted = 0.7 + (0.2 - 0.7) * unforced(name, table)
    # Windows that begin where a power of the step is not smooth cost the quadrature digits.
    np.testing.assert_allclose(found, wanted, atol=2e-6 if name == "sigmoid" else 1e-8)
    np.testing.assert_allclose(found[3:], wanted[3:], atol=1e-8)


@pytest.mark.parametrize("kind", few(KINDS, "everything"))
@pytest.mark.parametrize("name", few(NEW, "bernoulli"))
def test_likelihood_is_the_dense_normal_s(name, kind):
    table, values = table_of(kind), VALUES[name]
    ones, back = np.ones(len(table.y)), 1 / values["fluctuation_time"]
    row_rate = gap_rate = back * ones
    if name in nonlinear.POWERS:
        _, middle, gap_middle = nonlinear.path(name, values, table)
        rate, power = nonlinear.flow_rate(name, values) * table.rate, nonlinear.POWERS[name]
        row_rate, gap_rate = (back - rate * nonlinear.slope(p, power) for p in (middle, gap_middle))
    share = unforced(name, table)
    (fixed, fixed_sd), (first, first_sd) = LEVELS["fixed_point"], LEVELS["initial_reward"]
    stationary = name not in nonlinear.POWERS
    cov = nonlinear.fluctuation_cov(values, table, row_rate, gap_rate, stationary)
    cov += fixed_sd**2 * np.outer(1 - share, 1 - share) + first_sd**2 * np.outer(share, share) * (name != "flat")
    cov += np.diag(values["observation_sd"] ** 2 / table.precision)
    wanted = dense_log_density(table.y, fixed + (first - fixed) * share, cov)
    with jax.enable_x64(True):
        found = jax.jit(lambda y: kalman.log_likelihood(space_of(name, table), y))(jnp.asarray(table.y))
    assert float(found) == pytest.approx(wanted, abs=1e-4 if name == "sigmoid" else 1e-7)


@pytest.mark.thorough
@pytest.mark.parametrize("name", few(NEW, "sigmoid"))
def test_gradient_is_finite_far_out_and_right_in_the_middle(name):
    regime, table = get_regime(name), table_of("everything")
    p = len(regime.sampled)
    corners = [s * np.eye(p)[i] for i in range(p) for s in (-3.0, 3.0)]
    corners += list(3.0 * np.random.default_rng(0).choice([-1.0, 1.0], (8, p)))
    with jax.enable_x64(True):
        prior, rows = prior_numbers(regime, resolve_priors(regime, table)), padded(table)
        both = jax.jit(jax.value_and_grad(lambda z: potential(regime, z, prior, rows)))
        for z in corners:
            value, slope = both(jnp.asarray(z))
            assert np.isfinite(float(value)), z
            assert np.isfinite(np.asarray(slope)).all(), z
        z = np.linspace(-0.5, 0.7, p)
        step = 1e-5
        ends = [(both(jnp.asarray(z + step * e))[0], both(jnp.asarray(z - step * e))[0]) for e in np.eye(p)]
        numeric = [(float(up) - float(down)) / (2 * step) for up, down in ends]
        np.testing.assert_allclose(both(jnp.asarray(z))[1], numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("flow", [pytest.param(NORMALISED, marks=pytest.mark.thorough), CENTRED])
def test_flows_far_from_the_middle(flow):
    with jax.enable_x64(True):
        logit = jnp.linspace(-20.0, 20.0, 401)
        c = jax.jit(flow.coordinate)(logit)
        place = jax.jit(flow.position)(c)
        np.testing.assert_allclose(flow.failure(place), jax.nn.sigmoid(-logit), rtol=1e-8)
        half = jax.jit(half_logit)(logit)
        np.testing.assert_allclose(jax.nn.sigmoid(-half), 0.5 * jax.nn.sigmoid(-logit), rtol=1e-12)
        power = 1.5 if flow is NORMALISED else 2.0
        p = np.asarray(jax.nn.sigmoid(logit))
        near = np.abs(logit) < 8
        np.testing.assert_allclose(flow.slope(place)[near], nonlinear.slope(p, power)[near], rtol=1e-6, atol=1e-12)
        # d(failure)/dt at coordinate speed 1/2 is minus the drift.
        change = 0.5 * jax.jit(jax.vmap(jax.grad(lambda x: flow.failure(flow.position(x)))))(c)
        np.testing.assert_allclose(-change[near], nonlinear.drift(p, power)[near], rtol=1e-8)


def test_centred_logit_solves_its_equation_with_all_derivatives():
    with jax.enable_x64(True):
        c = jnp.concatenate([-jnp.geomspace(1e-9, 1e12, 200), jnp.zeros(1), jnp.geomspace(1e-9, 1e12, 200)])
        z = jax.jit(centred_logit)(c)
        np.testing.assert_allclose(z + jnp.sinh(z), c, rtol=2e-14, atol=1e-22)
        z = jnp.asarray(1.3)
        second = jax.jit(jax.grad(jax.grad(centred_logit)))(z + jnp.sinh(z))
        assert float(second) == pytest.approx(float(-jnp.sinh(z) / (1 + jnp.cosh(z)) ** 3), rel=1e-10)


@pytest.mark.parametrize("name", [name for name in REGIMES if name != "flat"])
def test_too_few_rows_are_refused_with_the_number_needed(name):
    regime = get_regime(name)
    needed = len(regime.parameters) + 2
    regime.check(table_of("plain", needed))
    with pytest.raises(FitError, match=f"regime {name}: needs at least {needed} rows.* found {needed - 1};.*flat"):
        regime.check(table_of("plain", needed - 1))
    get_regime("flat").check(table_of("plain", 4))


@pytest.mark.parametrize("name", NEW)
def test_derived_quantities_are_the_law_s(name):
    table, regime = table_of("plain"), get_regime(name)
    values = {k: np.full((2, 3), v) for k, v in VALUES[name].items()} | {
        "fixed_point": np.full((2, 3), 0.7),
        "initial_reward": np.full((2, 3), 0.2),
    }
    found = {k: float(np.unique(v)[0]) for k, v in regime.derived(values, table).items()}
    if name == "flat":
        assert found == {"initial_reward": 0.7}
    if name in nonlinear.POWERS:
        p0 = VALUES[name]["initial_success"]
        assert found["flow_rate"] == pytest.approx(nonlinear.flow_rate(name, VALUES[name]), rel=1e-9)
        assert found["floor"] + (0.7 - found["floor"]) * p0 == pytest.approx(0.2)
    if name == "sigmoid":
        assert found["half_gain_step"] == pytest.approx(40.0)
        late = regime.derived(values, replace(table, start=25.0))["half_gain_step"][0, 0] + 25.0
        left = [1 / (1 + (c / 40.0) ** 1.7) for c in (25.0, late)]
        assert left[1] == pytest.approx(left[0] / 2)


def test_the_fluctuation_s_prior_is_no_trend():
    prior = FLUCTUATION[0].default(table_of("plain"))
    assert prior.median == pytest.approx(2.0)
    assert prior.median * np.exp(2.3 * prior.spread) < 40.0 / 3.0


def test_growth_of_a_fluctuation_is_cut_off_smoothly():
    with jax.enable_x64(True):
        rate = jnp.asarray(0.2)
        slopes = jnp.linspace(-1.0, 5.0, 601)
        net = np.asarray(jax.jit(_net_rate)(rate, slopes))
        plain = 0.2 - np.asarray(slopes)
        np.testing.assert_array_equal(net[plain > 0.05], plain[plain > 0.05])
        assert (net > 0).all()
        assert (np.diff(net) < 0).all()
        change = np.asarray(jax.jit(jax.vmap(jax.grad(_net_rate, 1), (None, 0)))(rate, slopes))
        assert np.abs(np.diff(change)).max() < 0.25  # no jump of the derivative from -1 to 0
