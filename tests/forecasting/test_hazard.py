"""Events that no law knows: what they are, how probable, and what they do to paths."""

import json
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import pytest

from bayes_grpo import forecast
from bayes_grpo.forecasting import events
from bayes_grpo.forecasting import forecast as forecast_module
from bayes_grpo.forecasting.events import (
    COLLAPSE,
    HAZARDS,
    TAKEOFF,
    EventRates,
    OriginState,
    Rate,
    RewardPaths,
    Span,
    chances,
    origin_state,
    shipped_event_rates,
)
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.rows.reward_range import RewardRange
from benchmarks.lab.learners.hazard import content_of
from benchmarks.lab.learners.hazard_cases import event_after
from tests.helpers.runs import make_run, rising_run, steps

SHARE = RewardRange(0.0, 1.0)
REGIMES = ("flat", "exponential")
SPANS = {COLLAPSE: Span(0.3, 0.6), TAKEOFF: Span(0.1, 0.4)}
SIZES = {COLLAPSE: np.array([0.0, 1.0]), TAKEOFF: np.array([0.0, 1.5])}


def noise(n, seed=0, sd=0.01):
    return sd * np.random.default_rng(seed).standard_normal(n)


def hazard(collapse=0.0, takeoff=0.0):
    """Rates of both events; a collapse loses from half to all, a take-off gains up to nine tenths of the room."""
    return EventRates(
        {COLLAPSE: Rate(collapse, np.array([0.0, 1.0])), TAKEOFF: Rate(takeoff, np.array([0.1, 0.9]))}, {"made": "here"}
    )


def paths(draws=1000, horizon=40, level=0.6):
    rng = np.random.default_rng(1)
    trend = np.full((draws, horizon), level)
    latent = trend + 0.01 * rng.standard_normal(trend.shape)
    return RewardPaths(latent, trend, latent + 0.02 * rng.standard_normal(trend.shape))


def test_the_chance_of_an_event_does_not_grow_beyond_ten_times_the_rows():
    origin = OriginState(now=0.5, noise=0.01, rows=20, last=4, spans=SPANS)
    within = [hazard(0.01, 0.04).chance(origin, ahead)[TAKEOFF] for ahead in (100, 200, 20000)]
    assert within[0] < within[1] == within[2]


def test_a_gain_that_is_half_lost_is_a_collapse_where_no_lowest_reward_is_known():
    risen = origin_state(np.linspace(0.0, 1.0, 50) + noise(50), RewardRange())
    least, gain = risen.spans[COLLAPSE]
    assert gain == pytest.approx(0.8, abs=0.03)  # between the middles of the first and the last fifth
    assert least == events._LOST * gain
    assert TAKEOFF not in risen.spans
    for lost, expected in ((0.9, ""), (1.1, COLLAPSE)):
        came = np.full(50, risen.now - lost * events._LOST * gain)
        event, size = event_after(risen, came)
        assert event == expected
        assert not expected or size == pytest.approx(0.1)  # a tenth of the way from half of it to all of it


def test_where_the_reward_started_high_its_level_counts_and_not_its_gain():
    y = np.linspace(0.6, 0.8, 50) + noise(50)
    with_range, without = origin_state(y, SHARE), origin_state(y, RewardRange())
    assert with_range.spans[COLLAPSE] == pytest.approx((events._LOST * with_range.now, with_range.now))
    assert without.spans[COLLAPSE].most == pytest.approx(0.16, abs=0.02)
    back = np.full(50, 0.6)  # all of the gain is lost, a quarter of the level
    assert event_after(without, back)[0] == COLLAPSE
    assert event_after(with_range, back)[0] == ""
    assert event_after(with_range, np.full(50, 0.3))[0] == COLLAPSE
    # A log that began low is judged by its gain, but can lose more than that.
    low = origin_state(np.linspace(0.2, 0.8, 50) + noise(50), SHARE).spans[COLLAPSE]
    assert low == pytest.approx((events._LOST * 0.48, 0.74), abs=0.03)


def test_a_log_that_has_nothing_to_lose_does_not_collapse():
    low = origin_state(noise(50), SHARE)
    assert COLLAPSE not in low.spans
    assert event_after(low, np.zeros(50))[0] == ""


def test_a_loss_within_noise_is_no_collapse():
    loud = OriginState(now=0.5, noise=1.0, rows=20, last=4, spans={COLLAPSE: Span(0.25, 0.5)})
    assert event_after(loud, np.zeros(20))[0] == ""
    assert event_after(loud._replace(noise=0.01), np.zeros(20))[0] == COLLAPSE


def test_a_take_off_starts_flat_and_gains_several_times_the_noise():
    flat = origin_state(0.1 + noise(50), SHARE)
    least, room = flat.spans[TAKEOFF]
    assert least == pytest.approx(events._TAKEOFF * 0.01, rel=0.3)
    assert room == pytest.approx(1.0 - flat.now)
    assert event_after(flat, np.full(50, flat.now + 0.9 * least))[0] == ""
    event, size = event_after(flat, np.full(50, flat.now + 0.5 * (least + room)))
    assert (event, size) == (TAKEOFF, pytest.approx(0.5))
    free = origin_state(0.1 + noise(50), RewardRange()).spans[TAKEOFF]
    assert free.most == events._TAKEOFF_MOST * free.least
    assert TAKEOFF not in origin_state(np.linspace(0.1, 0.5, 50) + noise(50), SHARE).spans
    assert TAKEOFF not in origin_state(0.99 + noise(50, sd=0.005), SHARE).spans  # no room


def test_an_event_is_told_by_the_last_tenth_of_the_log():
    risen = origin_state(np.linspace(0.0, 1.0, 50) + noise(50), RewardRange())
    dip = np.concatenate([np.zeros(30), np.full(20, risen.now)])
    assert event_after(risen, dip)[0] == ""
    assert event_after(risen, dip[::-1])[0] == COLLAPSE


def test_the_probability_grows_with_the_horizon_as_a_rate_does():
    one, two, far = (chances({COLLAPSE: 0.1}, x)[COLLAPSE] for x in (1.0, 2.0, 1e3))
    assert one == pytest.approx(1.0 - np.exp(-0.1))
    assert 1.0 - two == pytest.approx((1.0 - one) ** 2)
    assert far == pytest.approx(1.0)
    both = chances({COLLAPSE: 0.1, TAKEOFF: 0.3}, 1.0)
    assert sum(both.values()) == pytest.approx(1.0 - np.exp(-0.4))
    assert both[TAKEOFF] == pytest.approx(3.0 * both[COLLAPSE])
    assert chances({COLLAPSE: 0.1}, 0.0) == chances({COLLAPSE: 0.0}, 1.0) == {COLLAPSE: 0.0}
    assert chances({}, 1.0) == {}


def with_events(before, possible, chance, sizes=SIZES):
    """Paths at .6 of which shares meet events."""
    total = sum(chance.values())
    rate = -np.log1p(-min(total, 1.0 - 1e-12)) / total
    own = EventRates({name: Rate(rate * p, sizes[name]) for name, p in chance.items()}, {})
    now = np.full(len(before.latent), 0.6)
    found = own.apply(OriginState(0.6, 0.01, 40, 8, SPANS), 40, before, now, possible, SHARE, 3)
    return SimpleNamespace(**dict(zip(("paths", "event", "settles"), found, strict=True)))


def test_as_many_paths_meet_an_event_as_it_is_probable():
    found = with_events(paths(), np.arange(40), {COLLAPSE: 0.1, TAKEOFF: 0.2})
    assert {name: int(np.sum(found.event == name)) for name in ("", *HAZARDS)} == {"": 700, COLLAPSE: 100, TAKEOFF: 200}


def test_a_path_with_an_event_ends_where_the_event_leads_and_stays_inside_the_range():
    before = paths()
    found = with_events(before, np.arange(30), {COLLAPSE: 0.3, TAKEOFF: 0.3})
    down, up, none = (found.event == name for name in (COLLAPSE, TAKEOFF, ""))
    for ours, theirs in zip(found.paths, before, strict=True):
        np.testing.assert_array_equal(ours[none], theirs[none])
    assert np.isnan(found.settles[none]).all()
    latent, trend, rows = found.paths
    np.testing.assert_allclose(trend[down, -1], found.settles[down])
    assert found.settles[down].max() < 0.31
    assert found.settles[down].min() < 0.01
    assert found.settles[up].min() == pytest.approx(0.7, abs=0.01)
    assert (found.settles[up] == 1.0).any()  # gains of more than there is room for
    for x in (latent, trend, rows):
        assert x[down | up].min() >= 0.0
        assert x[down | up].max() <= 1.0
    # Noise stays where the range lets it.
    inner = down & (found.settles > 0.2)
    assert np.std((latent - trend)[inner]) == pytest.approx(0.01, rel=0.1)
    assert np.std((rows - latent)[inner]) == pytest.approx(0.02, rel=0.1)


def test_an_event_begins_evenly_over_the_rows_where_it_may():
    possible = np.arange(10, 30)
    found = with_events(paths(4000), possible, {COLLAPSE: 1.0}, {COLLAPSE: np.zeros(2)})
    moved = found.paths.trend < 0.6 - 1e-9
    begins, there = moved.argmax(axis=1), np.isclose(found.paths.trend, 0.3).argmax(axis=1)
    assert set(begins) == set(possible)
    assert begins.mean() == pytest.approx(possible.mean(), abs=0.4)
    assert set(there - begins) == {events._SETTLED - 1}


def test_numbers_can_be_read_and_written():
    shipped = shipped_event_rates()
    stored = files("bayes_grpo.forecasting").joinpath("event_rates.json").read_text(encoding="utf-8")
    assert content_of(shipped) == json.loads(stored)
    assert set(shipped.rates) == set(HAZARDS)
    for rate in shipped.rates.values():
        assert 0.0 < rate.rate < 0.2
        assert (np.diff(rate.sizes) >= 0.0).all()
        assert rate.sizes[0] >= 0.0


def forecast_with(rates, run, until, draws, **options):
    """A forecast with other event rates than the shipped ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecast_module, "shipped_event_rates", lambda: rates)
        return forecast(run, until, regimes=REGIMES, draws=draws, **options)


@pytest.fixture(scope="module")
def pair():
    """The same forecast without events, and with many."""
    run = rising_run(reward_low=0.0, reward_high=1.0)
    return [forecast_with(rates, run, 80, 1000) for rates in (hazard(), hazard(collapse=0.4))]


def test_a_forecast_tells_how_probable_events_are(pair):
    without, with_them = (summarize_forecast(f) for f in pair)
    assert (without.p_collapse, without.p_takeoff) == (0.0, 0.0)
    # As many rows ahead as were seen.
    assert with_them.p_collapse == pytest.approx(1.0 - np.exp(-0.4), abs=2e-3)
    assert with_them.to_dict()["p_collapse"] == with_them.p_collapse
    assert with_them.to_frame().loc["p_collapse", "value"] == with_them.p_collapse
    assert with_them.row_at_horizon.low < without.row_at_horizon.low - 0.1


def test_draws_with_an_event_tell_the_same_story_throughout(pair):
    without, f = pair
    down = f.event == COLLAPSE
    np.testing.assert_array_equal(f.latent[~down], without.latent[~down])
    np.testing.assert_array_equal(f.latent_now, without.latent_now)
    np.testing.assert_array_equal(f.final[down], f.at_infinity[down])
    assert (f.final[down] < f.latent_now[down] - 0.1).all()
    for x in (f.latent, f.rows, f.trend):
        assert x[down].min() >= 0.0


@pytest.mark.thorough
def test_without_a_gradient_nothing_moves_and_no_event_begins():
    run = rising_run(reward_low=0.0, reward_high=1.0)
    f = forecast_with(hazard(collapse=2.0), run, 80, 500, schedule="linear", total_steps=50)
    stopped = f.step > 50.0
    assert stopped.sum() == 30
    none = f.event == ""
    assert 0 < none.sum() < 500
    assert np.ptp(f.latent[none][:, stopped], axis=1).max() < 1e-9  # every law stands still
    # Ten of forty rows have a gradient; an event that has begun is over a few rows later.
    assert np.mean(~none) == pytest.approx(1.0 - np.exp(-2.0 * 10 / 40), abs=3e-3)
    late = f.step > 50.0 + events._SETTLED
    assert np.ptp(f.trend[~none][:, late], axis=1).max() < 1e-9


def test_nothing_after_the_origin_plays_a_part():
    run = rising_run(60)
    crashed = replace(run, reward=np.where(run.step > 40, 0.0, run.reward))
    found = [forecast(x.until(40.0), 60, regimes=REGIMES, draws=200) for x in (run, crashed)]
    np.testing.assert_array_equal(found[0].latent, found[1].latent)
    np.testing.assert_array_equal(found[0].event, found[1].event)


def test_a_flat_log_may_take_off():
    run = make_run(steps(40), 0.1 + noise(40), reward_low=0.0, reward_high=1.0)
    f = forecast_with(hazard(takeoff=0.5), run, 80, 500)
    assert summarize_forecast(f).p_takeoff == pytest.approx(1.0 - np.exp(-0.5), abs=2e-3)
    up = f.event == TAKEOFF
    assert f.latent[up, -1].mean() > f.latent[~up, -1].mean() + 0.02
