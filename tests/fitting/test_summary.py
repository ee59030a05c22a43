"""What a summary says of the reward and of the measurement noise, and the probabilities of what a regime can do."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayes_grpo.common.intervals import Interval
from bayes_grpo.fitting.summary import Summary, measured, past_peak, probabilities
from bayes_grpo.regimes.base import Prior
from bayes_grpo.regimes.registry import get_regime
from bayes_grpo.rows.series import NoiseLevel, RewardLevels
from bayes_grpo.views.fitting import _next_step
from tests.helpers.paths import fit_path

LEVEL = NoiseLevel(0.1, 0.2, "mean and groups", 3.0, 0.0, 0.1)


def fit_with(ratio: float, level: NoiseLevel | None = LEVEL, prior: float = 0.1) -> Any:
    """What `measured` reads of a fit."""
    draws = 0.1 * ratio * np.exp(0.01 * np.random.default_rng(0).standard_normal(500))
    return SimpleNamespace(
        rows=SimpleNamespace(level=level),
        priors={"observation_sd": Prior(prior, 0.2)},
        draws=lambda name: {"observation_sd": draws}[name],
    )


@pytest.mark.parametrize(("ratio", "words"), [(1.0, "times as much."), (0.3, "may repeat"), (2.0, "may be summed")])
def test_a_departure_is_named(ratio, words):
    message = measured(fit_with(ratio))
    assert "0.1 of a typical row is expected from mean and groups (within about 22%)" in message
    assert f"the rows show {ratio:.2f}" in message
    assert words in message


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


def summary_of(rose: float = 1.0, now: float = 0.7, **other: Any) -> Summary:
    """A summary of a run whose first level is 0.5 and that would settle at 0.8 under a constant learning rate."""
    known = {"fixed_point": Interval(0.8, 0.7, 0.9, 0.9), "initial_reward": Interval(0.3, 0.2, 0.4, 0.9)}
    rows = [SimpleNamespace(name=name, posterior=value) for name, value in known.items()]
    fields = dict.fromkeys(x.name for x in dataclasses.fields(Summary))
    here = {
        "rows": rows,
        "convergence": SimpleNamespace(passed=True),
        "about": SimpleNamespace(reward="reward"),
        "probabilities": {"growth": 1.0},
        "levels": RewardLevels(0.5, now, 0.89, 22.0),
        "rose": rose,
        "past_peak": False,
        "now": Interval(now, now - 0.1, now + 0.1, 0.9),
        "level": math.nan,
        "rate_left": 1.0,
        "rate_ended": math.nan,
        "interval_level": 0.9,
    }
    values: Any = fields | here | other
    return Summary(**values)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({}, "The reward has grown from 0.5 to 0.7 [0.6, 0.8]."),
        ({"rose": 0.0, "now": 0.4}, "The reward has fallen from 0.5 to 0.4 [0.3, 0.5]."),
        ({"rose": 0.6}, "The reward is 0.7 [0.6, 0.8]; this log cannot tell whether it has grown or fallen."),
        ({"rose": 0.9}, "The reward has probably grown from 0.5 to 0.7 [0.6, 0.8]."),
        ({"rose": 0.1, "now": 0.4}, "The reward has probably fallen from 0.5 to 0.4 [0.3, 0.5]."),
        ({"rate_ended": 299.0}, "The reward has grown from 0.5 to 0.7 [0.6, 0.8], where its learning rate ended."),
        (
            {"rate_left": 0.04},
            "The reward has grown from 0.5 to 0.7 [0.6, 0.8], with 4% of its peak learning rate left.",
        ),
        ({"rate_left": 0.001}, "The reward has grown from 0.5 to 0.7 [0.6, 0.8], where its learning rate ended."),
        (
            {"past_peak": True},
            "The reward grew from 0.5 and has fallen from its peak of 0.89 at step 22 to 0.7 [0.6, 0.8].",
        ),
    ],
)
def test_the_first_sentence_is_what_the_run_has_reached(given, answer):
    assert summary_of(**given).answer == answer
    assert summary_of(**given).why.startswith("Under a constant learning rate it would settle at 0.8 [0.7, 0.9].")


@pytest.mark.parametrize(("rose", "now", "message"), [(1.0, 0.85, True), (1.0, 0.7, False), (0.6, 0.85, False)])
def test_a_reward_that_has_grown_past_its_fixed_point_may_go_on_by_other_regimes(rose, now, message):
    assert ("this regime sees no gain left" in summary_of(rose, now).why) == message


@pytest.mark.parametrize(("growth", "rose", "shown"), [(1.0, 1.0, True), (0.0, 0.0, True), (0.0, 0.34, False)])
def test_half_of_a_change_needs_a_change_in_curve_and_rows(growth, rose, shown):
    summary = summary_of(rose, probabilities={"growth": growth})
    half = SimpleNamespace(name="half_gain_step", posterior=Interval(2.0, 1.0, 5.0, 0.9))
    assert ("Half of the change" in dataclasses.replace(summary, rows=(*summary.rows, half)).why) == shown  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("level", "words"), [(0.99, "use harder prompts, or stop: the reward is at 99% of its range."), (0.8, "see where")]
)
def test_a_solved_task_asks_for_harder_prompts(level, words):
    assert _next_step(summary_of(level=level)).startswith(words)


@pytest.mark.parametrize(("left", "over"), [(0.06, "nearly over"), (0.01, "over"), (0.001, "over")])
def test_a_schedule_with_steps_left_is_not_over(left, over):
    assert _next_step(summary_of(rate_left=left)).endswith(f"; this schedule is {over}.")


@pytest.mark.parametrize(("last", "found"), [(0.52, True), (0.88, False)])
def test_a_reward_past_its_peak_is_one_that_has_lost_a_quarter_of_its_rise(last, found):
    course = np.interp(np.arange(60), [0, 22, 59], [0.3, 0.89, last])
    path = fit_path(np.arange(60.0), course + 0.01 * np.random.default_rng(0).standard_normal(60))
    assert past_peak(path) == found
