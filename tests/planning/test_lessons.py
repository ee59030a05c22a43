"""What others' runs teach a plan: where it comes from."""

import math

import numpy as np
import pytest

from bayes_grpo.planning.lessons import LEAST_SD, Nearing, learned_lessons


def test_levels_are_lost_near_the_border_and_found_again_on_the_way_back():
    near = Nearing(0.5, 1.0)
    far, here = np.array([6.0, 3.0]), np.array([5.0, 0.0])
    assert near.shift(far, here)[0] == pytest.approx(-0.5 * (math.log1p(math.exp(-4.0)) - math.log1p(math.exp(-5.0))))
    assert (near.shift(far, here) < 0.0).all()
    np.testing.assert_allclose(near.shift(here, far), -near.shift(far, here))
    # Well beyond where the loss sets in each e-fold costs its full strength.
    assert near.shift(np.array([-8.0]), np.array([-9.0]))[0] == pytest.approx(-0.5, abs=1e-3)


def test_what_is_shipped_is_at_least_as_wide_as_simulated_decisions_asked_for():
    told = learned_lessons()
    for name, least in LEAST_SD.items():
        assert told.exponents[name]["rate"].sd >= least
    assert told.exponents["learning_rate"]["rate"].sd < min(LEAST_SD.values())
    assert told.nearing.strength >= 0.0
