import json
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo.backtesting.backtest import backtest, backtest_logs, origin_of, predicted
from bayes_grpo.backtesting.scores import AVERAGED, Backtest, Score
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.priors import forecast_priors
from bayes_grpo.regimes import get_regime
from bayes_grpo.rows.rows_of import rows_of
from tests.helpers.runs import rising_run

FAST = ImportanceSettings(effective=500.0, draws=500)
OPTIONS = {"regimes": ("flat", "exponential"), "rivals": ("last", "mean10"), "settings": FAST}


@pytest.fixture(scope="module")
def result():
    return backtest(rising_run(40), origins=(0.5, 0.7), **OPTIONS)


def test_every_forecaster_is_scored_on_the_same_rows(result):
    names = {"forecast", "flat", "exponential", "level", "last", "mean10"}
    assert {x.name for x in result.lines} == names
    assert result.lines[0].name == AVERAGED
    for origin, rows in ((0.5, 20), (0.7, 12)):
        own = [s for s in result.scores if s.origin == origin]
        assert {s.rows for s in own} == {rows}
        assert {len(s.pit) for s in own} == {rows}
    assert all(x.cases == 2 for x in result.lines)
    assert result.ratio == pytest.approx(result.lines[0].crps / min(x.crps for x in result.lines if x.kind == "rival"))
    weights = {s.name: s.weight for s in result.scores if s.kind == "regime" and s.origin == 0.5}
    assert sum(weights.values()) == pytest.approx(1.0)
    assert "CRPS" in result.sentence
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_scores_are_those_of_a_sensible_forecast(result):
    """Rows of an exponential with noise of 0.05; a perfect forecast would score 0.05 · 0.5642 over the curve's sd."""
    perfect = 0.05 * 0.5642 / rows_of(rising_run(40)).scale
    assert result.lines[0].crps < 2.5 * perfect
    assert result.lines[0].coverage > 0.6


def test_a_rival_more_changes_no_other_score(result):
    more = backtest(rising_run(40), origins=(0.7,), regimes=("flat", "exponential"), rivals=("last",), settings=FAST)
    before = {s.name: s for s in result.scores if s.origin == 0.7}
    assert [s.name for s in more.scores] == ["forecast", "flat", "exponential", "level", "last"]
    for s in more.scores:
        assert (s.crps, s.pit) == (before[s.name].crps, before[s.name].pit)


def test_nothing_before_the_origin_knows_what_comes_after():
    run = rising_run(40)
    changed = replace(run, reward=np.concatenate([run.reward[:20], run.reward[20:] + 3.0]))
    seen = []
    for r in (run, changed):
        found = predicted(origin_of(r, rows_of(r), 0.5), 0, regimes=("flat", "exponential"), settings=FAST)
        assert found.features is not None
        seen.append((found.average.rows, found.weights, found.features.tolist()))
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    assert seen[0][1:] == seen[1][1:]


@pytest.mark.thorough
def test_a_law_that_needs_more_rows_is_scored_without_a_trend():
    found = backtest(rising_run(20), origins=(0.35,), regimes=("flat", "sigmoid"), rivals=("last",), settings=FAST)
    scores = {s.name: s for s in found.scores}
    assert scores["sigmoid"].crps == scores["flat"].crps
    assert scores["forecast"].rows == 13


def test_bad_input_is_said_in_a_sentence():
    with pytest.raises(FitError, match="at least 20 rows of reward, found 15"):
        backtest(rising_run(15), **OPTIONS)
    with pytest.raises(SettingError, match=r"shares of the rows between 0 and 1, found \(30,\)"):
        backtest(rising_run(40), origins=(30,), **OPTIONS)
    with pytest.raises(SettingError, match="expected some of last, mean10"):
        backtest(rising_run(40), rivals=("arima",))
    refused = backtest(rising_run(20), origins=(0.1,), **OPTIONS).refused
    assert "too few to forecast from" in refused[0]


def test_only_cases_that_all_have_are_compared():
    def score(log, name, value, kind="rival"):
        return Score(log, 0.5, 10.0, name, kind, 3, value, 0.0, 0.9, (0.1, 0.5, 0.9), float("nan"))

    one = Backtest((score("a", AVERAGED, 1.0, "forecast"), score("a", "last", 2.0)))
    two = Backtest((score("b", AVERAGED, 9.0, "forecast"),), ("b: no rival",))
    both = Backtest((*one.scores, *two.scores), (*one.refused, *two.refused))
    assert [x.crps for x in both.lines] == [1.0, 2.0]
    assert both.ratio == 0.5
    assert both.refused == ("b: no rival",)
    assert Backtest(()).sentence.startswith("no origin")


def test_forecast_priors_reach_beyond_what_was_seen():
    table = rows_of(rising_run(40))
    priors = forecast_priors(get_regime("sigmoid"), table)
    assert priors["midpoint"].median == table.length
    assert priors["fixed_point"].median > table.y[-10:].mean()
    assert priors["fixed_point"].spread > 3 * table.scale
    assert set(forecast_priors(get_regime("flat"), table)) == {"fluctuation_time"}
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


@pytest.mark.thorough
def test_many_logs_side_by_side_score_as_one_after_another():
    runs = [rising_run(40, seed=1, name="a"), rising_run(8, name="short"), rising_run(40, seed=2, name="b")]
    options = {**OPTIONS, "origins": (0.5,), "regimes": ("flat",), "rivals": ("last",)}
    here, away = (backtest_logs(runs, jobs=jobs, **options) for jobs in (1, 2))
    assert here.to_dict() == away.to_dict()
    assert {s.log for s in here.scores} == {"a", "b"}
    assert len(here.refused) == 1
    assert "at least 20 rows" in here.refused[0]
    alone = backtest(runs[2], **options)
    assert [s for s in here.scores if s.log == "b"] == list(alone.scores)


def test_options_that_fail_for_every_log_are_refused():
    run = rising_run(30)
    with pytest.raises(SettingError, match="rivals: expected"):
        backtest_logs([run], rivals=["nobody"])
