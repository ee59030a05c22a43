"""The filter in blocks with coefficients of its own for every row: gradient, order of the rows, known levels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.dynamics import blocks, kalman, likelihood, stretches
from bayes_grpo.regimes.built_in.exponential import Exponential
from bayes_grpo.regimes.built_in.flat import Flat
from bayes_grpo.regimes.built_in.logistic import Logistic
from bayes_grpo.regimes.built_in.oscillator import Oscillator
from bayes_grpo.regimes.built_in.reduction import Reduction
from bayes_grpo.regimes.built_in.sigmoid import Sigmoid
from bayes_grpo.rows.clock import clocked
from bayes_grpo.rows.padding import Rows
from tests.helpers.selection import few

LEVELS = {"fixed_point": (0.6, 0.5), "initial_reward": (0.2, 0.4)}
N = 100
REGIMES = [Oscillator(), Exponential(), Reduction(), Sigmoid(), Logistic(), Flat()]


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def falling_rows(missing: int = 7) -> Rows:
    """Rows one step apart under a falling learning rate, the last ones missing; weights differ."""
    rng = np.random.default_rng(2)
    step = np.arange(1.0, N + 1)
    y = 0.2 + 0.4 * (1 - np.exp(-step / 30)) + 0.05 * rng.standard_normal(N)
    y[N - missing :] = np.nan
    one = np.asarray(1.0)
    return Rows(
        y=y,
        window=one,
        gap=None,
        rate=np.linspace(1.0, 0.01, N),
        weight=rng.uniform(0.5, 2.0, N),
        start_speed=np.asarray(0.01),
        length=np.asarray(float(N)),
        spacing=one,
        start=np.asarray(0.0),
        momentum=np.asarray(0.9),
        refresh=np.asarray(4.0),
    )


def values_at(regime, free):
    """Parameters of a regime by their logarithms, near those of the rows."""
    typical = {"exponent": 1.5, "observation_sd": 0.05, "fluctuation_sd": 0.03, "damping_ratio": 1.2}
    typical |= {"lag_exposure": 0.4, "initial_success": 0.3}
    return {p.name: typical.get(p.name, 20.0) * jnp.exp(free[i]) for i, p in enumerate(regime.sampled)}


def density(regime, filter_, rows, levels=LEVELS):
    def at(free):
        return filter_(regime.state_space(values_at(regime, free), levels, rows), jnp.asarray(rows.y))

    return at


def close(one, other, digits=1e-9):
    scale = np.max(np.abs(other))
    np.testing.assert_allclose(one, other, rtol=0, atol=digits * max(scale, 1.0))


@pytest.mark.parametrize("regime", few(REGIMES, Exponential()), ids=lambda r: r.name)
def test_value_and_gradient_are_those_of_the_plain_filter(regime):
    rows, free = falling_rows(), 0.3 * np.random.default_rng(0).standard_normal(len(regime.sampled))
    found, expected = (
        jax.jit(jax.value_and_grad(density(regime, f, rows)))(free)
        for f in (blocks.log_likelihood, kalman.log_likelihood)
    )
    assert float(found[0]) == pytest.approx(float(expected[0]), rel=1e-11)
    close(found[1], expected[1])


@pytest.mark.thorough
def test_hessian_is_that_of_the_plain_filter():
    """Forwards over reverse through the gradient's own rule."""
    regime, rows, free = Exponential(), falling_rows(), jnp.array([0.1, -0.2, 0.3])
    found, expected = (
        jax.jit(jax.hessian(density(regime, f, rows)))(free) for f in (blocks.log_likelihood, kalman.log_likelihood)
    )
    close(found, expected, 1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("regime", few([Oscillator(), Exponential()], Exponential()), ids=lambda r: r.name)
def test_derivatives_in_rows_and_levels_are_those_of_the_plain_filter(regime):
    """A model of one's own may sample rows and the priors of the levels."""
    rows = falling_rows(missing=0)

    def at(filter_):
        def one(y, mean, sd):
            levels = {name: (mean[i], sd[i]) for i, name in enumerate(LEVELS)}
            space = regime.state_space(values_at(regime, np.zeros(4)), levels, rows)
            return filter_(space, y)

        return jax.jit(jax.grad(one, argnums=(0, 1, 2)))

    point = jnp.asarray(rows.y), jnp.array([0.6, 0.2]), jnp.array([0.5, 0.4])
    for found, expected in zip(at(blocks.log_likelihood)(*point), at(kalman.log_likelihood)(*point), strict=True):
        close(found, expected)


@pytest.mark.thorough
def test_known_levels_have_a_likelihood_and_a_gradient():
    """A prior of no width is a parameter that is known, not a division by 0."""
    rows, known = falling_rows(), {"fixed_point": (0.6, 0.0), "initial_reward": (0.2, 0.0)}
    regime = Oscillator()
    found, expected = (
        jax.jit(jax.value_and_grad(density(regime, f, rows, known)))(np.zeros(4))
        for f in (blocks.log_likelihood, kalman.log_likelihood)
    )
    assert float(found[0]) == pytest.approx(float(expected[0]), rel=1e-11)
    close(found[1], expected[1])


@pytest.mark.thorough
@pytest.mark.parametrize("regime", few([r for r in REGIMES if r.row_by_row], Exponential()), ids=lambda r: r.name)
def test_laws_that_say_so_do_not_depend_on_the_order_of_the_rows(regime):
    rows, free = falling_rows(), 0.2 * np.random.default_rng(1).standard_normal(len(regime.sampled))

    def by_columns(free):
        values = values_at(regime, free)
        return likelihood.log_likelihood_of_rows(
            lambda rows: regime.state_space(values, LEVELS, rows), clocked(rows), jnp.asarray(rows.y)
        )

    found, expected = (
        jax.jit(jax.value_and_grad(f))(free) for f in (by_columns, density(regime, kalman.log_likelihood, rows))
    )
    assert float(found[0]) == pytest.approx(float(expected[0]), rel=1e-11)
    close(found[1], expected[1])


@pytest.mark.parametrize("regime", few([r for r in REGIMES if r.row_by_row], Logistic()), ids=lambda r: r.name)
def test_laws_that_say_so_are_the_same_on_stretches_of_the_rows(regime):
    rows = falling_rows()
    rows = jax.tree.map(lambda x: x[:96] if np.shape(x) == (N,) else x, rows)
    y, seen = jnp.asarray(rows.y), jnp.asarray(np.where(np.arange(96) < 50, rows.y, np.nan))
    values = values_at(regime, 0.2 * np.random.default_rng(1).standard_normal(len(regime.sampled)))

    @jax.jit
    def on_stretches():
        law = stretches.stretches_of(lambda rows: regime.state_space(values, LEVELS, rows), clocked(rows), 96, True)
        return stretches.log_likelihood(law, y), stretches.row_densities(law, jnp.stack([y, seen]), y)

    @jax.jit
    def at_once():
        space = regime.state_space(values, LEVELS, rows)
        return [kalman.log_likelihood(space, known) for known in (y, seen)]

    total, (stepwise, ahead) = on_stretches()
    expected, of_seen = at_once()
    assert float(total) == pytest.approx(float(expected), rel=1e-11)
    assert float(stepwise.sum()) == pytest.approx(float(expected), rel=1e-11)
    assert float(ahead[:50].sum()) == pytest.approx(float(of_seen), rel=1e-11)
    assert not np.allclose(ahead[51:90], stepwise[51:90])


@pytest.mark.thorough
def test_a_batch_is_its_members():
    rows, regime = falling_rows(), Oscillator()
    free = 0.3 * np.random.default_rng(3).standard_normal((5, 4))
    one = density(regime, blocks.log_likelihood, rows)
    np.testing.assert_allclose(jax.jit(jax.vmap(one))(free), [jax.jit(one)(z) for z in free], rtol=1e-12)


def test_rows_side_by_side_begin_with_the_first_of_every_block():
    count, length = blocks.block_sizes(70, varying=False)
    found = np.asarray(blocks.interleave(jnp.arange(70.0), count, jnp.nan)).reshape(length, count)
    np.testing.assert_array_equal(found[0], length * np.arange(count))
    assert np.isnan(found.T.ravel()[70:]).all()
