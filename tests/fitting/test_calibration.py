"""Simulation-based calibration: a small one on every change, the full one in benchmarks/calibration.py."""

import numpy as np
import pytest

from benchmarks.calibration import calibrate, outside, simultaneous_band


@pytest.mark.thorough
def test_band_holds_uniform_values_and_not_others():
    rng = np.random.default_rng(0)
    inside = np.mean([outside(rng.uniform(size=100)) == 0 for _ in range(100)])
    assert 0.88 <= inside <= 1.0
    assert outside(rng.beta(2, 2, size=300)) > 0
    low, high = simultaneous_band(100, np.array([0.5]))
    assert low[0] < 0.45 < 0.55 < high[0]


@pytest.mark.thorough
def test_exponential_is_calibrated_by_nuts_and_by_the_fast_posterior():
    both = calibrate("exponential", ("nuts", "fast"), runs=24, seed=11, jobs=1)
    for kind, result in both.items():
        assert result["failed"] <= 1, kind
        for name, ranks in result["ranks"].items():
            assert outside(ranks) == 0, (kind, name)
        # 24 intervals of 90%: 17 or fewer hits have a probability below 0.005 for each of the five parameters.
        assert min(result["coverage"].values()) >= 18 / 24
    for name, ranks in both["nuts"]["ranks"].items():  # the same runs: ranks differ by the samplers' errors alone
        assert np.max(np.abs(ranks - both["fast"]["ranks"][name])) < 0.2, name


@pytest.mark.slow
def test_oscillator_is_calibrated():
    for kind, result in calibrate("oscillator", ("nuts", "fast"), runs=100, seed=12, jobs=2).items():
        assert result["failed"] <= 3, kind
        for name, ranks in result["ranks"].items():
            assert outside(ranks) == 0, (kind, name)
            assert 0.82 <= result["coverage"][name] <= 0.97, (kind, name)
