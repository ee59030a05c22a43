"""A forecast as a frame, the gain that counts, and a horizon that no row supports."""

from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo.forecasting.forecast import Forecast, forecast
from bayes_grpo.forecasting.summary import summarize_forecast
from bayes_grpo.views.view import view
from tests.helpers.runs import rising_run


def ahead(horizon: float) -> Forecast:
    return forecast(rising_run(40, reward_low=0.0, reward_high=1.0), horizon, regimes=("exponential",), draws=200)


@pytest.fixture(scope="module")
def near() -> Forecast:
    return ahead(60.0)


def test_the_frame_has_a_row_a_step_with_rows_and_latent_reward(near):
    frame = near.to_frame()
    assert frame.index.tolist() == near.step.tolist()
    assert list(frame) == ["row_median", "row_low", "row_high", "latent_median", "latent_low", "latent_high"]
    assert frame["latent_median"].iloc[-1] == pytest.approx(np.median(near.latent[:, -1]))
    assert (frame["row_high"] - frame["row_low"] > frame["latent_high"] - frame["latent_low"]).all()


def test_a_horizon_that_no_row_supports_is_a_caution(near):
    assert view(summarize_forecast(near)).unchecked == ""
    far = summarize_forecast(ahead(1e9))
    assert far.far is not None
    assert (far.far.until, far.far.length) == (1e9, 40.0)
    assert view(far).unchecked.startswith("Caution: the horizon, step 1e+09, is more than ten times the log's length")
    assert view(replace(far, notes=(far.far.sentence,), far=None)).unchecked == ""
