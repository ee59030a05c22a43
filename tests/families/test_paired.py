"""Recipes on the same data: what the data alone did cancels in their difference."""

import json

import numpy as np
import pytest

from bayes_grpo import compare_runs
from bayes_grpo.families.paired import paired
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.command import call
from tests.siblings.made import family
from tests.siblings.test_gather import written


@pytest.fixture(scope="module")
def runs():
    return family([0, 0], rows=60, share=0.7, seed=6, spread=0.0)


def test_rows_without_the_effect_keep_their_difference_and_scatter_as_noise_of_their_own_would():
    tables = [rows_of(r) for r in family([0] * 4, rows=120, share=0.7, seed=6, spread=0.0)]
    found = paired(tables, 2)
    assert found is not None
    assert found.runs == (0, 1, 2, 3)
    truth = [0.7 * (1.0 - 0.8 * np.exp(-t.step / 36.0)) for t in tables]
    errors = [(t.y - c) * f for t, c, f in zip(found.tables, truth, found.factor, strict=True)]
    # What one run's rows differ by from its course, put right by the factor, is 1 − share of the noise.
    assert np.mean(np.square(errors)) == pytest.approx(0.3 * 0.06**2, rel=0.25)
    logged, without = (t[3].y - t[0].y for t in (tables, found.tables))
    assert np.std(logged - without) < 0.35 * np.std(logged)


def test_an_order_of_one_recipe_alone_is_no_pair():
    tables = [rows_of(r) for r in family([0, 0, 1], rows=60, share=0.7, seed=2)]
    assert paired(tables, 2) is None
    assert paired(tables[:2], 1) is not None


def test_the_same_data_make_a_difference_surer_and_another_order_is_told(runs, tmp_path):
    same = compare_runs(runs[0], runs[1])
    other = compare_runs(runs[0], family([1], rows=60, share=0.7, seed=7, spread=0.0)[0])
    assert same.same_order is not None
    assert same.same_order.runs == ("run0", "run1")
    assert "2 runs saw the same data at the same steps" in same.same_order.sentence
    assert "order of the data" not in same.differs
    assert other.same_order is None
    assert "order of the data" in other.differs
    folder = written(tmp_path / "runs", runs)
    told = call("compare-runs", folder / "run0.csv", folder / "run1.csv", "--details")
    assert "saw the same data at the same steps" in " ".join(told.out.split())
    kept = json.loads(call("compare-runs", folder / "run0.csv", folder / "run1.csv", "--json").out)
    assert kept["same_order"]["runs"] == ["run0", "run1"]
