"""A forecast as ArviZ reads one."""

import json
import math

import arviz as az
import numpy as np
import pytest

from bayes_grpo import Forecast
from bayes_grpo.rows.schedule import RemainingRate


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    step, size = np.array([11.0, 12.0, 15.0]), 500
    latent = 0.5 + 0.01 * step + 0.1 * rng.standard_normal((size, 3))
    return Forecast(
        now=10.0,
        step=step,
        latent=latent,
        rows=latent + 0.05 * rng.standard_normal((size, 3)),
        trend=latent - 0.01,
        latent_now=rng.standard_normal(size),
        initial=np.full(size, np.nan),
        at_infinity=rng.standard_normal(size),
        final=rng.standard_normal(size),
        beyond_step=np.array([20.0, 40.0]),
        beyond=rng.standard_normal((size, 2)),
        regime=np.array(["flat", "exponential"])[rng.integers(0, 2, size)],
        event=np.array(["", "collapse"])[rng.integers(0, 2, size)],
        weights={"flat": 0.5, "exponential": 0.5},
        signal="reward",
        logged_step=np.arange(1.0, 11.0),
        logged=rng.uniform(size=10),
        low=-math.inf,
        high=1.0,
        schedule=RemainingRate("linear", 10.0, 0.5, 0.0, 20.0, ""),
        assumed=("something",),
        notes=(),
        name="made",
    )


def test_arviz_summarises_the_predictions(forecast):
    tree = forecast.to_datatree()
    table = az.summary(tree, group="predictions", var_names=["latent", "rows"], round_to="none", kind="stats")
    for name in ("latent", "rows"):
        for i, step in enumerate(forecast.step):
            row = table.loc[f"{name}[{step}]"]
            assert row["mean"] == pytest.approx(getattr(forecast, name)[:, i].mean(), rel=1e-12)
            assert row["sd"] == pytest.approx(getattr(forecast, name)[:, i].std(ddof=1), rel=1e-2)


def test_predictions_and_draws_keep_their_pairs(forecast):
    tree = forecast.to_datatree()
    drawn = az.extract(tree, group="predictions", num_samples=50, random_seed=1, keep_dataset=True)
    pick = drawn["draw"].to_numpy()
    np.testing.assert_array_equal(drawn["latent"].transpose("sample", "step"), forecast.latent[pick])
    np.testing.assert_array_equal(tree["origin"]["regime"].to_numpy()[0], forecast.regime)
    np.testing.assert_array_equal(tree["posterior"]["latent_now"].to_numpy()[0], forecast.latent_now)


def test_what_is_known_stands_in_its_own_groups(forecast, tmp_path):
    tree = forecast.to_datatree()
    np.testing.assert_array_equal(tree["observed_data"]["step"], forecast.logged_step)
    np.testing.assert_array_equal(tree["observed_data"]["rows"], forecast.logged)
    np.testing.assert_allclose(tree["predictions_constant_data"]["rate"], [0.45, 0.4, 0.25])
    assert json.loads(tree.attrs["weights"]) == forecast.weights
    tree.to_netcdf(tmp_path / "forecast.nc")
    with az.from_netcdf(tmp_path / "forecast.nc") as again:
        np.testing.assert_array_equal(again["predictions"].dataset["trend"].to_numpy()[0], forecast.trend)


def test_arviz_summarizes_the_posterior_of_a_forecast(forecast):
    table = az.summary(forecast.to_datatree(), kind="stats", round_to="none")
    assert set(table.index) == {"latent_now", "initial", "at_infinity", "final"}
    assert table.loc["final", "mean"] == pytest.approx(forecast.final.mean(), rel=1e-12)
