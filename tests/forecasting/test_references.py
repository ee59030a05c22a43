"""A forecast with reference runs."""

import numpy as np
import pytest

from bayes_grpo import forecast, read_log
from bayes_grpo.forecasting.summary import summarize_forecast
from tests.helpers.paths import not_none
from tests.helpers.runs import rising_run
from tests.references.made import runs_of_orders
from tests.references.test_gather import written

LAWS = ("flat", "exponential")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return written(tmp_path_factory.mktemp("runs"), runs_of_orders([0] * 6, rows=40, share=0.7, seed=4))


def test_rows_to_come_scatter_less_about_where_reference_runs_put_them(folder):
    log = read_log(folder / "run0.csv")
    past = log.until(24.0)
    alone, beside = (forecast(past, 40.0, regimes=LAWS, draws=600, reference_runs=x) for x in (None, folder))
    y = log.reward[24:]
    wrong = [np.abs(np.median(f.rows, axis=0) - y).mean() for f in (alone, beside)]
    assert wrong[1] < 0.85 * wrong[0]
    used = not_none(beside.reference_runs)
    assert alone.reference_runs is None
    assert len(used.used) == 5
    assert used.share > 0.4
    assert len(used.same_order) == 5
    assert 0.4 < not_none(used.order_share).median < 0.9
    assert np.isclose(sum(beside.weights.values()), 1.0)
    assert beside.weights["reference_runs"] == used.share
    assert np.mean(beside.regime == "reference_runs") == pytest.approx(used.share)
    assert any("the same prompts at the same steps as 5" in x for x in beside.notes)
    told = summarize_forecast(beside).to_dict()["reference_runs"]
    assert told["left_out"] == [{"name": "run0", "why": "the run itself, or a copy of it: its rows are the same"}]
    assert told["sentence"].startswith("with 5 reference runs (run1, run2")


def test_a_forecast_without_a_comparable_reference_run_is_its_own():
    run = rising_run(n=24)
    alone, beside = (forecast(run, 40.0, regimes=LAWS, draws=600, reference_runs=x) for x in (None, [run]))
    np.testing.assert_array_equal(alone.rows, beside.rows)
    assert "none of the runs named can be compared" in not_none(beside.reference_runs).sentence
