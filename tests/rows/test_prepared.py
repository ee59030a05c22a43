"""A table and its arrays cannot be separated."""

import numpy as np
import pytest

from bayes_grpo.rows.padding import bucket, doubled, prepare_rows
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series
from tests.helpers.runs import rising_run


@pytest.fixture
def table() -> Series:
    return rows_of(rising_run(50))


def test_one_log_gets_a_bucket_and_many_get_few_lengths(table):
    assert len(prepare_rows(table).arrays.y) == bucket(50)
    assert len(prepare_rows(table, many=True).arrays.y) == doubled(50)


def test_a_row_that_is_left_out_is_a_hole(table):
    rows = prepare_rows(table)
    left = rows.without(7)
    assert left.table is table
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(left.arrays.y[:50])), [7])


def test_the_first_rows_keep_the_shapes_of_all(table):
    rows = prepare_rows(table, many=True)
    early = rows.before(20)
    assert len(early.table.y) == 20
    assert np.shape(early.arrays.y) == np.shape(rows.arrays.y)
    assert float(early.arrays.length) == early.table.length
    np.testing.assert_array_equal(rows.values(30)[:30], table.y[:30])
    assert np.isfinite(rows.values(30)).sum() == 30
