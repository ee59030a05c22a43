"""The option to decide again: against problems whose optimal plan is known."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayes_grpo.analysis.watching import watch
from bayes_grpo.errors import SettingError


def made(latent: np.ndarray, noise: float, rng: np.random.Generator) -> Any:
    draws, h = latent.shape
    return SimpleNamespace(
        now=100.0,
        step=100.0 + 10.0 * np.arange(1, h + 1),
        latent=latent,
        rows=latent + noise * rng.standard_normal(latent.shape),
        latent_now=np.zeros(draws),
        at_infinity=latent[:, -1],
        assumed=(),
    )


def take_off(rng: np.random.Generator, draws: int = 4000, chance: float = 0.25, noise: float = 0.02) -> Any:
    """A rise of 0.01 a row over 40 rows with some probability, nothing otherwise."""
    rises = rng.random(draws) < chance
    return made(rises[:, None] * 0.01 * np.arange(1, 41), noise, rng)


def test_watching_pays_where_no_fixed_step_does():
    # V 0.4 = 400 with probability 1/4 for a cost of 200: never worth committing to, worth 5 rows (25) to find out.
    found = watch(take_off(np.random.default_rng(0)), cost_per_step=0.5, value_per_reward=1000.0)
    assert found.committed == 0.0
    assert found.check == 150.0
    # One in four goes on to 400 - 200, the others stop after 25.
    assert found.value == pytest.approx(0.25 * 200.0 - 0.75 * 25.0, abs=10.0)
    assert 0.4 < found.stops_at_check < 0.8
    assert found.go_on
    assert "decide again" in found.sentence


def test_watching_does_not_pay_where_rows_say_nothing():
    found = watch(take_off(np.random.default_rng(1), noise=50.0), cost_per_step=0.5, value_per_reward=1000.0)
    assert found.value < 0
    assert not found.go_on
    assert "does not pay" in found.sentence


def test_a_certain_rise_is_worth_as_much_watched_as_committed():
    rng = np.random.default_rng(2)
    found = watch(take_off(rng, chance=1.0), cost_per_step=0.5, value_per_reward=1000.0)
    assert found.value == pytest.approx(found.committed)
    assert found.value == pytest.approx(200.0)
    assert found.stops_at_check == 0.0


def test_noise_is_no_option():
    # Paths that jump about, and rows too noisy to show it: nothing is learned, and steps cost.
    rng = np.random.default_rng(3)
    forecast = made(0.1 * rng.standard_normal((2000, 40)), 50.0, rng)
    found = watch(forecast, cost_per_step=0.5, value_per_reward=1000.0)
    assert found.value == pytest.approx(-25.0, abs=8.0)
    assert not found.go_on


def test_one_step_is_watched_to_its_end():
    rng = np.random.default_rng(4)
    found = watch(made(np.full((100, 1), 0.3), 0.1, rng), cost_per_step=1.0, value_per_reward=100.0)
    assert found.check == 110.0
    assert found.value == pytest.approx(20.0)
    assert found.to_dict()["go_on"] is True


def test_impossible_numbers_are_refused():
    with pytest.raises(SettingError, match="cost per step"):
        watch(take_off(np.random.default_rng(5)), cost_per_step=-1.0, value_per_reward=1.0)
