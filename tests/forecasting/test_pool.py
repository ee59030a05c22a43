"""The level of the last rows and its share beside the laws."""

import json
from importlib.resources import files

import numpy as np
import pytest

from bayes_grpo import forecast
from bayes_grpo.forecasting import pool as pool_module
from bayes_grpo.forecasting.fits import fit_ensemble
from bayes_grpo.forecasting.level import LAST, LEVEL_NAME, Level, level_of, level_paths
from bayes_grpo.forecasting.pool import BEYOND, FEATURES, Pool, pool_features, pooled, shipped_pool
from bayes_grpo.rows.reward_range import RewardRange
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.lab.learners.pool import content_of
from tests.helpers.runs import make_run, rising_run, steps

N = 400


def noise(seed, size=N):
    return np.random.default_rng(seed).standard_normal(size)


def pool(intercept=0.0, **weight):
    known = np.array([weight.get(name, 0.0) for name in FEATURES])
    return Pool(intercept, known, np.zeros(5), np.ones(5), {})


def test_the_level_of_noise_is_known_as_well_as_ten_rows_let_it():
    found = level_of(0.5 + 0.1 * noise(0))
    assert found.mean == pytest.approx(0.5, abs=4 * 0.1 / np.sqrt(LAST))
    assert found.row_sd == pytest.approx(0.1, rel=0.1)
    # An error of the level is that of ten rows.
    assert found.sd == pytest.approx(0.1 / np.sqrt(LAST), rel=0.35)


def test_the_level_of_a_walk_wanders():
    walk = 0.05 * np.cumsum(noise(1)) + 0.005 * noise(2)
    found = level_of(walk)
    errors = walk[LAST:] - np.convolve(walk, np.ones(LAST) / LAST, mode="valid")[:-1]
    assert found.sd > 1.5 * found.row_sd  # ten steps of the walk against one
    assert np.hypot(found.sd, found.row_sd) == pytest.approx(np.sqrt(np.mean(errors**2)))


def test_a_reward_that_never_differs_has_hardly_any_spread():
    found = level_of(np.full(30, 0.25))
    assert found.mean == 0.25
    assert 0.0 < found.sd < 1e-9
    assert 0.0 < found.row_sd < 1e-9


def test_paths_stay_inside_the_range_and_spread_as_they_say():
    level = Level(0.9, 0.2, 0.1)
    (latent, trend, rows), fixed = level_paths(level, 5, 2000, 3, RewardRange(0.0, 1.0))
    assert latent.shape == rows.shape == (2000, 5)
    assert (np.ptp(latent, axis=1) == 0.0).all()
    np.testing.assert_array_equal(latent, trend)
    np.testing.assert_array_equal(latent[:, 0], fixed)
    assert rows.min() >= 0.0
    assert rows.max() <= 1.0
    free, _ = level_paths(level, 5, 2000, 3, RewardRange())
    assert free.latent[:, 0].std() == pytest.approx(0.2, rel=0.01)
    assert (free.rows - free.latent).std() == pytest.approx(0.1, rel=0.05)


def test_features_say_what_they_are_named_after():
    trending = {"flat": False, "exponential": True}
    evidence = {"flat": -20.0, "exponential": -5.0}
    rising = rows_of(make_run(steps(100), np.linspace(0.0, 1.0, 100) + 0.05 * noise(4, 100)))
    falling = rows_of(make_run(steps(100), np.linspace(1.0, 0.0, 100) + 0.05 * noise(4, 100)))
    up, down = (pool_features(t, evidence, trending, 50) for t in (rising, falling))
    assert up[0] == pytest.approx(1.5)
    assert up[1] == pytest.approx(np.log(2.0))
    assert up[2] == pytest.approx(np.log(0.5))
    assert up[3] > up[4] > 0.5
    assert down[3] == pytest.approx(-up[3], abs=0.2)
    assert pool_features(rising, {"flat": -1e3, "exponential": 0.0}, trending, 50)[0] == 3.0
    assert pool_features(rising, {"exponential": 0.0}, trending, 50)[0] == 0.0


def test_a_share_is_held_where_nothing_was_learned():
    known = pool(rows=1.0)
    far = np.array([0.0, 50.0, 0.0, 0.0, 0.0])
    assert known.share(far) == pytest.approx(1.0 / (1.0 + np.exp(-BEYOND)))
    assert pool(intercept=-1.0).share(far) == pytest.approx(1.0 / (1.0 + np.exp(1.0)))


def test_the_shipped_numbers_are_those_that_the_learner_writes():
    shipped = shipped_pool()
    stored = files("bayes_grpo.forecasting").joinpath("pool.json").read_text(encoding="utf-8")
    assert content_of(shipped) == json.loads(stored)
    assert 0.02 < shipped.share(shipped.centre) < 0.5


def test_a_forecast_is_drawn_from_regimes_and_last_value_by_their_weights(monkeypatch):
    run, regimes = rising_run(), ("flat", "exponential")
    monkeypatch.setattr(pool_module, "shipped_pool", lambda: pool(intercept=-1.0))
    table = rows_of(run)
    fitted = fit_ensemble(table, regimes, strict=False)
    found = pooled(table, fitted, 20)
    assert sum(found.values()) == pytest.approx(1.0)
    assert found[LEVEL_NAME] == pytest.approx(1.0 / (1.0 + np.exp(1.0)))
    assert found["flat"] / found["exponential"] == pytest.approx(fitted.weights["flat"] / fitted.weights["exponential"])
    monkeypatch.setattr(pool_module, "shipped_pool", pool)
    ahead = forecast(run, 80, regimes=regimes, draws=1000)
    assert ahead.weights[LEVEL_NAME] == pytest.approx(0.5)
    ours = (ahead.regime == LEVEL_NAME) & (ahead.event == "")
    assert (ahead.regime == LEVEL_NAME).sum() == 500
    assert np.ptp(ahead.latent[ours], axis=1).max() == 0.0
    assert ahead.latent[ours, 0].mean() == pytest.approx(run.reward[-LAST:].mean(), abs=2e-3)
    alone = forecast(run, 80, regimes=("exponential",), draws=1000)
    assert LEVEL_NAME not in alone.weights
