"""Signals that were not measured, and measured ones that look alike."""

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.diagnosis.plausibility import implausible
from bayes_grpo.views.diagnosis import reason
from tests.helpers.runs import make_run, steps

ROWS = 60


@pytest.fixture
def reward() -> np.ndarray:
    return 0.5 + 0.05 * np.random.default_rng(3).standard_normal(ROWS)


def test_a_measured_log_is_plausible(reward):
    rng = np.random.default_rng(4)
    signals = {"reward_std": 0.4 + 0.02 * rng.standard_normal(ROWS), "entropy": np.zeros(ROWS)}
    assert implausible(make_run(steps(ROWS), reward, signals=signals, group_size=8, prompts_per_step=8)) == ()


@pytest.mark.parametrize(
    ("signals", "words"),
    [
        ({"reward_std": np.full(ROWS, 0.5)}, "reward_std is 0.5 in all 60 rows"),
        ({"completion_length": np.full(ROWS, 96.0)}, "hits the length limit"),
    ],
)
def test_columns_that_were_not_measured_are_told(reward, signals, words):
    (said,) = implausible(make_run(steps(ROWS), reward, signals=signals))
    assert words in said


def test_a_kl_below_zero_by_more_than_its_noise_is_named_on_the_first_screen():
    kl = np.array([0.0, -3.0, -5.4, -4.9, -7.0])
    below = diagnose(make_run(steps(5), [0.5, -0.1, 0.5, 1.3, -0.7], signals={"kl": kl}))
    assert "is below 0 on average (-4.1 over 5 rows), which no KL is" in reason(below)
    for harmless in (0.01 * kl, kl - kl.mean() - 0.2, -kl):  # rounding, its noise, a KL
        assert "negative_kl" not in diagnose(make_run(steps(5), np.arange(5.0), signals={"kl": harmless})).evidence
