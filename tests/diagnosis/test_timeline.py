"""A run over time: episodes with beginnings and ends, what goes on and what is over, and how it is told."""

from itertools import pairwise

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.chain import Chances, ModeChain
from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.modes.dynamical_instability import MODE as INSTABILITY
from bayes_grpo.diagnosis.story import _over, unseen_text
from bayes_grpo.diagnosis.timeline import Episode, episodes_of, shipped_chains, timeline_of
from bayes_grpo.events.borders import BORDERS
from tests.helpers.runs import evaluated, make_run, steps
from tests.helpers.trends import there, trends_of

ROWS = 40  # no more than a trend has, so that each is a row of it
X = np.arange(ROWS)


def noise(seed, size=0.02):
    return size * np.random.default_rng(seed).standard_normal(ROWS)


@pytest.fixture(scope="module")
def trends():
    return trends_of(make_run(steps(ROWS), np.linspace(0.1, 0.9, ROWS) + noise(0)))


class Made(Mode):
    """A mode without a measure."""

    name = "made"
    label = "made"


def episodes(trends, *spans, seen=True):
    """Of histories that are on between the given rows, so many of each."""
    drawn = np.array([(first <= X) & (last >= X) for first, last, count in spans for _ in range(count)])
    return episodes_of(Made(), Chances(drawn.mean(axis=0), drawn, seen), trends)


def test_an_episode_begins_and_ends_where_its_histories_do(trends):
    (found,) = episodes(trends, (10, 20, 50), (12, 22, 50))
    assert (found.mode, found.probability, found.depth) == ("made", 1.0, "")
    assert (found.onset.low, found.onset.high) == (11.0, 13.0)  # rows are counted from 0, steps from 1
    assert (found.end.low, found.end.high) == (21.0, 23.0)
    assert found.goes_on == 0.0
    assert found.over
    assert found.probable


def test_what_goes_on_ends_with_the_log_and_what_is_over_before_it(trends):
    (on,) = episodes(trends, (15, ROWS - 1, 80), (15, 30, 20))
    (over,) = episodes(trends, (15, ROWS - 1, 20), (15, 30, 80))
    assert on.goes_on == pytest.approx(0.8)
    assert over.goes_on == pytest.approx(0.2)
    assert not on.over
    assert over.over
    assert on.end.median == ROWS
    assert over.end.median == over.end.high == 31.0  # given that it ended


def test_two_stretches_are_two_episodes_and_neither_takes_the_others_rows(trends):
    first, second = episodes(trends, (5, 10, 20), (25, 30, 20), (8, 9, 40), (25, 27, 40))
    assert first.onset.high <= 9.0
    assert second.onset.low >= 26.0
    drawn = np.array([((X >= 5) & (X <= 9)) | ((X >= 25) & (X <= 30)) for _ in range(50)])
    first, second = episodes_of(Made(), Chances(drawn.mean(axis=0), drawn, seen=True), trends)
    assert (first.onset.median, first.end.median) == (6.0, 10.0)
    assert (second.onset.median, second.end.median) == (26.0, 31.0)


def test_stretches_that_most_histories_run_through_are_one_episode(trends):
    """Twelve of twenty run from 5 on to the end, eight are off between 15 and 24 and at 35."""
    through = (X >= 5)[None, :].repeat(9, axis=0)
    gaps = (((X >= 5) & (X <= 15)) | (X >= 25))[None, :].repeat(11, axis=0)
    drawn = np.concatenate([through, gaps & ~((X >= 25) & (np.arange(11) >= 7)[:, None])])
    found = episodes_of(Made(), Chances(drawn.mean(axis=0), drawn, seen=True), trends)
    assert [(e.onset.median, e.over) for e in found if e.probable] == [(6.0, False)]


def test_a_mode_that_comes_and_goes_is_told_once():
    step = interval(np.array([3.0])), interval(np.array([5.0])), interval(np.array([9.0]))
    made = [Episode("idle_steps", 0.6, a, b, 0.0, "4 of 5 rows") for a, b in pairwise(step)]
    assert _over(made) == "steps without a gradient in 2 stretches between about step 3 and 9 (at most 0.60)"
    assert _over(made[:1]) == "steps without a gradient from about step 3 to 5 (0.60): 4 of 5 rows"


def test_a_stretch_is_suspected_from_one_border_on_and_no_part_of_a_probable_one(trends):
    off = (-2, -1, 70)
    (suspected,) = episodes(trends, (10, 20, 30), off)
    assert not suspected.probable
    assert suspected.probability == pytest.approx(0.3)
    assert episodes(trends, (10, 20, 10), off) == []
    assert len(episodes(trends, (10, 20, 60), (10, 30, 40))) == 1
    assert BORDERS.suspect < 0.3 < BORDERS.probable


def test_what_cannot_be_seen_has_no_episode_and_is_named(trends):
    assert episodes(trends, (10, 20, 50), seen=False) == []
    found = timeline_of(trends)
    assert not found.modes["policy_concentration"].seen
    assert "policy_concentration" not in {e.mode for e in found.episodes}
    told = unseen_text(found)
    assert told.startswith("Not to be seen in this log: reward hacking (log a held-out or gold reward)")
    assert "policy concentration (log the entropy)" in told
    assert "advantage degeneracy" not in told  # rows of a known range tell a little


def test_a_log_with_every_signal_could_show_it_all():
    signals = {"entropy": 1.0 + noise(1), "frac_reward_zero_std": 0.2 + noise(2)}
    run = make_run(steps(ROWS), np.linspace(0.2, 0.8, ROWS) + noise(0), signals=signals, evals=evaluated(
        steps(ROWS), np.linspace(0.2, 0.7, ROWS) + noise(3)
    ))  # fmt: skip
    found = timeline_of(trends_of(run))
    assert all(found.modes[mode].seen for mode in MODES)
    assert unseen_text(found) == ""
    assert "Not to be seen" not in diagnose(run).sentence


@pytest.fixture(scope="module")
def recovered():
    """Collapses, comes back, and wastes its groups since."""
    rows = 80
    x = np.arange(rows)
    rng = np.random.default_rng(5)
    reward = np.where((x > 20) & (x < 45), 0.05, np.minimum(0.2 + 0.04 * x, 0.7)) + 0.02 * rng.standard_normal(rows)
    flat = np.clip(np.where(x > 52, 0.95, 0.2) + 0.01 * rng.standard_normal(rows), 0.0, 1.0)
    return diagnose(make_run(steps(rows), reward, signals={"frac_reward_zero_std": flat}, group_size=8))


def test_a_run_that_collapses_and_recovers_tells_both(recovered):
    timeline = there(recovered.timeline)
    lost = next(e for e in timeline.episodes if e.mode == "dynamical_instability" and e.probable)
    assert lost.over
    assert lost.onset.median == pytest.approx(21, abs=5)
    assert lost.end.median == pytest.approx(45, abs=6)
    assert timeline.last("dynamical_instability") is None
    assert timeline.modes["dynamical_instability"].before > 0.5 > 0.3 > recovered.own["dynamical_instability"]
    assert recovered.answer == "advantage_degeneracy"
    assert there(timeline.last("advantage_degeneracy")).onset.median == pytest.approx(53, abs=6)


def test_the_story_tells_what_goes_on_then_what_is_over_then_what_the_log_could_not_show(recovered):
    now, before, unseen = (
        recovered.sentence.index(words)
        for words in ("Advantage degeneracy (probability", "Before, and over: dynamical instability", "Not to be seen")
    )
    assert 0 == now < before < unseen
    assert "under way since about step" in recovered.sentence[now:before]
    assert " below its best" in recovered.sentence[before:unseen]


def test_what_goes_on_has_an_onset_and_remedies_and_what_is_over_has_none(recovered):
    assert "advantage_degeneracy" in recovered.onsets
    assert "dynamical_instability" not in recovered.onsets
    assert "dynamical_instability" not in recovered.remedies


def test_episodes_come_in_the_order_of_their_onsets(recovered):
    at = [e.onset.median for e in there(recovered.timeline).episodes]
    assert at == sorted(at)
    assert {e.mode for e in there(recovered.timeline).episodes} >= {"growing", "dynamical_instability"}


def test_growth_and_rest_are_told_where_nothing_fails():
    x = np.arange(80)
    rng = np.random.default_rng(1)
    run = make_run(steps(80), np.minimum(0.2 + 0.02 * x, 0.8) + 0.02 * rng.standard_normal(80))
    found = diagnose(run)
    modes = {e.mode: e for e in there(found.timeline).episodes if e.probable}
    assert modes["growing"].over
    # A row is judged by a third of the log about it.
    assert 31 - 4 < modes["growing"].end.median < 31 + 80 / 6 + 4
    assert not modes["plateaued"].over
    assert modes["plateaued"].onset.median == pytest.approx(31, abs=12)
    assert found.answer == "healthy"
    assert "at rest since about step" in found.sentence


def test_what_a_mode_adds_does_not_hang_on_the_others(trends):
    whole = timeline_of(trends)
    chains = {name: shipped_chains()[name] for name in (*MODES, "growing")}
    for name, mode in timeline_of(trends, chains=chains).modes.items():
        np.testing.assert_array_equal(mode.probability, whole.modes[name].probability)


def test_given_numbers_take_the_place_of_the_shipped_ones(trends):
    usual = shipped_chains()[INSTABILITY.name]
    mean = usual.mean.copy()
    mean[len(usual.predictors)] += 8.0
    sure = {**shipped_chains(), INSTABILITY.name: ModeChain(usual.predictors, mean, usual.covariance, {})}
    assert timeline_of(trends).modes[INSTABILITY.name].under_way < 0.2
    assert timeline_of(trends, chains=sure).modes[INSTABILITY.name].under_way > 0.9


def test_a_timeline_in_numbers(recovered):
    content = recovered.to_dict()["timeline"]
    n = len(content["step"])
    for mode in content["modes"].values():
        assert len(mode["probability"]) == n
        assert mode["under_way"] == mode["probability"][-1]
        assert 0.0 <= mode["before"] <= mode["ever"] <= 1.0
    for episode in content["episodes"]:
        assert set(episode) == {"mode", "probability", "onset", "end", "goes_on", "depth"}
        assert episode["onset"]["median"] <= episode["end"]["median"]
