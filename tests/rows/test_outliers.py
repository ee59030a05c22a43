"""Rows far from their neighbours on both sides hardly count; clean rows, steps and collapses are left alone."""

import numpy as np
import pytest

from bayes_grpo.rows.rows_of import MOST, OUTLIER_FEWEST, outliers, rows_of
from tests.helpers.runs import make_run, steps


def noisy(n: int, seed: int, level: float = 2.5) -> np.ndarray:
    return level + 0.15 * np.random.default_rng(seed).standard_normal(n)


def found_in(y: np.ndarray) -> list[int]:
    return np.flatnonzero(outliers(y, np.ones(len(y)))).tolist()


def test_broken_batches_are_found_and_named():
    y, broken = noisy(300, 0), [20, 41, 90, 130, 131, 200, 250, 290]
    y[broken] = 0.05
    assert found_in(y) == broken
    table = rows_of(make_run(steps(300), y))
    # At its variance an outlier is an ordinary row: about one standard deviation off.
    off = np.abs(y[broken] - 2.5) * np.sqrt(table.weight[broken])
    assert np.all((off > 0.1) & (off < 0.3))
    clean = np.delete(np.arange(300), broken)
    np.testing.assert_array_equal(table.weight[clean], 1.0)
    assert any("8 rows lie far from the rows before and after (step 21, 42" in note for note in table.notes)


@pytest.mark.parametrize("n", [20, 50, 300])
def test_clean_rows_are_not_touched(n):
    assert sum(bool(found_in(noisy(n, seed))) for seed in range(200)) <= 2
    np.testing.assert_array_equal(rows_of(make_run(steps(n), noisy(n, 0))).weight, 1.0)


def test_a_share_near_its_end_is_not_full_of_outliers():
    flagged = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p = 1.0 - 0.5 * np.exp(-steps(60) / 8.0)
        rates = rng.beta(3.0 * p[:, None], 3.0 * (1.0 - p[:, None]) + 1e-9, size=(60, 8))
        flagged += bool(found_in(rng.binomial(8, rates).mean(axis=1) / 8))
    assert flagged <= 1


NONE = {
    "a step": noisy(60, 3) - np.where(np.arange(60) < 30, 0.0, 2.4),
    "a late collapse": noisy(60, 3) - np.where(np.arange(60) < 57, 0.0, 2.4),
    "the last rows": np.r_[noisy(60, 4)[:-OUTLIER_FEWEST], np.zeros(OUTLIER_FEWEST)],
    "what is common": np.where(np.arange(100) % 10 == 0, 0.0, noisy(100, 5)),
    "few rows": np.r_[noisy(9, 6), 0.0, noisy(9, 7)],
    "none that scatter": np.where(np.arange(40) == 20, 0.0, 1.0),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_outlier(name):
    assert found_in(NONE[name]) == []
    assert 100 * MOST < 10  # so that every tenth row is common
