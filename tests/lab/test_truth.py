"""Events: conditions on curves made by hand, whose onset is known."""

import numpy as np
import pytest

from benchmarks.lab.settings import REWARDS, LabNumbers
from benchmarks.lab.training import DeepTrajectory
from benchmarks.lab.true_events import TRUTH
from benchmarks.lab.truth import deep_truth, smoothed, trained_reward

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


CARELESS = LabNumbers(right=0.0, anywhere=1.0)
LONGER = LabNumbers(right=1.0, length=2.0)
ENDS = LabNumbers(right=1.0, ended=4.0)
SPENT = ramp(1.0, 0.02, 50)
LEAST = round(TRUTH.lasting * STEPS)
BROKEN = np.where(np.arange(STEPS) < 90, 0.5, 0.0)
SWINGS = ramp(0.2, 0.7, 0) + ramp(0.0, -0.4, 60) + ramp(0.0, 0.4, 100)
LITTLE = ramp(0.6, 0.65, 50)
CURVES = {
    # A rise that ends half-way is a plateau, and one that ends high is not.
    "rise": (judge(right=ramp(0.2, 0.8, 0, 200)), "healthy", None),
    "rise that ends half-way": (judge(right=ramp(0.2, 0.6, 0)), "plateau", None),
    "rise that ends high": (judge(right=ramp(0.2, 0.95, 0)), "healthy", None),
    # A collapse begins where half of the gain is lost, or half of the level of a run that started high.
    "early collapse": (judge(right=ramp(0.2, 0.7, 0) + ramp(0.0, -0.5, 60)), "collapse", (71, 2)),
    "late collapse": (judge(right=ramp(0.2, 0.7, 0) + ramp(0.0, -0.5, 120)), "collapse", (131, 2)),
    "high level lost": (judge(right=ramp(0.8, 0.3, 50)), "collapse", None),
    "start lost at once": (judge(right=ramp(0.5, 0.0, 2, 3)), "collapse", None),
    # Swings are two falls with a rise between; the onset is the top before the first fall.
    "swings": (judge(right=SWINGS + ramp(0.0, -0.4, 150)), "oscillation", (60, 8)),
    # Hacking: a trained reward that rises while gold falls (from where 30% are gone), stalls, or is lost beside one
    # that stands; what right answers earn is set against what all earn, however little these are worth.
    "gold falls": (judge(CARELESS, right=ramp(0.3, 0.0, 50), anywhere=ramp(0.4, 0.9, 50)), "reward_hacking", (57, 3)),
    "gold stalls": (judge(LONGER, right=0.05, length=ramp(0.4, 1.0, 50)), "reward_hacking", None),
    "gold lost": (judge(CARELESS, right=ramp(0.4, 0.05, 50), anywhere=LITTLE), "reward_hacking", None),
    "gold stays": (judge(CARELESS, right=0.4, anywhere=LITTLE), "plateau", None),
    "ends earn": (judge(ENDS, right=ramp(0.0, 0.1, 50), ended=ramp(0.5, 0.9, 50)), "reward_hacking", None),
    # Spent entropy is a failure where reward is left, from where a tenth of it is.
    "entropy spent": (judge(right=ramp(0.2, 0.4, 0), entropy=SPENT), "policy_concentration", (70, 3)),
    "entropy spent at the top": (judge(right=ramp(0.2, 0.98, 0), entropy=SPENT), "healthy", None),
    # Of two that come together, one explains the other.
    "explosion and collapse": (
        judge(right=ramp(0.4, 0.0, 50), entropy=ramp(0.5, np.log(VOCABULARY), 53)), "entropy_explosion", None,
    ),
    "collapse and spent entropy": (judge(right=ramp(0.4, 0.0, 50), entropy=ramp(1.0, 0.0, 35)), "collapse", None),
    # Groups without spread are too hard or solved, by their reward.
    "too hard": (judge(right=0.01, flat=0.95), "too_hard", None),
    "solved": (judge(right=0.99, flat=0.95), "solved", None),
    "climbed": (judge(right=ramp(0.3, 0.99, 0), flat=ramp(0.2, 0.95, 0)), "healthy", None),
    # A broken reward no longer follows the completions.
    "broken": (
        judge(right=np.full(STEPS, 0.5), reward=BROKEN, flat=ramp(0.2, 1.0, 90, 1)),
        "broken_reward", (91, TRUTH.smooth // 2 + 1),
    ),
}  # fmt: skip
"""Name → truth of a curve, its event, and where it begins with the tolerance."""
NO_EVENT = {
    "came back": ramp(0.2, 0.7, 0) + ramp(0.0, -0.5, 60) + ramp(0.0, 0.5, 120),
    "started high and lost a third": ramp(0.8, 0.5, 50),
    "one fall that came back": SWINGS,
    "a fall that came back and a small one": SWINGS + ramp(0.0, -0.1, 150),
    "swings long since over": (
        ramp(0.7, 0.3, 10, 10) + ramp(0.0, 0.4, 25, 10) + ramp(0.0, -0.4, 40, 10) + ramp(0.0, 0.4, 55, 10)
    ),
    "too short to last": ramp(0.8, 0.0, STEPS - LEAST // 2, 1),
}


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_has_its_event_and_onset(name):
    truth, event, onset = CURVES[name]
    assert truth.event == event
    if onset is not None:
        assert truth.onset == pytest.approx(onset[0], abs=onset[1])


@pytest.mark.parametrize("name", NO_EVENT)
def test_a_curve_without_an_event(name):
    assert judge(right=NO_EVENT[name]).events == {}


def test_the_other_side_of_hacking():
    rising = judge(CARELESS, right=ramp(0.3, 0.8, 50), anywhere=ramp(0.4, 0.9, 50))
    own = judge(right=ramp(0.0, 0.1, 50), ended=ramp(0.5, 0.9, 50))
    assert "reward_hacking" not in (rising.event, own.event)


def test_an_explained_event_is_kept_beside_the_one_that_explains_it():
    explosion, collapse = (CURVES[x][0] for x in ("explosion and collapse", "collapse and spent entropy"))
    assert set(explosion.events) == {"entropy_explosion", "collapse"}
    assert collapse.events["policy_concentration"] < collapse.events["collapse"]
    rise = CURVES["rise"][0]
    assert (rise.onset, rise.events) == (None, {})
    assert rise.best_gold == pytest.approx(0.8, abs=0.03)


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
