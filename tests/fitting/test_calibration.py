"""Simulation-based calibration and recovery: small ones here, the full ones in benchmarks/calibration/."""

import numpy as np
import pytest

from benchmarks.calibration.calibration import calibrate, outside, simultaneous_band
from benchmarks.calibration.recovery import QUANTITIES, coverage, recovered


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
@pytest.mark.parametrize("name", ["oscillator", "flat", "bernoulli", "logistic", "sigmoid"])
def test_all_are_calibrated(name):
    kinds, runs = (("nuts", "fast"), 100) if name == "oscillator" else (("nuts",), 60)
    points = np.linspace(0.01, 0.99, 99)
    # A band of 99.9%, because up to seven parameters are looked at.
    low, high = simultaneous_band(runs, points, probability=0.999)
    for kind, result in calibrate(name, kinds, runs=runs, seed=22, jobs=1).items():
        assert result["failed"] <= 3, kind
        for parameter, ranks in result["ranks"].items():
            ecdf = np.searchsorted(np.sort(ranks), points, side="right") / runs
            assert ((low <= ecdf) & (ecdf <= high)).all(), (kind, parameter)
            assert 0.78 <= result["coverage"][parameter] <= 0.98, (kind, parameter)


@pytest.mark.thorough
def test_reduction_recovers_a_few_runs():
    found = recovered("overdamped", "near", 12, "reduction", seed=5)
    assert sum(not f["converged"] for f in found) <= 1
    for name in QUANTITIES:
        # Of 12 intervals of 90% seven or fewer hold the truth with a probability below 0.005.
        assert coverage(found, name) >= 8 / 12, name
        # Errors in posterior sd have a mean of 0 and a spread of about 1, so their mean over 12 one of 0.3.
        assert abs(np.mean([f[name]["error_in_sd"] for f in found])) < 0.9, name
