"""Shares of a gain: against enumeration, known shares, and what a log alone says."""

import json
from itertools import permutations

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.logs.reward_parts import adding_weights, is_form, is_task
from bayes_grpo.rollouts.decompose import decompose
from bayes_grpo.rollouts.shares import Factors, redrawn, shapley, widened
from tests.helpers.made_rollouts import Course, rollouts_of, true_shares, with_gates
from tests.helpers.runs import make_run

FORM = Course(finished=(3.0, 3.0), formatted=(-2.0, 3.0), correct=(2.0, 1.7), spread=(0.3, 0.5, 0.5))


def test_shapley_values_are_means_over_all_orders():
    rng = np.random.default_rng(0)
    first, last = (Factors(*rng.random((5, 1))) for _ in range(2))
    expected = np.zeros(4)
    for order in permutations(range(4)):
        now = first
        for place in order:
            names = [("finished",), ("formatted",), ("quality",), ("unformatted", "cut")][place]
            then = now._replace(**{name: getattr(last, name) for name in names})
            expected[place] += (then.reward - now.reward)[0] / 24
            now = then
    found = shapley(first, last)
    np.testing.assert_allclose(np.ravel([*found.values()]), expected, rtol=1e-12)
    np.testing.assert_allclose(expected.sum(), (last.reward - first.reward)[0], rtol=1e-12)


def test_a_gain_of_format_or_of_the_task_is_told_as_one():
    found = decompose(with_gates(np.random.default_rng(1), FORM))
    shares = {s.name: s for s in found.shares}
    assert found.has_gain
    assert found.p_form > 0.95
    assert shares["formatted"].is_form
    assert shares["formatted"].share.median > 0.8
    np.testing.assert_allclose(sum(s.change.median for s in found.shares), found.gain.median, atol=0.02)
    assert "of the gain is formatted answers" in found.sentence
    assert "the reward of formatted answers" in found.sentence
    course = found.course  # the median of draws is not the mean itself
    np.testing.assert_allclose(sum(course.changes.values()), course.reward - found.before.median, atol=0.02)
    assert found.form_share_at(np.array([40.0]))[0] > 0.8
    found = decompose(with_gates(np.random.default_rng(2), Course(correct=(-2.0, 2.0), formatted=(3.0, 3.0))))
    assert found.p_form < 0.05
    assert max(found.shares, key=lambda s: s.share.median).name == "quality"
    flat = Course(finished=(1.0, 1.0), formatted=(0.5, 0.5), correct=(0.0, 0.0))
    found = decompose(with_gates(np.random.default_rng(3), flat))
    assert not found.has_gain
    assert np.isnan(found.shares[0].share.median)
    assert found.p_form == 0.0
    assert "no gain to decompose" in found.sentence
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["shares"][0]["share"]["median"] is None


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("course", "prompts", "group"),
    [
        (Course(), 8, 8),
        (Course((3.0, 3.0), (-2.0, 3.0)), 4, 8),
        (Course(correct=(-1.0, 1.0), formatted=(2.0, 3.0)), 8, 4),
    ],
)
def test_intervals_hold_known_shares_as_often_as_they_say(course, prompts, group):
    truth = true_shares(course, 40, 5)
    hits = []
    for seed in range(250):
        found = decompose(with_gates(np.random.default_rng(seed), course, prompts=prompts, group=group), draws=600)
        hits.append(found.gain.low <= truth["gain"] <= found.gain.high)
        hits += [s.share.low <= truth[s.name] <= s.share.high for s in found.shares if found.has_gain]
    # Three standard errors of as many runs, whose shares hang together.
    assert abs(np.mean(hits) - 0.9) < 3 * np.sqrt(0.09 / 250)


def test_parts_that_add_up_are_shared_out():
    rng = np.random.default_rng(4)
    step = np.repeat(np.arange(1, 31), 32)
    form, task = rng.random(len(step)) * (0.2 + 0.02 * step), rng.random(len(step)) < 0.4
    parts = {"length_reward": form, "accuracy": task * 1.0}
    found = decompose(rollouts_of(0.5 * form + task, step, np.arange(len(step)) // 4, parts=parts))
    shares = {s.name: s for s in found.shares}
    assert shares["length_reward"].is_form
    assert not shares["accuracy"].is_form
    assert shares["length_reward"].share.low < 1.0 < shares["length_reward"].share.high + 0.3
    assert abs(sum(s.share.median for s in found.shares) - 1.0) < 0.05


def test_weights_are_those_that_make_the_total():
    rng = np.random.default_rng(5)
    parts = {name: rng.random(200) for name in "abc"} | {"still": np.ones(200), "gaps": np.full(200, np.nan)}
    total = 2.0 + 0.5 * parts["a"] - 3.0 * parts["b"]
    found = adding_weights(total, parts)
    assert list(found) == ["a", "b"]
    np.testing.assert_allclose(list(found.values()), [0.5, -3.0])
    assert adding_weights(total + rng.normal(0, 1, 200), parts) == {}
    assert adding_weights(np.ones(200), parts) == {}


def test_names_tell_form_from_task():
    names = ("format_reward", "has_tag", "correctness", "format_correct", "x")
    assert [is_form(x) for x in names] == [True, True, False, False, False]
    assert [is_task(x) for x in ("accuracy", "correct", "format_correct", "acc")] == [True, True, False, True]


def test_what_cannot_be_decomposed_says_so():
    one = rollouts_of(np.ones(4), np.ones(4), np.arange(4))
    with pytest.raises(FitError, match="expected at least 2 steps"):
        decompose(one)
    run = with_gates(np.random.default_rng(0), FORM)
    with pytest.raises(SettingError, match=r"expected a part .format_ok., found 'x'"):
        decompose(run, formatted="x")


def test_a_diagnosis_takes_in_what_the_gain_is_made_of():
    rollouts = with_gates(np.random.default_rng(1), FORM)
    reward = np.bincount(rollouts.step, rollouts.reward)[1:] / np.bincount(rollouts.step)[1:]
    run = make_run(step=np.arange(1.0, 41.0), reward=reward)
    found = diagnose(run, rollouts=rollouts)
    assert found.gain is not None
    assert found.probability["apparent_gain"] > 0.8
    assert found.status.finding.mode == "apparent_gain"
    assert "of the gain is formatted answers" in found.sentence
    assert any("mean of these completions in 100% of 40 rows" in note for note in found.notes)
    assert "judge the run by" in found.remedies["apparent_gain"][0].sentence
    assert "apparent_gain" not in diagnose(run).probability


def test_clusters_drawn_anew_in_pieces_have_the_spread_of_a_mean():
    rng = np.random.default_rng(0)
    for n in (40, 5000):  # one piece, several
        x = rng.gamma(2.0, size=n)
        drawn = redrawn(np.column_stack([x, np.ones(n)]), 4000, 1)
        means = widened(drawn[:, 0] / drawn[:, 1], x.mean(), n)
        assert means.mean() == pytest.approx(x.mean(), abs=0.1 * x.std() / np.sqrt(n))
        expected = x.std(ddof=1) / np.sqrt(n)
        assert expected * 0.95 < means.std() < expected * 1.1
