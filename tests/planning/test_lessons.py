"""What others' runs teach a plan: where it comes from, and that a plan goes by what it is handed."""

import math

import numpy as np
import pytest

from bayes_grpo.planning.lessons import LEAST_SD, Belief, Nearing, learned_lessons, lessons_of
from bayes_grpo.planning.plan import plan
from tests.planning.test_plan import slow

RATES = (1e-6, 4e-6)


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


def test_a_plan_goes_by_the_lessons_it_is_handed():
    shipped = learned_lessons()
    found = {"apart": [0.1], "nearing": [0.0, 1.0]} | {
        name: [1.0 if name == "learning_rate" else 0.0, 0.01, 0.0, 0.01] for name in shipped.exponents
    }
    calm = lessons_of(shipped.failures, found)
    assert calm.exponents["learning_rate"]["rate"] == Belief(1.0, 0.01)
    run = slow()
    steep = calm._replace(nearing=Nearing(2.0, 1.0))
    narrow, wide, worn = (
        plan(run, learning_rate=RATES, group_size=[8], prompts_per_step=[4], lessons=x) for x in (calm, None, steep)
    )

    def at(told):
        return next(c for c in told.candidates if c.settings["learning_rate"] == max(RATES))

    assert at(narrow).reward.high - at(narrow).reward.low < at(wide).reward.high - at(wide).reward.low
    # What is lost near the border is lost where the rate is raised.
    assert at(worn).if_it_holds < at(narrow).if_it_holds
