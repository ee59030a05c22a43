"""When paths first reach a value."""

from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import forecast
from bayes_grpo.common.errors import SettingError
from bayes_grpo.forecasting.summary import crossings, reach_of, summarize_forecast
from bayes_grpo.rows.schedule import PLAN_OVER, RATE_ENDED
from tests.helpers.runs import remaining, rising_run


@pytest.fixture(scope="module")
def found():
    return forecast(rising_run(30, reward_low=0.0, reward_high=1.0), 90, regimes=("flat", "exponential"), draws=400)


@pytest.fixture
def straight(found):
    """Paths from 0.2 that rise by 0.001 to 0.01 a step."""
    slope = np.linspace(0.001, 0.01, len(found.latent))
    return replace(
        found, latent_now=np.full(len(slope), 0.2), latent=0.2 + slope[:, None] * (found.step - found.now)[None, :]
    ), slope


def test_crossings_lie_on_the_straight_line_between_steps():
    step = np.array([10.0, 20.0, 40.0])
    path = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [2.0, 0.0, 0.0], [0.0, 0.1, 0.2]])
    np.testing.assert_allclose(crossings(step, path, 0.5), [15.0, 30.0, 10.0, np.inf])


def test_steps_and_probabilities_are_those_of_the_paths(straight):
    made, slope = straight
    asked = reach_of(made, 0.4)
    exact = made.now + 0.2 / slope
    reached = exact <= made.until
    assert asked.rising
    assert asked.already == 0.0
    assert asked.by_horizon == pytest.approx(reached.mean())
    assert asked.step.median == pytest.approx(np.quantile(exact, 0.5, method="inverted_cdf"))
    assert asked.step.high == np.inf
    assert "later" in asked.sentence


def test_a_value_below_is_fallen_to(straight):
    made, _ = straight
    down = replace(made, latent=0.4 - made.latent)
    asked = reach_of(down, 0.0)
    assert not asked.rising
    assert asked.by_horizon == pytest.approx(reach_of(made, 0.4).by_horizon)
    assert "falls to 0" in asked.sentence


def test_what_is_reached_by_now_is_said(straight):
    made, _ = straight
    risen = reach_of(replace(made, latent_now=np.where(np.arange(400) < 190, 0.5, 0.1)), 0.2)
    assert risen.already == pytest.approx(190 / 400)


def test_nothing_reaches_what_no_path_reaches(straight):
    made, _ = straight
    asked = reach_of(replace(made, latent=np.minimum(made.latent, 0.3)), 0.9)
    assert asked.by_horizon == 0.0
    assert "later" not in asked.sentence
    told = summarize_forecast(made, reach=(0.9,)).to_dict()["reach"][0]
    assert told["reward"] == 0.9
    assert told["step"]["high"] is None  # infinity


@pytest.mark.parametrize("value", [1.5, -0.1, np.nan, np.inf])
def test_impossible_rewards_are_named(found, value):
    with pytest.raises(SettingError, match="expected a reward between 0 and 1"):
        reach_of(found, value)


@pytest.mark.parametrize(
    ("rising", "falling", "message"),
    [(0.95, 0.0, "expected to rise"), (0.7, 0.1, "likely to rise"), (0.1, 0.6, "likely to fall"),
     (0.5, 0.4, "may rise (50%), fall (40%)"),
     (0.55, 0.05, "may rise (55%), fall (5%)"), (0.3, 0.15, "may rise (30%), fall (15%) or stay"),
     (0.2, 0.1, "likely to stay within 0.05"),
     (0.1, 0.05, "expected to stay within 0.05")],
)  # fmt: skip
def test_the_sentence_says_as_much_as_the_paths(found, rising, falling, message):
    n = len(found.latent)
    change = np.zeros(n)
    change[: round(rising * n)], change[n - round(falling * n) :] = 0.2, -0.2
    made = replace(found, latent_now=np.full(n, 0.5), latent=np.repeat(0.5 + change[:, None], found.latent.shape[1], 1))
    assert message in summarize_forecast(made, threshold=0.05).sentence


def test_where_the_learning_rate_has_ended_the_sentence_says_so_first(found):
    made = replace(found, schedule=replace(found.schedule, shape="constant", rate_now=0.0))
    assert summarize_forecast(made).sentence.startswith("the learning-rate schedule has ended, so no further change")
    over = replace(made, schedule=replace(made.schedule, assumed=PLAN_OVER))
    assert summarize_forecast(over).sentence.startswith("the planned steps are over, so no further change")


@pytest.mark.parametrize(("logged", "words"), [("constant", PLAN_OVER), ("linear", RATE_ENDED), ("cosine", RATE_ENDED)])
def test_at_its_planned_end_only_a_decaying_rate_has_ended(logged, words):
    found = remaining(np.arange(1.0, 11.0), np.ones(10), logged, total_steps=10.0)
    assert (found.rate_now, found.assumed) == (0.0, words)
