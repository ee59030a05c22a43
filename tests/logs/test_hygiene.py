"""One row a step: parts are averaged, a resume is cut over, an exception leaves its last record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_grpo.logs import read_log
from bayes_grpo.logs.columns import Columns
from bayes_grpo.logs.hygiene import abandoned, mean_of_parts, merge_steps, tidy
from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.run import row_windows
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainers import GENERIC
from tests.logs.log_samples import assert_read

STEPS = st.lists(st.integers(0, 12), max_size=40)


def rows_at(steps, offset=0.0, **more):
    return [{"step": int(s), "reward": offset + 0.01 * s, "kl": 0.1} | more for s in steps]


@given(STEPS)
def test_merging_keeps_the_last_value_of_every_step(steps):
    step = np.array(steps, float)
    merged, columns, repeated = merge_steps(step, {"reward": np.arange(len(steps), dtype=float)})
    last = {s: i for i, s in enumerate(steps)}
    assert list(merged) == sorted(last)
    assert list(columns["reward"]) == [last[s] for s in sorted(last)]
    assert repeated == sum(steps.count(s) > 1 for s in set(steps))


@given(st.sets(st.integers(0, 12)), st.randoms())
def test_the_order_of_distinct_steps_does_not_matter(steps, random):
    shuffled = np.array(random.sample(sorted(steps), len(steps)), float)
    nothing = np.full(len(steps), np.nan)
    columns = Columns(KeyIndex(Table(0, {})), GENERIC, shuffled, {"reward": shuffled}, nothing)
    rows = tidy(columns, np.zeros(len(steps), bool), 1.0, np.zeros(len(steps)))
    np.testing.assert_array_equal(rows.step, sorted(steps))
    np.testing.assert_array_equal(rows.reward, sorted(steps))


@given(st.lists(st.integers(-5, 10_000), min_size=1, unique=True), st.floats(0.1, 500))
def test_windows_are_positive_and_at_most_the_logging_window(steps, window):
    windows = row_windows(np.array(sorted(steps), float), window)
    assert np.all((windows > 0) & (windows <= window))


@given(st.lists(st.integers(1, 5), min_size=5, max_size=20), st.floats(-1e6, 1e6))
def test_equal_parts_have_exactly_their_value(sizes, value):
    step = np.repeat(np.arange(float(len(sizes))), sizes)
    columns, averaged, usual = mean_of_parts(step, {"reward": np.full(len(step), value)})
    kept = columns["reward"][np.isfinite(columns["reward"])]
    np.testing.assert_array_equal(kept, value)
    if averaged:
        assert (len(kept), usual) == (len(sizes), round(np.median(sizes)))


@pytest.mark.parametrize(
    "steps",
    [[1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6, 3, 7], [1, 2, 3, 6, 7, 8, 4, 5]],
    ids=["in order", "backwards", "a late line", "a block moved"],
)
def test_what_is_no_resume_loses_nothing(steps):
    train, _, resumes = abandoned(np.array(steps, float), np.ones(len(steps)), np.zeros(len(steps)))
    assert not train.any()
    assert not resumes


def test_files_of_one_run_do_not_cut_each_other(write):
    paths = [write("a.jsonl", rows_at(range(1, 31))), write("b.jsonl", rows_at(range(10, 21), offset=0.5))]
    run = read_log(paths)
    later = (run.step >= 10) & (run.step <= 20)
    assert_read(run, step=range(1, 31), reward=0.01 * run.step + 0.5 * later)


@given(STEPS, st.lists(st.integers(0, 1), min_size=40, max_size=40))
def test_the_steps_of_the_last_attempt_always_stay(steps, files):
    step, file = np.array(steps, float), np.sort(np.array(files[: len(steps)], float))
    train, evals, resumes = abandoned(step, np.ones(len(steps)), file)
    last = int(np.flatnonzero(np.r_[True, (np.diff(step) < 0) | (np.diff(file) != 0)])[-1]) if steps else 0
    assert not train[last:].any()
    assert not np.any(train & ~evals)
    if resumes:
        assert min(resumes) in step[~train]
    else:
        assert not evals.any()
