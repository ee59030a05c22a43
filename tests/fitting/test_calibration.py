"""Simulation-based calibration: a small one on every change, the full one in benchmarks/calibration.py."""

import numpy as np
import pytest

from benchmarks.calibration import calibrate, outside, simultaneous_band


def test_band_holds_uniform_values_and_not_others():
    rng = np.random.default_rng(0)
    inside = np.mean([outside(rng.uniform(size=100)) == 0 for _ in range(100)])
    assert 0.88 <= inside <= 1.0
    assert outside(rng.beta(2, 2, size=300)) > 0
    low, high = simultaneous_band(100, np.array([0.5]))
    assert low[0] < 0.45 < 0.55 < high[0]


def test_exponential_is_calibrated():
    result = calibrate("exponential", runs=24, seed=11, tell=lambda _: None)
    assert result["failed"] <= 1
    for name, ranks in result["ranks"].items():
        assert outside(ranks) == 0, name
    # 24 intervals of 90%: 17 or fewer hits have a probability below 0.005 for each of the five parameters.
    assert min(result["coverage"].values()) >= 18 / 24


@pytest.mark.slow
def test_oscillator_is_calibrated():
    result = calibrate("oscillator", runs=100, seed=12, tell=lambda _: None)
    assert result["failed"] <= 3
    for name, ranks in result["ranks"].items():
        assert outside(ranks) == 0, name
        assert 0.82 <= result["coverage"][name] <= 0.97, name
