"""Recovery of curvature, damping and fixed point from simulated logs; benchmarks/calibration/recovery.py has many."""

import numpy as np
import pytest

from bayes_grpo.dynamics.reduction import spectral_radius
from benchmarks.calibration.recovery import QUANTITIES, STEPS, coverage, make_runs, recovered, settings, true_values


@pytest.mark.thorough
@pytest.mark.parametrize("family", list(STEPS))
def test_settings_are_of_their_family_and_as_wide_as_the_priors(family):
    learning_time, exposure = [], []
    for i in range(200):
        _, numbers, _, reference = settings(family, "near", np.random.default_rng([1, i]))
        p = 1 / (1 + np.exp(-(reference + 0.875 / numbers.kl_weight)))
        gain, mu = numbers.learning_rate * numbers.kl_weight * p * (1 - p), numbers.momentum
        # Discriminant of the lag-free heavy ball: negative oscillates.
        assert ((1 + mu - gain) ** 2 < 4 * mu) == (family == "oscillatory")
        assert spectral_radius(gain, mu, numbers.refresh_interval, "hold", numbers.lag_exposure) < 1
        learning_time.append((1 - mu) / gain)
        exposure.append(numbers.lag_exposure)
    # Of 200 draws the mean has an error of 1/14 of the spread, the spread one of 1/20.
    speed, share = np.log(np.array(learning_time) / (STEPS[family] / 5)), np.array(exposure)
    assert abs(np.mean(speed)) < 0.3
    assert 0.8 < np.std(speed) < 1.2
    assert 1.25 < np.std(np.log(share / (1 - share))) < 1.75


@pytest.mark.thorough
def test_truths_of_the_simulator_are_those_of_the_settings():
    for run in make_runs("overdamped", "near", 2, seed=3):
        true, numbers = true_values(run), run.numbers
        assert true is not None
        curvature = numbers.kl_weight * true["fixed_point"] * (1 - true["fixed_point"])
        assert true["curvature"] == pytest.approx(curvature, rel=1e-6)
        pull = numbers.learning_rate * curvature * numbers.lag_exposure * (numbers.refresh_interval - 1) / 2
        assert true["damping"] == pytest.approx(1 - numbers.momentum - pull, rel=1e-6)


@pytest.mark.thorough
def test_reduction_recovers_a_few_runs():
    found = recovered("overdamped", "near", 12, "reduction", seed=5)
    assert sum(not f["converged"] for f in found) <= 1
    for name in QUANTITIES:
        # Of 12 intervals of 90% seven or fewer hold the truth with a probability below 0.005.
        assert coverage(found, name) >= 8 / 12, name
        # Errors in posterior sd have a mean of 0 and a spread of about 1, so their mean over 12 one of 0.3.
        assert abs(np.mean([f[name]["error_in_sd"] for f in found])) < 0.9, name
