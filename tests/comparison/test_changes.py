"""Jumps and changes of slope: found where they are, with their step, and not in smooth curves."""

import numpy as np

from bayes_grpo.comparison.changes import change_words, find_changes
from benchmarks.calibration.changes import smooth_run


def clear(step, y):
    return [x for x in find_changes(step, y) if x.clear]


def test_a_jump_has_its_step_and_its_height_in_words():
    step = np.arange(1.0, 53.0)
    y = np.where(step <= 10, 0.08, 0.5 + 0.005 * step) + 0.03 * np.random.default_rng(0).standard_normal(52)
    (first, *_) = clear(step, y)
    assert first.kind == "jump"
    assert (first.after, first.until) == (10.0, 11.0)
    assert first.up
    assert change_words(first, step, y).startswith("The reward jumps from 0.0")


def test_a_change_of_slope_is_found_at_its_step():
    step = np.arange(1.0, 101.0)
    y = 0.02 * np.maximum(step - 60.0, 0.0) + 0.02 * np.random.default_rng(1).standard_normal(100)
    found = clear(step, y)[0]
    assert found.kind == "slope"
    assert found.after <= 60.0 + 2.0
    assert found.until >= 60.0 - 2.0
    assert found.up
    assert change_words(found, step, y).startswith("The reward bends upward between steps")


def test_one_wild_row_is_no_change():
    y = 0.5 + 0.02 * np.random.default_rng(2).standard_normal(60)
    y[30] = 0.9
    assert not clear(np.arange(60.0), y)


def test_smooth_runs_have_none_and_constant_or_short_ones_neither():
    rng = np.random.default_rng(3)
    assert sum(bool(clear(*smooth_run(rng))) for _ in range(20)) <= 3
    assert find_changes(np.arange(30.0), np.full(30, 0.5)) == ()
    assert find_changes(np.arange(8.0), rng.standard_normal(8)) == ()


def test_a_long_signal_is_averaged_in_blocks():
    step = np.arange(1.0, 2001.0)
    y = 0.3 * (step > 1200) + 0.1 * np.random.default_rng(4).standard_normal(2000)
    found = clear(step, y)[0]
    assert found.kind == "jump"
    assert found.after - 15.0 <= 1200.0 <= found.until + 15.0
