import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayes_grpo.logs.hygiene import merge_steps, row_windows, tidy
from bayes_grpo.logs.keyindex import Columns, KeyIndex
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainers import GENERIC

NAN = np.nan
STEPS = st.lists(st.integers(0, 12), max_size=40)


def table(step, **columns):
    return np.array(step, float), {k: np.array(v, float) for k, v in columns.items()}


def tidied(step, train, evals=None):
    columns = Columns(KeyIndex(Table(0, {})), GENERIC, step, train, np.full(len(step), NAN) if evals is None else evals)
    return tidy(columns, np.zeros(len(step), bool), 1.0, np.zeros(len(step)))


def test_an_evaluation_logged_late_replaces_nothing():
    step, columns = table([1, 2, 3, 2], reward=[0.1, 0.2, 0.3, NAN], kl=[1, 2, 3, NAN])
    evals = np.array([NAN, NAN, NAN, 0.9])
    rows = tidied(step, columns, evals)
    np.testing.assert_array_equal(rows.train["reward"], [0.1, 0.2, 0.3])
    np.testing.assert_array_equal((rows.eval_step, rows.eval_reward), ([2], [0.9]))


@given(STEPS)
def test_merging_keeps_the_last_value_of_every_step(steps):
    step = np.array(steps, float)
    values = np.arange(len(steps), dtype=float)
    merged, columns, repeated = merge_steps(step, {"reward": values})
    last = {s: i for i, s in enumerate(steps)}
    assert list(merged) == sorted(last)
    assert list(columns["reward"]) == [last[s] for s in sorted(last)]
    assert repeated == sum(steps.count(s) > 1 for s in set(steps))


@given(STEPS, st.randoms())
def test_tidy_does_not_depend_on_the_order_of_distinct_steps(steps, random):
    steps = sorted(set(steps))
    shuffled = random.sample(steps, len(steps))
    rows = tidied(np.array(shuffled, float), {"reward": np.array(shuffled, float)})
    np.testing.assert_array_equal(rows.step, steps)
    np.testing.assert_array_equal(rows.train["reward"], steps)


def test_rows_without_a_step_are_left_out_and_counted():
    step, columns = table([1, NAN, 3], reward=[0.1, 0.2, 0.3])
    rows = tidied(step, columns)
    np.testing.assert_array_equal(rows.step, [1, 3])
    assert "1 row without a step left out" in rows.notes


def test_what_is_zero_throughout_was_not_computed():
    step, columns = table([1, 2, 3], reward=[0.1, 0.2, 0.3], entropy=[0, 0, 0], kl=[0, 0, 0])
    rows = tidied(step, columns)
    assert set(rows.train) == {"reward"}
    assert [note.split()[0] for note in rows.notes] == ["entropy", "kl"]
    step, columns = table([1, 2, 3], reward=[0.1, 0.2, 0.3], entropy=[0, 0, 0.1], kl=[0, 1e-6, 0])
    assert set(tidied(step, columns).train) == {"reward", "entropy", "kl"}


@given(st.lists(st.integers(-5, 10_000), min_size=1, unique=True), st.floats(0.1, 500))
def test_windows_are_positive_and_at_most_the_logging_window(steps, window):
    windows = row_windows(np.array(sorted(steps), float), window)
    assert np.all((windows > 0) & (windows <= window))
