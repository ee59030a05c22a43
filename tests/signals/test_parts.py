"""Reward functions and environments: trends, shares of the gain, the first step of a fall, a part as the reward."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from bayes_grpo import diagnose, plot_diagnosis, view
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.mode import timeline_of
from bayes_grpo.logs.run import Run
from bayes_grpo.signals.parts import parts_of, weights_of
from tests.diagnosis.conftest import ROWS
from tests.helpers.paths import not_none, paths_of, view_of
from tests.helpers.runs import make_run, steps

RNG = np.random.default_rng(0)
UP = 0.2 + 0.5 * steps(ROWS) / ROWS + 0.01 * RNG.standard_normal(ROWS)
DOWN = 0.9 - 0.4 * np.clip(steps(ROWS) - 50, 0, None) / 30 + 0.01 * RNG.standard_normal(ROWS)
FLAT = 0.5 + 0.01 * RNG.standard_normal(ROWS)
GROWTH = 1.0 - np.exp(-np.arange(ROWS) / 25.0)


def by_name(run):
    return {p.name: p for p in diagnose(run).parts}


def test_reward_functions_have_trends_shares_and_falls():
    found = by_name(make_run(steps(ROWS), UP + 0.25 * DOWN, components={"task": UP, "style": DOWN}))
    assert found["task"].p_rises > 0.99 > 0.01 > found["style"].p_rises
    assert found["task"].share.median == pytest.approx(1.25, abs=0.02)
    assert found["style"].share.high < 0.0
    assert found["task"].falls_since is None
    assert 40 <= not_none(found["style"].falls_since) <= 60
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


def noise(seed):
    return 0.02 * np.random.default_rng(seed).standard_normal(ROWS)


def parts(run: Run):
    return parts_of(paths_of(run))


def with_parts(weights=(1.0, 1.0, 1.0), **more):
    """A format reward that rises by 0.5, a length penalty that takes 0.4 of it back, and one without a change."""
    made = {
        "format": 0.2 + 0.5 * GROWTH + noise(1),
        "length": -0.4 * GROWTH + noise(2),
        "correct": 0.3 + noise(3),
    }
    total = sum(w * v for w, v in zip(weights, made.values(), strict=True))
    return make_run(steps(ROWS), total, components=made, **more)


@pytest.mark.parametrize("low", [0.88, 0.45])
def test_status_and_table_have_one_fall(low):
    """A small decline beyond noise is a fall in neither, half of the level one in both."""
    fell = np.linspace(0.95, low, ROWS) + 0.005 * RNG.standard_normal(ROWS)
    run = make_run(steps(ROWS), UP + fell, components={"task": UP, "code": fell})
    since = by_name(run)["code"].falls_since
    named = Facts(view_of(run), timeline_of(view_of(run))).falls
    assert (since is not None, bool(named)) == ((False, False) if low > 0.8 else (True, True))


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (2.0, 0.5, 3.0), (0.1, 1.0, 0.0)])
def test_weights_are_those_with_which_the_functions_add_up(weights):
    run = with_parts(weights)
    change = {p.name: float(np.median(p.change)) for p in parts(run)}
    found = weights_of(run, run.components)
    for name, w in zip(("format", "length", "correct"), weights, strict=True):
        assert found.get(name, 0.0) == pytest.approx(w, abs=1e-8)
    assert change["format"] == pytest.approx(weights[0] * 0.42, abs=0.03 * weights[0])


def test_functions_that_do_not_add_up_keep_their_own_units():
    run = make_run(steps(ROWS), 0.5 + 5.0 * noise(9), components=dict(with_parts().components))
    assert weights_of(run, run.components) == {}
    assert {p.name: float(np.median(p.change)) for p in parts(run)}["format"] == pytest.approx(0.42, abs=0.03)


def test_one_function_alone_is_no_part():
    made = {"a": 0.3 + noise(1)}
    assert parts(make_run(steps(ROWS), made["a"], components={"a": made["a"]})) == ()


def form_and_task(form, task):
    made = {"format_reward": 0.2 + form * GROWTH + noise(1), "correctness": 0.1 + task * GROWTH + noise(2)}
    return make_run(steps(ROWS), sum(made.values()), components=made)


def test_a_rise_of_form_is_distinguished_from_one_of_the_task():
    bad, calm = (diagnose(form_and_task(*rise)) for rise in ((0.5, 0.0), (0.1, 0.5)))
    assert bad.probability["apparent_gain"] > 0.9 > 0.1 > calm.probability["apparent_gain"]
    assert "ain in formatting, not correctness" in bad.status.headline
    assert bad.evidence["apparent_gain"].startswith("format, length and finishing changed by 0.")
    unnamed = make_run(steps(ROWS), 0.3 + noise(3), components={"a": 0.1 + noise(1), "b": 0.2 + noise(2)})
    assert "apparent_gain" not in diagnose(unnamed).probability


def test_hostile_names_are_shown_safely():
    made = dict(with_parts().components) | {"_under $x$": 0.6 * GROWTH}
    figure = plot_diagnosis(diagnose(make_run(steps(ROWS), sum(made.values()), components=made)))
    FigureCanvasAgg(figure).draw()
    named = {a.get_title(loc="left").removeprefix("reward function ") for a in figure.axes[1:5]}
    assert named == {"format", "length", "correct", r"_under \$x\$"}
