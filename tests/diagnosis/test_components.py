"""Single reward functions: which one rises, which one takes it back, and what a log without them says."""

import json

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from bayes_grpo import diagnose, plot_diagnosis, read_log
from bayes_grpo.diagnosis.components import RewardFunctions, reward_functions
from bayes_grpo.diagnosis.rows import weights_of
from bayes_grpo.logs.run import Run
from tests.diagnosis.conftest import ROWS
from tests.helpers.runs import make_run, steps
from tests.helpers.trends import there, trends_of

GROWTH = 1.0 - np.exp(-np.arange(ROWS) / 25.0)


def noise(seed):
    return 0.02 * np.random.default_rng(seed).standard_normal(ROWS)


def functions_of(run: Run) -> RewardFunctions | None:
    return reward_functions(trends_of(run))


def with_parts(weights=(1.0, 1.0, 1.0), **more):
    """A format reward that rises by 0.5, a length penalty that takes 0.4 of it back, and one that stands still."""
    parts = {
        "format": 0.2 + 0.5 * GROWTH + noise(1),
        "length": -0.4 * GROWTH + noise(2),
        "correct": 0.3 + noise(3),
    }
    total = sum(w * v for w, v in zip(weights, parts.values(), strict=True))
    return make_run(steps(ROWS), total, components=parts, **more)


def test_what_rises_and_what_takes_it_back_are_named():
    found = there(functions_of(with_parts()))
    assert (there(found.rises).name, there(found.falls).name) == ("format", "length")
    back = there(found.taken_back)
    low, high = np.quantile(back, [0.05, 0.95])
    assert low < 0.8 < high
    assert high - low < 0.4
    assert "format adds +0." in found.sentence
    assert "offsets" in found.sentence
    assert {c.name for c in found.all} == {"format", "length", "correct"}


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (2.0, 0.5, 3.0), (0.1, 1.0, 0.0)])
def test_weights_are_those_with_which_the_functions_add_up(weights):
    found = there(functions_of(with_parts(weights)))
    by_name = {c.name: c for c in found.all}
    for name, w in zip(("format", "length", "correct"), weights, strict=True):
        assert weights_of(with_parts(weights))[name] == pytest.approx(w, abs=1e-8)
    assert np.median(by_name["format"].change) == pytest.approx(weights[0] * 0.48, abs=0.06 * weights[0])


def test_functions_that_do_not_add_up_speak_in_their_own_units():
    run = with_parts()
    other = make_run(steps(ROWS), 0.5 + 5.0 * noise(9), components=dict(run.components))
    assert set(weights_of(other).values()) == {1.0}


def test_functions_at_rest_are_not_named():
    parts = {"a": 0.3 + noise(1), "b": 0.5 + noise(2)}
    found = there(functions_of(make_run(steps(ROWS), parts["a"] + parts["b"], components=parts)))
    assert found.sentence == ""
    assert found.taken_back is None
    assert functions_of(make_run(steps(ROWS), parts["a"], components={"a": parts["a"]})) is None


def test_a_hacked_rise_is_that_of_a_function():
    gold = 0.3 + noise(5)
    run = with_parts((1.0, 0.0, 0.0), signals={"gold_reward": gold})
    result = diagnose(run)
    evidence = result.evidence["reward_hacking"]
    assert "the gold reward does not share the rise of format" in evidence
    json.dumps(result.to_dict(), allow_nan=False)


def test_no_mode_but_the_one_of_form_and_task_sees_them():
    run = with_parts()
    some, none = (diagnose(x) for x in (run, make_run(steps(ROWS), run.reward)))
    assert {m: some.probability[m] for m in none.probability} == none.probability


def form_and_task(form, task):
    parts = {"format_reward": 0.2 + form * GROWTH + noise(1), "correctness": 0.1 + task * GROWTH + noise(2)}
    return make_run(steps(ROWS), sum(parts.values()), components=parts)


def test_a_rise_that_is_form_is_told_from_one_of_the_task():
    told, calm = (diagnose(form_and_task(*rise)) for rise in ((0.5, 0.0), (0.1, 0.5)))
    assert told.probability["apparent_gain"] > 0.9 > 0.1 > calm.probability["apparent_gain"]
    assert "ain in formatting, not correctness" in told.status.headline
    assert "of form" not in calm.sentence
    assert told.evidence["apparent_gain"].startswith("format, length and finishing changed by 0.")


def test_functions_without_a_telling_name_are_neither_form_nor_task():
    run = make_run(steps(ROWS), 0.3 + noise(3), components={"a": 0.1 + noise(1), "b": 0.2 + noise(2)})
    assert "apparent_gain" not in diagnose(run).probability


@pytest.mark.parametrize("prefix", ["", "train/"])
def test_a_log_keeps_them(prefix, tmp_path):
    rows = [
        {"step": s, f"{prefix}reward": 0.1 * s + 1.0, f"{prefix}rewards/Format Func/mean": 0.1 * s}
        | {f"{prefix}rewards/Format Func/std": 9.0, f"{prefix}rewards/right/mean": 1.0}
        for s in range(1, 13)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + chr(10) for row in rows), encoding="utf-8")
    run = read_log(path)
    assert set(run.components) == {"Format Func", "right"}
    np.testing.assert_allclose(run.components["Format Func"], 0.1 * np.arange(1, 13))
    assert "rewards/right" not in run.signals
    assert len(run.until(5).components["right"]) == 5
    with pytest.raises(ValueError, match="read-only"):
        run.components["right"][0] = 2.0


def test_the_picture_shows_them_and_hostile_names_too():
    parts = dict(with_parts().components) | {"_under $x$": 0.6 * GROWTH}
    run = make_run(steps(ROWS), sum(parts.values()), components=parts)
    figure = plot_diagnosis(diagnose(run))
    FigureCanvasAgg(figure).draw()
    named = {a.get_title(loc="left").removeprefix("reward function ") for a in figure.axes[1:5]}
    assert named == {"format", "length", "correct", r"_under \$x\$"}


def test_a_hostile_name_is_shown_safely():
    parts = {"\x1b[31mred\n": 0.2 + 0.5 * GROWTH, "[bold]x": -0.4 * GROWTH}
    found = there(functions_of(make_run(steps(ROWS), sum(parts.values()), components=parts)))
    assert "\x1b" not in found.sentence
    assert "\n" not in found.sentence
