"""Ground truth: the reduction's predictions on simulated runs, small enough for every change."""

import itertools

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from bayes_grpo.dynamics.reduction import critical_gain, onset_of_oscillation
from benchmarks.common import bisected
from benchmarks.lab.groups import group_drift_factor
from benchmarks.lab.measure import (
    measured_fluctuation,
    measured_onset,
    measured_threshold,
    stationary_variance,
)
from benchmarks.lab.studies.dynamics import main

MOMENTA = (0.0, 0.5, 0.9)


def test_onset_of_oscillation_within_five_percent():
    np.testing.assert_allclose(measured_onset(MOMENTA), onset_of_oscillation(MOMENTA), rtol=0.05)


@pytest.mark.parametrize("model", ["hold", "delay"])
def test_refresh_thresholds_within_one_percent(model):
    mu, interval = (axis.ravel() for axis in np.meshgrid(MOMENTA, [1, 2, 4, 8, 16, 32], indexing="ij"))
    predicted = [critical_gain(float(m), int(s), model) for m, s in zip(mu, interval, strict=True)]
    np.testing.assert_allclose(measured_threshold(mu, interval, model), predicted, rtol=0.01)


def test_fluctuation_of_two_group_sizes():
    # 32 runs of 2,000 steps know a variance to about 4%; 15% is more than three standard errors.
    small, large = measured_fluctuation((4, 16), n_runs=32, n_steps=2000)
    for row in (small, large):
        assert row.measured == pytest.approx(row.exact, rel=0.15)
    assert 2.8 < small.measured / large.measured < 5.7


def test_stationary_variance_of_theory_and_lyapunov():
    assert stationary_variance(1.0, 0.02, 0.9) == pytest.approx(250.0)
    assert stationary_variance(1.0, 0.02, 0.9, exact=True) == pytest.approx(251.3, abs=0.05)
    companion = np.array([[1 + 0.7 - 0.3, -0.7], [1.0, 0.0]])
    covariance = solve_discrete_lyapunov(companion, np.diag([2.0, 0.0]))
    found = stationary_variance(2.0, 0.3, 0.7, exact=True)
    assert found == pytest.approx(covariance[0, 0], rel=1e-9)


@pytest.mark.parametrize("ddof", [0, 1])
def test_group_drift_factor_is_the_mean_over_every_group(ddof):
    p, size = 0.37, 6
    total = 0.0
    for rewards in itertools.product([0.0, 1.0], repeat=size):
        k = sum(rewards)
        if 0 < k < size:
            drift = np.var(rewards) / np.std(rewards, ddof=ddof)
            total += p**k * (1 - p) ** (size - k) * drift
    found = group_drift_factor(p, size, ddof)
    assert found == pytest.approx(total / np.sqrt(p * (1 - p)), rel=1e-12)


@pytest.mark.slow
def test_a_quick_section_finds_the_onset_of_oscillation_between_its_bounds():
    found = main(["--quick", "--only", "b"])["b"]["early"]
    for name in ("momentum 0", "momentum 0.5"):
        assert 0.2 < found[name]["stiffest"] < 5.0


def test_a_boundary_is_found_by_halves():
    found = bisected(lambda x: x > [0.3, 2.0], [0.01, 0.01], [10.0, 10.0], 30)
    assert abs(found / [0.3, 2.0] - 1.0).max() < 1e-6
