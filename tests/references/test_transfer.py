"""A forecast of rows from the curves of reference runs."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayes_grpo.references.gather import gather_references
from bayes_grpo.references.transfer import _conditioned, read_jointly, transfer_forecast
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.paths import not_none
from tests.references.made import runs_of_orders


def read(runs, past=30):
    first = runs[0]
    run = first.until(float(first.step[past - 1]))
    table = rows_of(run)
    return read_jointly(table, gather_references(run, table, runs[1:]))


def test_conditioning_is_that_of_a_normal():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((7, 7))
    cov, expected, y, var = root @ root.T, rng.standard_normal(7), rng.standard_normal(5), np.full(7, 0.4)
    score, mean, rest = _conditioned(y, expected, cov, var)
    known = np.linalg.inv(cov[:5, :5] + 0.4 * np.eye(5))
    assert_allclose(mean, expected[5:] + cov[5:, :5] @ known @ (y - expected[:5]))
    assert_allclose(rest, cov[5:, 5:] - cov[5:, :5] @ known @ cov[:5, 5:])
    away = y - expected[:5]
    assert_allclose(score, -0.5 * away @ known @ away + 0.5 * np.linalg.slogdet(known)[1])


@pytest.mark.thorough
def test_future_rows_are_predicted_where_runs_are_alike():
    runs = runs_of_orders([0] * 6, rows=60, share=0.7, seed=4)
    known = read(runs)
    found = not_none(known.transfer_forecast(runs[0].step[30:], runs[0].window[30:]))
    assert found.gain > 3.0
    latent, rows = found.paths(400, np.random.default_rng(0))
    y = runs[0].reward[30:]
    # The level of the last rows knows neither the rise to come nor the effects of the steps.
    assert np.abs(np.median(rows, axis=0) - y).mean() < 0.7 * np.abs(y - runs[0].reward[20:30].mean()).mean()
    low, high = np.quantile(rows, [0.05, 0.95], axis=0)
    assert 0.75 <= np.mean((y >= low) & (y <= high)) <= 1.0
    assert latent.shape == rows.shape == (400, 30)
    later = replace(runs[0], reward=np.where(np.arange(60) < 30, runs[0].reward, 0.0))
    same = read([later, *runs[1:]]).transfer_forecast(runs[0].step[30:], runs[0].window[30:])
    assert_allclose(not_none(same).mean, found.mean)


def test_reference_runs_that_end_with_the_run_say_nothing():
    runs = runs_of_orders([0] * 4, rows=40)
    known = read([runs[0], *(r.until(30.0) for r in runs[1:])])
    assert known.transfer_forecast(runs[0].step[30:], runs[0].window[30:]) is None
    assert transfer_forecast(runs[0].step, runs[0].reward[:30], []) is None
