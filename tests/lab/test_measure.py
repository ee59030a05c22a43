"""Ground truth: the reduction's predictions on simulated runs, small enough for every change."""

import numpy as np
import pytest

from bayes_grpo.dynamics.groups import group_drift_factor
from bayes_grpo.dynamics.thresholds import critical_gain, onset_of_oscillation
from benchmarks.lab.measure import (
    log_log_slope,
    measured_drift_factor,
    measured_fluctuation,
    measured_onset,
    measured_threshold,
)
from tests.helpers.selection import few

MOMENTA = (0.0, 0.5, 0.9)
GROUP_SIZES = (2, 4, 8, 16, 32, 64)


@pytest.mark.thorough
def test_onset_of_oscillation_within_five_percent():
    np.testing.assert_allclose(measured_onset(MOMENTA), onset_of_oscillation(MOMENTA), rtol=0.05)


@pytest.mark.parametrize("model", few(["hold", "delay"], "hold"))
def test_refresh_thresholds_within_one_percent(model):
    mu, interval = (axis.ravel() for axis in np.meshgrid(MOMENTA, [1, 2, 4, 8, 16, 32], indexing="ij"))
    predicted = [critical_gain(float(m), int(s), model) for m, s in zip(mu, interval, strict=True)]
    np.testing.assert_allclose(measured_threshold(mu, interval, model), predicted, rtol=0.01)


@pytest.mark.thorough
def test_fluctuation_of_two_group_sizes():
    # 32 runs of 2,000 steps know a variance to about 4%; 15% is more than three standard errors.
    small, large = measured_fluctuation((4, 16), n_runs=32, n_steps=2000)
    for row in (small, large):
        assert row.measured == pytest.approx(row.exact, rel=0.15)
    assert 2.8 < small.measured / large.measured < 5.7


@pytest.mark.slow
def test_fluctuation_falls_as_one_over_group_size():
    rows = measured_fluctuation(GROUP_SIZES)
    assert log_log_slope(GROUP_SIZES, [row.measured for row in rows]) == pytest.approx(-1.0, abs=0.05)
    for row in rows:
        assert row.measured == pytest.approx(row.exact, rel=0.1)


@pytest.mark.slow
def test_std_normalised_fluctuation_departs_from_one_over_group_size_as_computed():
    rows = measured_fluctuation(GROUP_SIZES, advantage="std", ddof=1)
    for row in rows:
        assert row.measured == pytest.approx(row.exact, rel=0.1)
    assert log_log_slope(GROUP_SIZES, [row.exact for row in rows]) > -0.9


@pytest.mark.thorough
@pytest.mark.parametrize(("p", "size", "ddof"), few([(0.5, 4, 0), (0.3, 16, 1), (0.05, 4, 1)], (0.3, 16, 1)))
def test_drift_of_finite_groups_within_five_percent(p, size, ddof):
    found = measured_drift_factor(p, size, ddof, n_runs=200)
    assert found == pytest.approx(float(group_drift_factor(p, size, ddof)), rel=0.05)
