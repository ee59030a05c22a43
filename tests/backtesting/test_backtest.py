import json
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import view
from bayes_grpo.backtesting import FORECAST, LAST_VALUE, Backtest, Score, backtest
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.forecasting.fits import forecast_priors
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Prior
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.runs import rising_run
from tests.helpers.shown import text_of

REGIMES = ("flat", "exponential")


@pytest.fixture(scope="module")
def result():
    return backtest(rising_run(40), origins=(0.5, 0.7), regimes=REGIMES)


def test_forecast_and_last_value_are_scored_on_the_same_rows(result):
    assert [x.name for x in result.table] == [FORECAST, LAST_VALUE]
    for origin, rows in ((0.5, 20), (0.7, 12)):
        assert {s.rows for s in result.scores if s.origin == origin} == {rows}
    ours, last = result.table
    assert ours.cases == last.cases == 2
    assert result.ratio_to_last_value == pytest.approx(ours.crps / last.crps)
    assert f"the last value: {result.ratio_to_last_value:.2f} times its error" in result.sentence
    assert "CRPS (coverage) at 70%" in " ".join(text_of(result).split())
    content = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert content["ratio_to_last_value"] == result.ratio_to_last_value


@pytest.mark.parametrize(
    ("ratio", "coverage", "answer", "do"),
    [
        (0.8, 0.9, "The forecast came closer to the later rows than the last value: 0.80 times its error.", ""),
        (1.02, 0.9, "The forecast came as close to the later rows as the last value: 1.02 times its error.", ""),
        (1.5, 0.9, "The forecast missed the later rows by more than the last value: 1.50 times its error.", "expect"),
        (0.8, 0.7, "The forecast came closer to the later rows than the last value: 0.80 times its error.", "treat"),
    ],
)
def test_the_answer_says_which_was_closer_and_what_follows(ratio, coverage, answer, do):
    scores = [
        Score(log="made", origin=0.5, step=20.0, name=name, rows=20, crps=x, log_score=0.0, coverage=coverage)
        for name, x in ((FORECAST, 0.5 * ratio), (LAST_VALUE, 0.5))
    ]
    document = view(Backtest(tuple(scores), ("made, origin 30%: too few rows",)))
    assert document.answer == answer
    assert document.do.startswith(do)
    assert bool(document.do) == bool(do)
    assert ("so they are too narrow here" in document.why) == (coverage < 0.75)
    assert document.unchecked == "Left out: 1 forecast (--details says why)"


def test_the_scores_are_those_of_a_sensible_forecast(result):
    """Rows of an exponential with noise of 0.05; a perfect forecast would score 0.05 · 0.5642 over the curve's sd."""
    perfect = 0.05 * 0.5642 / rows_of(rising_run(40)).scale
    assert result.table[0].crps < 2.5 * perfect
    assert result.table[0].coverage > 0.6


def test_nothing_before_the_origin_knows_what_comes_after(result):
    """Later rows change the score of a forecast and not the forecast: what is added to them is added to its miss."""
    run = rising_run(40)
    changed = replace(run, reward=np.concatenate([run.reward[:20], run.reward[20:] + 30.0]))
    miss = backtest(changed, origins=(0.5,), regimes=REGIMES).scores[0].crps * rows_of(changed).scale
    ours = result.scores[0].crps * rows_of(run).scale
    assert miss == pytest.approx(30.0, abs=0.5)
    assert ours < 0.2


def test_bad_input_is_said_in_a_sentence():
    with pytest.raises(FitError, match="at least 20 rows of reward, found 15"):
        backtest(rising_run(15), regimes=REGIMES)
    with pytest.raises(SettingError, match=r"shares of the rows between 0 and 1, found \(30,\)"):
        backtest(rising_run(40), origins=(30,), regimes=REGIMES)
    refused = backtest(rising_run(20), origins=(0.35, 0.05), regimes=REGIMES).refused
    assert "a forecast needs at least 8 rows of reward, found 7" in refused[0]
    assert "found 1" in refused[1]
    assert Backtest(()).sentence.startswith("no origin")


def test_forecast_priors_reach_beyond_what_was_seen():
    table = rows_of(rising_run(40))
    priors = forecast_priors(get_regime("sigmoid"), table)
    assert priors["midpoint"].median == table.length
    assert priors["fixed_point"].median > table.y[-10:].mean()
    assert priors["fixed_point"].spread > 3 * table.scale
    # A flat reward keeps the scale of its rows, whatever the range of a fit's levels.
    flat = forecast_priors(get_regime("flat"), table)
    assert set(flat) == {"fluctuation_time", "fixed_point"}
    assert flat["fixed_point"] == Prior(table.centre, 3.0 * table.scale)
    # A share of successes that has not moved yet may still take off, where the law can start slowly.
    y = 0.1 + 0.01 * np.cos(np.arange(len(table.y)))
    still = {
        name: forecast_priors(get_regime(name), replace(table, y=y))["fixed_point"]
        for name in ("sigmoid", "exponential")
    }
    assert still["sigmoid"].median == pytest.approx(0.55, abs=0.01)
    assert still["sigmoid"].spread == pytest.approx(0.9, abs=0.01)
    assert still["exponential"].spread < 0.1
    points = forecast_priors(get_regime("sigmoid"), replace(table, y=20.0 * y))["fixed_point"]
    assert points.spread == pytest.approx(6.0 * 20.0 * np.std(y))
    assert "exponent" not in forecast_priors(get_regime("exponential"), table)
