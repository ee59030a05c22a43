"""Recovery of curvature, damping and fixed point from simulated logs; benchmarks/calibration/recovery.py has many."""

import numpy as np
import pytest

from benchmarks.calibration.recovery import QUANTITIES, coverage, recovered


@pytest.mark.thorough
def test_reduction_recovers_a_few_runs():
    found = recovered("overdamped", "near", 12, "reduction", seed=5)
    assert sum(not f["converged"] for f in found) <= 1
    for name in QUANTITIES:
        # Of 12 intervals of 90% seven or fewer hold the truth with a probability below 0.005.
        assert coverage(found, name) >= 8 / 12, name
        # Errors in posterior sd have a mean of 0 and a spread of about 1, so their mean over 12 one of 0.3.
        assert abs(np.mean([f[name]["error_in_sd"] for f in found])) < 0.9, name
