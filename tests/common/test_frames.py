"""Every result as a table: one row a quantity, law, check, case or answer, the numbers untouched."""

import math
from typing import Any

import numpy as np

import bayes_grpo as bg
from bayes_grpo.backtesting import Backtest, Score
from bayes_grpo.checking import Check, CheckLine
from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.results import frame_of
from bayes_grpo.comparison.result import Comparison, ComparisonLine
from bayes_grpo.decision.result import Decision
from bayes_grpo.diagnosis.records import Action
from bayes_grpo.diagnosis.result import Diagnosis, Onset
from bayes_grpo.forecasting.summary import ForecastSummary


def some(median: float) -> Interval:
    return Interval(median, median - 1.0, median + 1.0, 0.8)


def made(kind, **given):
    """A result of a kind, with only the fields that its table needs."""
    result = object.__new__(kind)
    for name, value in given.items():
        object.__setattr__(result, name, value)
    return result


def test_intervals_become_three_columns_and_nan_stays():
    table = frame_of([{"a": "x", "b": some(2.0)}, {"a": "y", "b": math.nan}], "a")
    assert list(table.columns) == ["b", "b_low", "b_high"]
    assert tuple(table.loc["x"]) == (2.0, 1.0, 3.0)
    assert table.loc["y"].isna().all()
    assert table.attrs["interval_level"] == 0.8


def test_comparison():
    fields: dict[str, Any] = dict.fromkeys(ComparisonLine.__dataclass_fields__, 0.0)
    lines = tuple(
        ComparisonLine(**fields | {"regime": r, "elpd": e}) for r, e in (("flat", 3.0), ("sigmoid", math.nan))
    )
    table = made(Comparison, table=lines).to_frame()
    assert list(table.index) == ["flat", "sigmoid"]
    assert table.loc["flat", "elpd"] == 3.0
    assert math.isnan(table.loc["sigmoid", "elpd"])


def test_check():
    findings = tuple(CheckLine(n, 0.7, 0.8, tail, None, "") for n, tail in (("outliers", 0.001), ("break", 0.6)))
    table = made(Check, findings=findings).to_frame()
    assert dict(table["missed"]) == {"outliers": True, "break": False}


def test_forecast_summary():
    names = ("now", "at_horizon", "row_at_horizon", "at_infinity", "final", "remaining_gain", "final_gain")
    values = {name: some(float(i)) for i, name in enumerate(names)}
    table = made(ForecastSummary, **values, p_gain=0.7, p_peaked=0.1, p_collapse=0.0, p_takeoff=0.0).to_frame()
    assert table.loc["final_gain", "value"] == 6.0
    assert table.loc["p_gain", "value"] == 0.7
    assert math.isnan(table.loc["p_gain", "value_low"])


def test_backtest():
    score = Score("run", 0.5, 20.0, "forecast", 10, 0.3, -1.0, 0.9)
    table = Backtest((score,)).to_frame()
    assert table.loc[("run", 0.5, "forecast"), "crps"] == 0.3
    assert Backtest(()).to_frame().empty


def test_decision():
    columns = {n: np.array([1.0, 2.0]) + i for i, n in enumerate(("step", "gain", "net", "net_low", "net_high"))}
    table = made(Decision, **columns, level=0.9).to_frame()
    assert tuple(table.loc[2.0]) == (3.0, 4.0, 5.0, 6.0)
    assert table.attrs["interval_level"] == 0.9


def test_diagnosis():
    table = made(
        Diagnosis,
        probability={"policy_concentration": 0.1, "reward_hacking": 0.4},
        onsets={"reward_hacking": Onset(some(30.0), "")},
        remedies={"reward_hacking": (Action(kind="stop"), Action(kind="new_run"))},
    ).to_frame()
    assert table.loc["reward_hacking", "onset_high"] == 31.0
    assert table.loc["reward_hacking", "remedies"] == (
        "stop here if this reward level is enough; "
        "plan a next run with more steps, other prompts or another learning rate"
    )
    assert list(table["onset"].isna()) == [True, False]


def test_plan():
    found = bg.plan(stiffness=2.0, learning_rate=1e-3, refresh_interval=4)
    table = found.to_frame()
    assert list(table.index) == ["published_rule", "frozen_policy", "oscillation"]
    assert table.loc["frozen_policy", "margin"] == found.threshold("frozen_policy").margin.median
