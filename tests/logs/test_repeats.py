"""Several records of one step: parts are averaged, a resume is cut over, an exception leaves its last record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_grpo.logs import read_log
from bayes_grpo.logs.hygiene import abandoned, mean_of_parts


def rows_at(steps, offset=0.0, **more):
    return [{"step": int(s), "reward": offset + 0.01 * s, "kl": 0.1} | more for s in steps]


def test_parts_of_every_step_are_averaged(write):
    noise = np.random.default_rng(0).normal(0, 0.1, (8, 4))
    rows = [{"step": s, "reward": 0.5 + noise[s, m], "kl": 0.2} for s in range(8) for m in range(4)]
    run = read_log(write("log.jsonl", rows))
    np.testing.assert_allclose(run.reward, 0.5 + noise.mean(axis=1))
    np.testing.assert_array_equal(run.signals["kl"], 0.2)
    assert any(n.startswith("steps have 4 records each of reward, kl (parts") for n in run.notes)
    assert not any("more than once" in n for n in run.notes)


def test_parts_of_one_column_beside_a_total(write):
    rows = [{"step": s, "reward": 0.1 * s} for s in range(6)]
    for s in range(6):
        rows += [{"step": s, "loss": loss} for loss in (1.0, 2.0, 6.0)]
    rows.sort(key=lambda row: row["step"])
    run = read_log(write("log.jsonl", rows))
    np.testing.assert_allclose(run.reward, 0.1 * run.step)
    np.testing.assert_allclose(run.signals["loss"], 3.0)


def test_a_second_record_by_exception_replaces_the_first(write):
    rows = [*rows_at(range(8)), {"step": 7, "reward": 0.9, "kl": 0.3}]
    run = read_log(write("log.jsonl", rows))
    assert run.reward[-1] == 0.9
    assert any(n.startswith("1 step logged more than once") for n in run.notes)


def test_parts_of_a_resumed_training_are_those_of_its_last_attempt(write):
    rows = [*rows_at(np.repeat(range(6), 2)), *rows_at(np.repeat(range(3, 9), 2), offset=0.5)]
    run = read_log(write("log.jsonl", rows))
    np.testing.assert_allclose(run.reward, np.r_[0.01 * np.arange(3), 0.5 + 0.01 * np.arange(3, 9)])


@given(st.lists(st.integers(1, 5), min_size=5, max_size=20), st.floats(-1e6, 1e6))
def test_equal_parts_have_exactly_their_value(sizes, value):
    step = np.repeat(np.arange(float(len(sizes))), sizes)
    columns, averaged, usual = mean_of_parts(step, {"reward": np.full(len(step), value)})
    kept = columns["reward"][np.isfinite(columns["reward"])]
    np.testing.assert_array_equal(kept, value)
    if averaged:
        assert (len(kept), usual) == (len(sizes), round(np.median(sizes)))


def test_a_resume_leaves_nothing_of_the_attempt_before_beyond_it(write):
    rows = [*rows_at(range(1, 31)), *rows_at(range(10, 21), offset=0.5)]
    rows.insert(25, {"step": 25, "eval_reward": 0.1})
    rows.insert(5, {"step": 5, "eval_reward": 0.2})
    run = read_log(write("log.jsonl", rows))
    np.testing.assert_array_equal(run.step, range(1, 21))
    np.testing.assert_allclose(run.reward, np.r_[0.01 * np.arange(1, 10), 0.5 + 0.01 * np.arange(10, 21)])
    np.testing.assert_array_equal((run.eval_step, run.eval_reward), ([5], [0.2]))
    assert "resumed at step 10: 11 rows of the abandoned attempt beyond it left out" in run.notes


def test_an_attempt_that_outlives_the_next_is_not_revived(write):
    rows = [*rows_at(range(1, 31)), *rows_at(range(10, 21)), *rows_at(range(15, 26), offset=0.5)]
    run = read_log(write("log.jsonl", rows))
    np.testing.assert_array_equal(run.step, range(1, 26))
    np.testing.assert_allclose(run.reward[14:], 0.5 + 0.01 * np.arange(15, 26))


@pytest.mark.parametrize(
    "steps",
    [
        [1, 2, 3, 4, 5, 6, 7, 8],
        [8, 7, 6, 5, 4, 3, 2, 1],
        [1, 2, 3, 4, 5, 6, 3, 7],
        [1, 2, 3, 6, 7, 8, 4, 5],
    ],
    ids=["in order", "backwards", "a late line", "a block moved"],
)
def test_what_is_no_resume_loses_nothing(steps):
    train, _, resumes = abandoned(np.array(steps, float), np.ones(len(steps)), np.zeros(len(steps)))
    assert not train.any()
    assert not resumes


def test_files_of_one_run_do_not_cut_each_other(write):
    paths = [write("a.jsonl", rows_at(range(1, 31))), write("b.jsonl", rows_at(range(10, 21), offset=0.5))]
    run = read_log(paths)
    np.testing.assert_array_equal(run.step, range(1, 31))
    np.testing.assert_allclose(run.reward[9:20], 0.5 + 0.01 * np.arange(10, 21))
    np.testing.assert_allclose(run.reward[20:], 0.01 * np.arange(21, 31))


@given(st.lists(st.integers(0, 12), max_size=40), st.lists(st.integers(0, 1), min_size=40, max_size=40))
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
