"""What a summary says of the measurement noise, and the probabilities of what a regime can do."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayes_grpo.common.intervals import Interval
from bayes_grpo.fitting.summary import Summary, measured, probabilities
from bayes_grpo.regimes.base import Prior
from bayes_grpo.regimes.registry import get_regime
from bayes_grpo.rows.series import NoiseLevel

LEVEL = NoiseLevel(0.1, 0.2, "mean and groups", 3.0, 0.0, 0.1)


def fit_with(ratio: float, level: NoiseLevel | None = LEVEL, prior: float = 0.1) -> Any:
    """What `measured` reads of a fit."""
    draws = 0.1 * ratio * np.exp(0.01 * np.random.default_rng(0).standard_normal(500))
    return SimpleNamespace(
        as_draws=SimpleNamespace(rows=SimpleNamespace(level=level)),
        priors={"observation_sd": Prior(prior, 0.2)},
        draws=lambda name: {"observation_sd": draws}[name],
    )


@pytest.mark.parametrize(("ratio", "words"), [(1.0, "times as much."), (0.3, "may repeat"), (2.0, "may be summed")])
def test_a_departure_is_named(ratio, words):
    said = measured(fit_with(ratio))
    assert "0.1 of a typical row is expected from mean and groups (within about 22%)" in said
    assert f"the rows show {ratio:.2f}" in said
    assert words in said


def test_nothing_is_said_where_nothing_is_known():
    assert measured(fit_with(1.0, level=None)) == ""
    assert measured(fit_with(1.0, prior=0.3)) == ""  # the user's own prior


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


@pytest.mark.parametrize(
    ("growth", "now", "words"),
    [
        (1.0, 0.7, "grows from 0.5 toward 0.8 [0.7, 0.9]."),
        (1.0, 0.95, "grows from 0.5 to 0.95 now, beyond the 0.8 [0.7, 0.9]"),
        (0.0, 0.95, "falls from 0.5 toward"),
        (0.0, 0.6, "falls from 0.5 to 0.6 now, beyond"),
    ],
)
def test_a_reward_beyond_its_fixed_point_is_not_going_there(growth, now, words):
    rows = [
        SimpleNamespace(name="fixed_point", posterior=Interval(0.8, 0.7, 0.9, 0.9)),
        SimpleNamespace(name="initial_reward", posterior=Interval(0.5, 0.4, 0.6, 0.9)),
    ]
    summary: Any = SimpleNamespace(
        convergence=SimpleNamespace(passed=True),
        rows=rows,
        about=SimpleNamespace(reward="reward"),
        probabilities={"growth": growth},
        last_level=now,
        regime="oscillator",
    )
    assert words in Summary.answer.fget(summary)  # pyright: ignore[reportOptionalCall]
