"""Rows of a run as the laws see them."""

from itertools import pairwise

import numpy as np
import pytest

from bayes_grpo.common.errors import FitError
from bayes_grpo.rows.padding import bucket, padded, shared
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.schedule import decay, schedule_of
from tests.helpers.paths import not_none
from tests.helpers.runs import make_run, rising_run, steps


def test_rows_without_a_value_become_gaps():
    table = rows_of(make_run([1, 2, 3, 4, 5, 6], [0.1, np.nan, 0.2, 0.3, np.nan, 0.4]))
    np.testing.assert_array_equal(table.step, [1, 3, 4, 6])
    np.testing.assert_array_equal(table.gap(), [0, 1, 0, 1])
    assert table.start == 0.0
    assert table.length == 6.0


def test_windows_never_overlap_and_weigh_by_their_steps():
    table = rows_of(make_run([10, 20, 30, 33], [0.1, 0.2, 0.3, 0.4], window=[10, 10, 10, 10]))
    np.testing.assert_array_equal(table.window, [10, 10, 10, 3])
    np.testing.assert_allclose(table.weight, [1, 1, 1, 0.3])


def test_constant_fields_become_scalars_or_vanish():
    rows = padded(rows_of(make_run([1, 2, 3, 4, 5], [1.1, 1.2, 1.3, 1.2, 1.4])))
    assert rows.y.shape == (32,)
    assert np.isnan(rows.y[5:]).all()
    assert np.shape(not_none(rows.window)) == ()
    assert rows.gap is None
    assert rows.rate is None
    assert rows.weight is None


def test_held_out_rows_are_instantaneous():
    run = make_run([1], [np.nan], evals={0: 0.1, 10: 0.2, 25: 0.3, 30: 0.4})
    table = rows_of(run)
    assert table.signal == "eval_reward"
    assert "evaluation reward was fitted instead" in table.notes[0]
    np.testing.assert_array_equal(table.window, 0)
    np.testing.assert_array_equal(table.gap(), [0, 10, 15, 5])


def test_rows_tell_of_policies_within_their_window_and_as_old_as_the_sampling_policy():
    run = make_run(5.0 * steps(20), np.linspace(0.1, 0.5, 20), window=5.0, refresh_interval=9)
    assert rows_of(run, "reward").lag == 2.5 + 4.0
    held = make_run([1], [np.nan], evals={0: 0.1, 10: 0.2, 25: 0.3, 30: 0.4}, refresh_interval=9)
    assert rows_of(held).lag == 0.0  # an evaluation is of the policy of its step


def test_logged_learning_rate_is_the_mean_over_the_rows_way():
    rates = np.array([4e-6, 3e-6, 2e-6, 1e-6])
    table = rows_of(make_run([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4], signals={"learning_rate": rates}, schedule="logged"))
    np.testing.assert_allclose(table.rate, [1.0, 0.875, 0.625, 0.375])
    assert table.reference_rate == 4e-6


@pytest.mark.parametrize(("schedule", "last"), [("linear", 0.5), ("cosine", 0.5), ("constant", 1.0)])
def test_stated_schedule(schedule, last):
    table = rows_of(make_run([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4], schedule=schedule, total_steps=8))
    assert table.rate[-1] == pytest.approx(last)


def test_long_logs_are_averaged_in_blocks():
    n = 5000
    table = rows_of(make_run(np.arange(1, n + 1), np.sin(np.arange(n))), max_rows=1000)
    assert len(table.y) == 1000
    np.testing.assert_allclose(table.y[1], np.sin(np.arange(5, 10)).mean())
    assert table.window[1] == 5
    assert table.step[1] == 10
    np.testing.assert_array_equal(table.gap(), 0)
    assert "averaged in blocks of 5" in table.notes[-1]


@pytest.mark.parametrize(
    ("run", "signal", "words"),
    [
        (make_run([1, 2, 3], [1, 2, 3]), "auto", "at least 4 rows"),
        (make_run(range(9), [0.5] * 9), "auto", "never changes"),
        (make_run(range(9), range(9)), "eval", "no evaluation reward"),
        (make_run(range(9), [np.nan] * 9, evals={1: 1}), "reward", 'signal="eval"'),
        (make_run(range(9), [np.nan] * 9), "auto", 'columns={"reward": "KEY"}'),
        (make_run(range(9), range(9)), "loss", "expected auto, reward or eval"),
    ],
)
def test_what_cannot_be_fitted_is_said(run, signal, words):
    with pytest.raises(FitError, match=words):
        rows_of(run, signal)


def test_buckets_grow_by_at_most_a_quarter():
    sizes = sorted({bucket(n) for n in range(1, 3000)})
    assert sizes[:9] == [32, 40, 48, 56, 64, 80, 96, 112, 128]
    assert all(bucket(n) >= n for n in range(1, 3000))
    table = rows_of(rising_run(50))
    assert (len(padded(table).y), len(shared(table).y)) == (bucket(50), bucket(50, 1))
    assert max(b / a for a, b in pairwise(sizes)) <= 1.25


def schedule_read_off(step, rate):
    """The schedule of a log with these learning rates."""
    run = make_run(step, 0.01 * step, signals={"learning_rate": rate}, schedule="logged")
    return schedule_of(rows_of(run), dict(run.settings.items()))


@pytest.mark.parametrize(
    ("shape", "end", "every"),
    [("linear", 501.0, 1.0), ("linear", 40.0, 1.0), ("linear", 160.0, 5.0), ("cosine", 301.0, 1.0)],
)
def test_a_decay_that_has_hardly_begun_is_read_off_to_its_end(shape, end, every):
    step = every * np.arange(1.0, 31.0)
    rate = 1e-6 * decay(shape, step, every, end)
    found = schedule_read_off(step, rate)
    assert found.shape == shape
    assert found.total_steps == pytest.approx(end, rel=1e-6 if shape == "linear" else 0.02)


@pytest.mark.parametrize(("rows", "ends"), [(80, 80.0), (70, 80.0), (28, 40.0)])
def test_a_decay_that_began_again_is_read_off_its_last_phase(rows, ends):
    step = np.arange(1.0, rows + 1.0)
    left = -step % 20.0  # the rate reaches 0 at every 20th step, and begins anew
    found = schedule_read_off(step, 5e-6 * left / 20.0)
    assert found.ends == pytest.approx(ends, abs=0.5)
    assert found.assumed != ""
