import numpy as np
import pytest

from bayes_grpo.fitting.summary import probabilities
from bayes_grpo.regimes.registry import get_regime


@pytest.mark.parametrize(
    ("period", "seen"),
    [
        (3.8, {"half_period_seen", "turns_fast"}),
        (20.0, {"half_period_seen", "swings_seen"}),
        (500.0, {"half_period_seen"}),
        (900.0, set()),
    ],
)
def test_a_swing_needs_rows_that_follow_it_and_a_whole_period(period, seen):
    """Periods are in rows, of which there are 300, two steps each."""
    zeta = np.full(10, 0.3)
    draws = {
        "fixed_point": np.ones(10),
        "initial_reward": np.zeros(10),
        "damping_ratio": zeta,
        "natural_frequency": np.pi / period / np.sqrt(1 - zeta**2),
    }
    found = probabilities(get_regime("oscillator"), draws, 600.0, 300)
    names = ("half_period_seen", "swings_seen", "turns_fast")
    assert {name for name in names if found[name] == 1.0} == seen
    assert found["oscillatory"] == found["growth"] == 1.0
