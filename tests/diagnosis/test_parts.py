"""Reward functions and environments: trends, shares of the gain, the first step of a fall, a part as the reward."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import diagnose, view
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.views.plots.diagnosis import plot_part
from tests.helpers.command import call
from tests.helpers.runs import make_run, steps
from tests.helpers.trends import there

ROWS = 80
RNG = np.random.default_rng(0)
UP = 0.2 + 0.5 * steps(ROWS) / ROWS + 0.01 * RNG.standard_normal(ROWS)
DOWN = 0.9 - 0.4 * np.clip(steps(ROWS) - 50, 0, None) / 30 + 0.01 * RNG.standard_normal(ROWS)
FLAT = 0.5 + 0.01 * RNG.standard_normal(ROWS)


def by_name(run):
    return {p.name: p for p in diagnose(run).parts}


def test_reward_functions_have_trends_shares_and_falls():
    found = by_name(make_run(steps(ROWS), UP + 0.25 * DOWN, components={"task": UP, "style": DOWN}))
    assert found["task"].p_rises > 0.99 > 0.01 > found["style"].p_rises
    assert found["task"].share.low < 1.25 < found["task"].share.high
    assert found["style"].share.high < 0.0
    assert found["task"].falls_since is None
    assert 40 <= there(found["style"].falls_since) <= 60
    assert list(found) == ["task", "style"]


def test_environments_have_the_weights_of_a_mean():
    run = make_run(steps(ROWS), (UP + FLAT) / 2 + 0.01 * RNG.standard_normal(ROWS), reward_low=0.0, reward_high=1.0)
    found = by_name(replace(run, environments={"math": UP, "code": FLAT}))
    assert found["math"].kind == "environment"
    assert found["math"].share.median == pytest.approx(1.0, abs=0.1)
    assert found["code"].falls_since is None


def test_a_part_that_appears_late_says_so():
    late = np.where(steps(ROWS) > 60, FLAT, np.nan)
    run = make_run(steps(ROWS), UP, components={"task": UP, "late": late})
    found = by_name(run)
    assert found["late"].first_step == 61.0
    shown = next(s for s in view(diagnose(run)).sections if s.title == "Parts").tables[0]
    assert "appears at step" in [c.text for c in shown.columns]
    assert np.isnan(found["task"].share.median)  # where a part is missing, nothing adds up
    part = run.of_part("late")
    assert np.isfinite(part.reward).sum() == 20
    assert "from step 61 on" in part.notes[-1]
    few = replace(run, components={"late": np.where(steps(ROWS) > ROWS - 2, FLAT, np.nan)})
    with pytest.raises(FitError, match="expected 3 rewards or more, found 2; it appears late"):
        few.of_part("late")
    with pytest.raises(SettingError, match="found 'none' and task, late"):
        run.of_part("none")


def test_a_part_is_forecast_and_drawn(tmp_path):
    log = tmp_path / "log.jsonl"
    rows = zip(steps(ROWS), (UP + DOWN) / 2, UP, DOWN, strict=True)
    keys = ("step", "reward/all/mean", "reward/math/mean", "reward/code/mean")
    log.write_text("\n".join(json.dumps(dict(zip(keys, map(float, row), strict=True))) for row in rows))
    found = json.loads(call("forecast", log, "--part", "math", "--regimes", "flat", "--json").out)
    assert found["now"]["median"] == pytest.approx(0.7, abs=0.1)
    assert call("forecast", log, "--part", "none").code == 3
    result = diagnose(log)
    figure = plot_part(there(result.trends).environments["code"], "code", 50.0)
    assert figure.axes[0].get_title(loc="left") == "code, falls since step 50"
    assert result.to_dict()["parts"][0]["kind"] == "environment"
