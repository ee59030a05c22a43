"""Leave-future-out: against the filter's innovations, a dense forecast, exact refits, and blind to the future."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_grpo.common.errors import FitError
from bayes_grpo.comparison.scores import MIN_TRAINING, forecast_origins, leave_future_out
from bayes_grpo.dynamics import kalman
from bayes_grpo.fitting.draws import sample_posterior
from bayes_grpo.fitting.sampling.target import state_space, target_of
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.padding import first_rows, padded
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.runs import make_run


@pytest.fixture(scope="module")
def table(synthetic_run):
    return rows_of(synthetic_run)


@pytest.mark.parametrize(("n", "first", "horizon", "count"), [(400, 200, 40, 5), (40, 20, 4, 5), (12, 8, 1, 4)])
def test_origins_cover_the_second_half(n, first, horizon, count):
    rng = np.random.default_rng(0)
    origins, rows = forecast_origins(rows_of(make_run(np.arange(1.0, n + 1), rng.standard_normal(n))))
    assert (origins[0], rows, len(origins)) == (first, horizon, count)
    assert origins[-1] + rows == n
    assert min(origins) >= MIN_TRAINING


def test_too_few_rows_or_a_constant_start_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(FitError, match="needs 3 forecast origins"):
        forecast_origins(rows_of(make_run(np.arange(1.0, 9), rng.standard_normal(8))))
    late = np.where(np.arange(30) < 29, 0.0, 1.0)
    with pytest.raises(FitError, match="changing rows"):
        forecast_origins(rows_of(make_run(np.arange(1.0, 31), late)))


def test_a_refit_knows_nothing_of_later_rows(table):
    cut = 25
    other = replace(table, y=np.where(np.arange(len(table.y)) < cut, table.y, 7.0))
    regime = get_regime("oscillator")
    one, two = ((t.before(cut), first_rows(padded(t), t.before(cut))) for t in (table, other))
    assert len(one[0].y) == cut
    assert float(one[1].length) == one[0].length
    assert resolve_priors(regime, one[0]) == resolve_priors(regime, two[0])
    for a, b in zip(jax.tree.leaves(one[1]), jax.tree.leaves(two[1]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert jax.tree.structure(one[1]) == jax.tree.structure(padded(table))
    assert [np.shape(x) for x in jax.tree.leaves(one[1])] == [np.shape(x) for x in jax.tree.leaves(padded(table))]


@pytest.mark.thorough
def test_scores_are_those_of_the_filter_and_of_nuts(table):
    """Block scores against the filter's innovations, averaged over draws of NUTS on the rows before the block."""
    regime = get_regime("exponential")
    scores = leave_future_out(regime, table, seed=1)
    origins, horizon = forecast_origins(table)
    for i in (0, 2):
        cut = int(origins[i])
        first = table.before(cut)
        target = target_of(regime, first, arrays=first_rows(padded(table), first))
        draws = sample_posterior(target, seed=5).draws.z[:, ::2]
        prior, rows = target.arguments
        with jax.enable_x64(True):
            whole = rows._replace(y=padded(table).y)

            def innovations(z, prior=prior, whole=whole, cut=cut):
                f = kalman.filter_rows(state_space(regime, z, prior, whole), jnp.asarray(whole.y))
                term = -0.5 * (jnp.log(2 * jnp.pi * f.innovation_var) + f.innovation**2 / f.innovation_var)
                return term[cut : cut + horizon].sum()

            terms = np.asarray(jax.lax.map(innovations, draws.reshape(-1, draws.shape[-1]), batch_size=200))
        assert scores[i] == pytest.approx(np.log(np.mean(np.exp(terms))), abs=0.06)
