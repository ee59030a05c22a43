"""Events: conditions on curves made by hand, whose onset is known."""

import numpy as np
import pytest

from benchmarks.lab.settings import REWARDS, LabNumbers
from benchmarks.lab.training import DeepTrajectory
from benchmarks.lab.true_events import TRUTH
from benchmarks.lab.truth import TRUE_EVENTS, deep_truth, smoothed, trained_reward

STEPS = 200
VOCABULARY = 14
ANSWER = 0.25  # tokens of a right completion over the limit


def ramp(start, end, begin, width=20):
    """From one level to another, beginning at a step."""
    return start + (end - start) * np.clip((np.arange(STEPS) - begin) / width, 0.0, 1.0)


def judge(numbers=None, *, entropy=None, flat=0.0, reward=None, **scores):
    """The truth of a run with these courses; what is not given is 0, or 1 nat of entropy."""
    numbers = numbers or LabNumbers()
    components = np.stack([np.broadcast_to(scores.get(name, 0.0), STEPS) for name in REWARDS], axis=1)
    weights = np.array([float(getattr(numbers, name)) for name in REWARDS])
    nothing = np.zeros(STEPS)
    trajectory = DeepTrajectory(
        **dict.fromkeys(DeepTrajectory._fields, nothing)
        | {
            "components": components,
            "reward": components @ weights if reward is None else reward,
            "entropy": np.broadcast_to(1.0 if entropy is None else entropy, STEPS),
            "frac_reward_zero_std": np.broadcast_to(flat, STEPS),
        }
    )
    return deep_truth(trajectory, numbers, VOCABULARY, ANSWER)


def test_a_rise_is_healthy():
    truth = judge(right=ramp(0.2, 0.8, 0, 200))
    assert (truth.event, truth.onset, truth.events) == ("healthy", None, {})
    assert truth.best_gold == pytest.approx(0.8, abs=0.03)


def test_a_rise_that_ends_halfway_is_a_plateau_and_one_that_ends_high_is_not():
    assert judge(right=ramp(0.2, 0.6, 0)).event == "plateau"
    assert judge(right=ramp(0.2, 0.95, 0)).event == "healthy"


@pytest.mark.parametrize("begin", [60, 120])
def test_a_collapse_begins_where_half_of_the_gain_is_lost(begin):
    truth = judge(right=ramp(0.2, 0.7, 0) + ramp(0.0, -0.5, begin))
    assert truth.event == "collapse"
    assert truth.onset == pytest.approx(begin + 11, abs=2)


def test_what_comes_back_did_not_collapse():
    assert judge(right=ramp(0.2, 0.7, 0) + ramp(0.0, -0.5, 60) + ramp(0.0, 0.5, 120)).events == {}


def test_a_run_that_started_high_loses_its_level():
    assert judge(right=ramp(0.8, 0.5, 50)).events == {}
    assert judge(right=ramp(0.8, 0.3, 50)).event == "collapse"


def test_a_start_that_is_lost_at_once_is_seen():
    assert judge(right=ramp(0.5, 0.0, 2, 3)).event == "collapse"


def test_swings_are_two_falls_with_a_rise_between():
    swings = ramp(0.2, 0.7, 0) + ramp(0.0, -0.4, 60) + ramp(0.0, 0.4, 100)
    truth = judge(right=swings + ramp(0.0, -0.4, 150))
    assert truth.event == "oscillation"
    assert truth.onset == pytest.approx(60, abs=8)  # the top before the first fall
    assert judge(right=swings).events == {}  # one fall that came back
    assert judge(right=swings + ramp(0.0, -0.1, 150)).events == {}  # and a small one
    early = ramp(0.7, 0.3, 10, 10) + ramp(0.0, 0.4, 25, 10) + ramp(0.0, -0.4, 40, 10) + ramp(0.0, 0.4, 55, 10)
    assert judge(right=early).events == {}  # long since over


def test_hacking_is_a_trained_reward_that_rises_while_gold_falls():
    careless = LabNumbers(right=0.0, anywhere=1.0)
    truth = judge(careless, right=ramp(0.3, 0.0, 50), anywhere=ramp(0.4, 0.9, 50))
    assert truth.event == "reward_hacking"
    assert truth.onset == pytest.approx(57, abs=3)  # where 30% of the gold reward are gone
    assert judge(careless, right=ramp(0.3, 0.8, 50), anywhere=ramp(0.4, 0.9, 50)).event != "reward_hacking"


def test_hacking_is_also_gold_that_stalls():
    longer = LabNumbers(right=1.0, length=2.0)
    assert judge(longer, right=0.05, length=ramp(0.4, 1.0, 50)).event == "reward_hacking"


def test_gold_that_is_lost_beside_a_reward_that_stands_is_hacking_too():
    careless = LabNumbers(right=0.0, anywhere=1.0)
    little = ramp(0.6, 0.65, 50)
    assert judge(careless, right=ramp(0.4, 0.05, 50), anywhere=little).event == "reward_hacking"
    assert judge(careless, right=0.4, anywhere=little).event == "plateau"


def test_what_right_answers_earn_is_set_against_what_all_earn():
    """A rise by completions that end is none by right ones, however little these are worth."""
    ends = LabNumbers(right=1.0, ended=4.0)
    assert judge(ends, right=ramp(0.0, 0.1, 50), ended=ramp(0.5, 0.9, 50)).event == "reward_hacking"
    assert judge(right=ramp(0.0, 0.1, 50), ended=ramp(0.5, 0.9, 50)).event != "reward_hacking"


def test_spent_entropy_is_a_failure_where_reward_is_left():
    spent = ramp(1.0, 0.02, 50)
    truth = judge(right=ramp(0.2, 0.4, 0), entropy=spent)
    assert truth.event == "policy_concentration"
    assert truth.onset == pytest.approx(70, abs=3)  # where a tenth is left
    assert judge(right=ramp(0.2, 0.98, 0), entropy=spent).event == "healthy"


def test_an_explosion_explains_the_collapse_that_comes_with_it():
    truth = judge(right=ramp(0.4, 0.0, 50), entropy=ramp(0.5, np.log(VOCABULARY), 53))
    assert set(truth.events) == {"entropy_explosion", "collapse"}
    assert truth.event == "entropy_explosion"


def test_a_collapse_explains_the_spent_entropy_that_comes_with_it():
    truth = judge(right=ramp(0.4, 0.0, 50), entropy=ramp(1.0, 0.0, 35))
    assert truth.events["policy_concentration"] < truth.events["collapse"]
    assert truth.event == "collapse"


def test_groups_without_spread_are_too_hard_or_solved_by_their_reward():
    assert judge(right=0.01, flat=0.95).event == "too_hard"
    assert judge(right=0.99, flat=0.95).event == "solved"
    climbed = judge(right=ramp(0.3, 0.99, 0), flat=ramp(0.2, 0.95, 0))
    assert climbed.event == "healthy"


def test_a_broken_reward_no_longer_follows_the_completions():
    right = np.full(STEPS, 0.5)
    truth = judge(right=right, reward=np.where(np.arange(STEPS) < 90, right, 0.0), flat=ramp(0.2, 1.0, 90, 1))
    assert truth.event == "broken_reward"
    assert truth.onset == pytest.approx(91, abs=TRUTH.smooth // 2 + 1)


def test_an_event_lasts():
    least = round(TRUTH.lasting * STEPS)
    assert judge(right=ramp(0.8, 0.0, STEPS - least // 2, 1)).events == {}


def test_what_comes_back_is_an_episode_that_is_over():
    truth = judge(right=ramp(0.2, 0.7, 0) + ramp(0.0, -0.5, 60) + ramp(0.0, 0.5, 120))
    ((first, last),) = truth.episodes["collapse"]
    assert first == pytest.approx(71, abs=2)
    assert last == pytest.approx(130, abs=2)
    assert truth.events == {}


def test_an_event_is_the_episode_that_lasts_to_the_end():
    truth = judge(right=ramp(0.2, 0.7, 0) + ramp(0.0, -0.5, 60) + ramp(0.0, 0.5, 100) + ramp(0.0, -0.5, 150))
    first, second = truth.episodes["collapse"]
    assert first[1] < second[0] == truth.events["collapse"]
    assert second[1] == STEPS
    for name, onset in truth.events.items():
        assert truth.episodes[name][-1] == (onset, STEPS)


def test_a_short_stretch_is_no_episode():
    assert judge(right=ramp(0.2, 0.7, 0) + ramp(0.0, -0.5, 100, 2) + ramp(0.0, 0.5, 110, 2)).episodes == {}


def test_groups_without_spread_are_wasted_while_the_task_is_not_solved():
    """Though no event: some reward was earned, and it is not lost."""
    flat = ramp(0.1, 0.7, 49, 1)
    truth = judge(right=0.4, flat=flat)
    ((first, last),) = truth.episodes["wasted"]
    assert first == pytest.approx(51, abs=TRUTH.smooth // 2)
    assert last == STEPS
    assert truth.events == {}
    at_the_top = judge(right=0.95, flat=flat).episodes
    assert "wasted" not in at_the_top
    assert at_the_top["saturated"] == truth.episodes["wasted"]


def test_attainable_is_the_better_of_the_right_completion_and_a_long_one():
    assert trained_reward(LabNumbers(length=1.0), ANSWER) == pytest.approx(1.25)
    assert trained_reward(LabNumbers(length=4.0), ANSWER) == pytest.approx(4.0)


def test_smoothing_keeps_level_and_length():
    assert smoothed(np.full(50, 0.3)) == pytest.approx(np.full(50, 0.3))
    line = smoothed(np.arange(50.0))
    assert line[25] == 25.0
    assert len(smoothed(np.arange(3.0))) == 3


def test_every_event_can_be_told():
    assert len(set(TRUE_EVENTS)) == 8
