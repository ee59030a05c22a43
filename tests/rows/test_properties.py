"""What holds for the rows of any log: steps increase, windows stay apart, blocks keep means, padding says nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_grpo.dynamics import associative, kalman
from bayes_grpo.regimes.built_in.oscillator import Oscillator
from bayes_grpo.rows.padding import Rows, padded, shared
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import row_blocks
from tests.helpers.selection import examples
from tests.helpers.strategies import runs

LAW = Oscillator()
VALUES = {"response_time": 12.0, "damping_ratio": 0.7, "observation_sd": 0.1, "fluctuation_sd": 0.05}
LEVELS = {"fixed_point": (0.6, 0.5), "initial_reward": (0.2, 0.4)}


@given(run=runs(), limit=st.sampled_from([2048, 12, 5, 4]))
@examples(2)
def test_steps_increase_and_windows_do_not_overlap(run, limit):
    table = rows_of(run, max_rows=limit)
    there = np.isfinite(run.reward)
    assert len(table.y) == min(there.sum(), limit)
    assert np.all(np.diff(table.step) > 0)
    assert table.step[-1] == run.step[there][-1]
    assert np.all(table.window > 0)
    begin = table.step - table.window
    assert begin[0] == table.start
    assert np.all(begin[1:] >= table.step[:-1] - 1e-9)
    np.testing.assert_allclose(table.gap(), begin - np.concatenate([[table.start], table.step[:-1]]), atol=1e-9)
    assert np.all((table.rate >= 0) & (table.rate <= 1 + 1e-12))
    assert np.all(table.weight > 0)
    if there.sum() <= limit:
        np.testing.assert_array_equal(table.step, run.step[there])
        np.testing.assert_array_equal(table.y, run.reward[there])
        assert np.all(table.window <= run.window[there])


@given(n=st.integers(1, 400), limit=st.integers(1, 90), seed=st.integers(0, 5))
@examples(2)
def test_blocks_hold_every_row_once_and_keep_the_mean(n, limit, seed):
    found = row_blocks(n, limit)
    assert len(found.start) == min(n, limit)
    np.testing.assert_array_equal(found.start, np.concatenate([[0], found.last[:-1] + 1]))
    assert found.last[-1] == n - 1
    assert found.size.max() - found.size.min() <= 1
    y = np.random.default_rng(seed).normal(size=n)
    np.testing.assert_allclose(found.mean(y) @ found.size / n, y.mean(), atol=1e-12)


@given(run=runs(sizes=(13, 24, 40), missing=False), limit=st.integers(4, 12))
def test_averaged_rows_keep_mean_span_and_completions(run, limit):
    whole, averaged = rows_of(run), rows_of(run, max_rows=limit)
    size = row_blocks(len(whole.y), limit).size
    np.testing.assert_allclose(averaged.y @ size, whole.y.sum(), atol=1e-9)
    np.testing.assert_allclose(averaged.rate @ size, whole.rate.sum())
    np.testing.assert_allclose(averaged.weight.mean(), whole.weight.mean())
    assert (averaged.start, averaged.step[-1]) == (whole.start, whole.step[-1])


@jax.jit
def scores(rows: Rows):
    """Log likelihood step by step, and by the associative scan."""
    values = {name: jnp.asarray(value) for name, value in VALUES.items()}
    space, y = LAW.state_space(values, LEVELS, rows), jnp.asarray(rows.y)
    return kalman.sequential_log_likelihood(space, y), associative.log_likelihood(space, y)


@pytest.mark.thorough
@given(run=runs(sizes=(6, 21), missing=False))  # two lengths, so that few programs are compiled
@examples(0.04)
def test_padding_never_changes_the_likelihood(run):
    table = rows_of(run)
    with jax.enable_x64(True):
        plain, _ = scores(padded(table, len(table.y)))
        for rows in (padded(table), shared(table)):
            assert len(rows.y) > len(table.y)
            np.testing.assert_allclose(scores(rows), plain, rtol=1e-8, atol=1e-8)
