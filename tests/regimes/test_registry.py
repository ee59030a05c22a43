"""Regimes of a user's own: a fit carries them."""

from dataclasses import dataclass

import numpy as np
import pytest

from bayes_grpo import SamplerSettings, fit, forecast, load_fit, save_fit, summarize
from bayes_grpo.common.errors import FitFileError
from bayes_grpo.regimes.built_in.exponential import Exponential
from bayes_grpo.regimes.registry import get_regime
from tests.helpers.runs import rising_run

FAST = SamplerSettings(num_chains=4, num_warmup=300, num_samples=500)


@dataclass(frozen=True)
class Named(Exponential):
    """A user's own regime under a name that is taken, with an option."""

    factor: float = 1.0
    name = "exponential"
    title = "mine"

    def derived(self, values, table):
        return {"my_rate": self.factor / np.asarray(values["relaxation_time"])}


@pytest.mark.thorough
def test_a_fit_carries_its_regime_even_under_a_name_that_is_taken(tmp_path):
    mine = Named(factor=3.0)
    result = fit(rising_run(), mine, sampler=FAST)
    assert result.regime is mine
    names = {row.name for row in summarize(result).rows}
    assert "my_rate" in names
    assert "relaxation_rate" not in names
    np.testing.assert_allclose(result.draws("my_rate"), 3.0 / result.draws("relaxation_time"))
    assert len(forecast(result, until=60).latent) == 2000
    save_fit(result, tmp_path / "fit.nc")
    assert load_fit(tmp_path / "fit.nc", mine).regime is mine
    with pytest.raises(FitFileError, match="expected a fit of regime 'flat', found one of 'exponential'"):
        load_fit(tmp_path / "fit.nc", get_regime("flat"))


@pytest.mark.thorough
def test_a_regime_that_no_registry_knows_is_fitted_and_read_again(tmp_path):
    class Unknown(Exponential):
        name = "unknown"

    result = fit(rising_run(), Unknown(), sampler=FAST)
    assert "unknown" in summarize(result).to_dict()["meta"]["regime"]
    save_fit(result, tmp_path / "fit.nc")
    with pytest.raises(FitFileError, match="hand the regime to load_fit"):
        load_fit(tmp_path / "fit.nc")
    again = load_fit(tmp_path / "fit.nc", Unknown())
    np.testing.assert_array_equal(again.draws("relaxation_time"), result.draws("relaxation_time"))


def test_equal_regimes_share_their_programs_and_others_do_not():
    assert Exponential() == Exponential()
    assert hash(Exponential()) == hash(Exponential())
    assert Named(factor=2.0) != Named(factor=3.0)
    assert Named() != Exponential()
