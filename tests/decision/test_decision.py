"""When to stop: checked against cases that can be solved by hand, on hand-made forecasts."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.decide import StoppingCosts, decide
from bayes_grpo.decision.result import amount
from bayes_grpo.signals.loss import Fallen
from tests.helpers.paths import not_none
from tests.helpers.shown import text_of


def made(
    latent: Any,
    latent_now: Any = 0.0,
    now: float = 100.0,
    every: float = 10.0,
    at_infinity: Any = 1.0,
    high: float = 1.0,
    lag: float = 0.0,
    ends: float = np.inf,
    fallen: Fallen | None = None,
) -> Any:
    """A forecast by its paths, shape (draws, h)."""
    latent = np.atleast_2d(np.asarray(latent, float))
    draws, h = latent.shape
    return SimpleNamespace(
        now=now,
        step=now + every * np.arange(1, h + 1),
        latent=latent,
        rows=latent,
        latent_now=np.broadcast_to(np.asarray(latent_now, float), draws),
        logged=np.array([np.nan]),
        lag=lag,
        schedule=SimpleNamespace(ends=ends),
        fallen=fallen,
        at_infinity=np.broadcast_to(np.asarray(at_infinity, float), draws),
        final=np.broadcast_to(np.asarray(at_infinity, float), draws),
        high=high,
        assumed=("learning rate: constant from now on",),
    )


def saturating(tau: Any, gain: Any, h: int = 50) -> Any:
    """Paths gain (1 − e^{−t/τ}) at t = 10, 20, …"""
    t = 10.0 * np.arange(1, h + 1)
    return made(np.reshape(gain, (-1, 1)) * (1.0 - np.exp(-t / np.reshape(tau, (-1, 1)))))


def test_a_stop_keeps_a_policy_that_rows_tell_of_later():
    t = 10.0 * np.arange(1, 41)
    top = made(np.where(t <= 200.0, t, 400.0 - t) / 200.0, lag=25.0)  # rows show the top at step 300
    found = decide(top, cost_per_step=1e-6, value_per_reward=1.0)
    assert found.recommended == 270.0  # 275 lies between two steps: both are as good, and the first costs less
    assert found.expected(270.0) == pytest.approx((195.0 - 25.0) / 200.0, abs=1e-3)
    whole = decide(made(top.latent), cost_per_step=1e-6, value_per_reward=1.0)
    assert whole.recommended == 300.0


def test_stops_where_the_slope_equals_the_price():
    # d/dt V g (1 − e^{−t/τ}) = C at t = τ ln(V g / (C τ)) = 100 ln 4 = 138.6.
    found = decide(saturating(100.0, 0.4), cost_per_step=1.0, value_per_reward=1000.0)
    assert found.recommended == 240.0
    assert found.expected(240.0) == pytest.approx(1000 * 0.4 * (1 - np.exp(-1.4)) - 140.0)
    assert found.expected(600.0) == pytest.approx(400 * (1 - np.exp(-5.0)) - 500.0)
    assert found.probability_pays == 1.0
    assert found.pays_at == found.recommended
    assert "Stop at step 240" in found.sentence
    assert "90%" in found.sentence


def test_uncertain_paths_are_averaged():
    rng = np.random.default_rng(0)
    forecast = saturating(rng.uniform(30, 300, 4000), rng.normal(0.2, 0.2, 4000))
    found = decide(forecast, cost_per_step=0.5, value_per_reward=1000.0)
    paths = 1000.0 * np.c_[np.zeros(4000), forecast.latent] - 0.5 * (found.step - 100.0)
    assert found.net == pytest.approx(paths.mean(axis=0))
    assert found.net_low == pytest.approx(np.quantile(paths, 0.05, axis=0))
    assert found.recommended == found.step[np.argmax(paths.mean(axis=0))]
    assert found.probability_pays == pytest.approx(np.mean(paths[:, found.step == found.recommended] > 0))
    assert 0.0 < found.probability_pays < 1.0


def test_a_price_above_every_slope_stops_now():
    found = decide(saturating(100.0, 0.4), cost_per_step=5.0, value_per_reward=1000.0)
    assert found.recommended == found.now == 100.0
    # The best of the later steps decides whether continuing pays, and says so.
    assert found.pays_at == 110.0
    assert found.probability_pays == 0.0
    assert "Stop now, at step 100" in found.sentence
    assert "The best later step, 110," in found.sentence


def test_draws_that_are_not_finite_do_not_count():
    latent = saturating(100.0, np.full(10, 0.4)).latent.copy()
    latent[3] = np.nan
    found = decide(made(latent), cost_per_step=1.0, value_per_reward=1000.0)
    assert found.recommended == 240.0
    with pytest.raises(SettingError, match="no draw of the forecast is finite"):
        decide(made(np.full((3, 4), np.nan)), cost_per_step=1.0, value_per_reward=1.0)


def test_a_reward_without_a_stated_largest_value_is_warned_of():
    paths = 0.01 * np.arange(1, 11)
    known, unknown = (decide(made(paths, high=h), cost_per_step=1.0, value_per_reward=1.0) for h in (1.0, np.inf))
    assert known.warnings == ()
    assert "reward_high" in unknown.warnings[0]
    assert unknown.to_dict()["warnings"] == list(unknown.warnings)


def test_no_stop_lies_beyond_the_end_of_the_learning_rate():
    rising = np.arange(1.0, 11.0)[None, :] * np.ones((50, 1))
    found = decide(made(rising, ends=144.2), cost_per_step=0.001, value_per_reward=1.0)
    assert found.step[-1] == found.recommended == found.until == 145.0
    over = decide(made(np.zeros((50, 10)), ends=100.0), cost_per_step=0.001, value_per_reward=1.0)
    assert over.recommended == 100.0
    assert over.until <= 101.0
    open_ended = decide(made(rising), cost_per_step=0.001, value_per_reward=1.0)
    assert open_ended.until == 200.0


def test_a_fallen_run_goes_back_where_that_is_worth_more_than_going_on():
    fallen = Fallen(60.0, 0.9, 0.1, saved_step=60.0, saved=0.9)
    rise = np.linspace(0.0, 0.2, 10)[None, :] * np.ones((50, 1))
    found = decide(made(rise, fallen=fallen), cost_per_step=0.0, value_per_reward=10.0)
    assert not_none(found.back).step == 60.0
    assert not_none(found.back).net == pytest.approx(8.0)
    assert found.recommended == found.now
    assert found.sentence.startswith("Stop, and go back to the checkpoint of about step 60:")
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["back"]["gain"] == pytest.approx(0.8)
    early = fallen._replace(saved_step=1.0, at_once=True)
    anew = decide(made(rise, fallen=early), cost_per_step=0.0, value_per_reward=10.0)
    assert anew.sentence.startswith("Stop, and start over: the reward has fallen by 0.8 since")
    steep = decide(made(10.0 * rise, fallen=fallen), cost_per_step=0.0, value_per_reward=10.0)
    assert steep.back is None
    assert not_none(steep.recommended) > steep.now


def test_without_a_cost_no_stop_is_recommended_and_the_curve_is_shown():
    t = 10.0 * np.arange(1, 41)
    peak = made(np.where(t <= 200.0, t, 400.0 - t) / 200.0)
    found = not_none(StoppingCosts(value_per_reward=50.0).answer(peak))
    assert (found.recommended, found.stops_now, found.pays_at) == (None, False, 300.0)
    assert found.expected(300.0) == pytest.approx(50.0)
    text = text_of(found)
    assert text.startswith("No stop is recommended: no cost of a step is given")
    assert "recommended" not in text.partition("Reward gained by a stop at a step")[2]
    assert [line.split()[1] for line in text.splitlines() if line.strip().startswith("300 ")] == ["+1.000"]
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["recommended"] is None
    every = not_none(StoppingCosts(checkpoints=20.0).answer(peak))
    assert (every.recommended, every.value_per_reward) == (None, 1.0)
    fallen = Fallen(60.0, 0.9, 0.1, saved_step=60.0, saved=0.9)
    assert decide(made(0.1 * peak.latent, fallen=fallen)).back is None


def test_a_forecast_without_future_is_refused():
    with pytest.raises(SettingError, match="no future step"):
        decide(made(np.empty((3, 0))), cost_per_step=1.0, value_per_reward=1.0)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"cost_per_step": 1.0}, "value_per_reward: found a cost without a value"),
        ({"cost_per_step": -1.0, "value_per_reward": 1.0}, "cost_per_step: "),
        ({"cost_per_step": float("inf"), "value_per_reward": 1.0}, "cost_per_step: "),
        ({"cost_per_step": 1.0, "value_per_reward": 0.0}, "value_per_reward: "),
        ({"checkpoints": 0.0}, "checkpoints: expected a finite number above 0"),
    ],
)
def test_flags_that_are_no_question(flags: dict[str, Any], message: str):
    with pytest.raises(SettingError, match=message) as caught:
        StoppingCosts(**flags)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (12345.6, "12,346"), (-1500.0, "-1,500"), (12.345, "12.3"), (0.01234, "0.012")]
)
def test_amounts(value: float, text: str):
    assert amount(value) == text


def test_a_stop_that_the_draws_cannot_tell_from_the_end_is_the_end():
    rng = np.random.default_rng(0)
    rise = np.linspace(0.01, 0.5, 50) * np.ones((400, 1))
    wild = rise + np.where(np.arange(50) == 48, 0.02, 0.0) + 0.3 * rng.standard_normal((400, 50))
    assert decide(made(wild), cost_per_step=1e-6).recommended == 600.0
    assert decide(made(rise + np.where(np.arange(50) == 48, 0.02, 0.0)), cost_per_step=1e-6).recommended == 590.0


def test_a_mean_that_a_rare_gain_carries_says_so():
    rare = np.zeros((100, 50))
    rare[:20] = np.linspace(0.0, 10.0, 50)
    found = decide(made(rare, high=np.inf), cost_per_step=0.001)
    assert (found.at_odds, found.recommended) == (True, 600.0)
    assert "above 0 with probability 20%: a rare large gain carries the mean." in found.sentence
    assert "set it: --set reward_high=VALUE" in found.warnings[0]
    assert not decide(made(rare), cost_per_step=1.0).at_odds
    assert not decide(made(np.linspace(0.0, 1.0, 50)), cost_per_step=0.001).at_odds
