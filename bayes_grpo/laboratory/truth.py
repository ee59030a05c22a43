"""What happened to a run of the deep laboratory, judged from what only the laboratory knows.

A *cause* is what was set; an *event* is what came of it. Events are conditions on smoothed true quantities: the gold
reward, the reward that the completions deserved, the entropy and the share of groups without spread. An event counts
from the step on from which its condition holds to the end of the run, so what a run recovers from is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np

from bayes_grpo.common.results import Result
from bayes_grpo.laboratory.settings import REWARDS, LabNumbers
from bayes_grpo.laboratory.training import DeepTrajectory

Event = Literal[
    "broken_reward",
    "entropy_explosion",
    "reward_hacking",
    "collapse",
    "oscillation",
    "policy_concentration",
    "too_hard",
    "solved",
]
Label = Event | Literal["healthy", "plateau"]
EVENTS: tuple[Event, ...] = get_args(Event)


class Limits(NamedTuple):
    """The constants of all events. Rewards are shares of what is attainable; lengths are shares of the run.

    Attributes:
        smooth: Steps of the centred moving mean of every quantity.
        start: Steps whose mean is the level at the start: a run may lose it within a handful.
        lasting: An event lasts at least this long, up to the end. Events that begin this close are one story:
            an explosion of the entropy explains a collapse, and a collapse explains that the entropy is spent.
        collapse: The deserved reward has lost this share of its gain; of its level, if it started above half its best.
        fall: And at least so much.
        swing: Oscillation: the deserved reward fell by this much twice, with a rise as large between the falls,
        swings_on: and the last turn lies within this last share of the run.
        rise: Hacking: the trained reward has risen by this much, or by
        rise_share: this share of what was left at the start, if that is less (not less than `rise_least`),
        rise_least: see rise_share,
        stall: while the gold reward, in what right answers earn, rose by less than this share of that; or the
        gold_fall: gold reward fell from its best by this much and
        gold_fall_share: this share of the best, while the trained reward rose by `rise_least` at least.
        apart: Either way the deserved reward is this far above the gold reward.
        spent: Concentration: the entropy is below this share of its start,
        left: while the deserved reward is this far below what is attainable.
        way: Explosion: the entropy went this share of the way from its start to that of a uniform policy,
        way_least: at least this share of the latter,
        uniform: and is above this share of it,
        lost: while the gold reward is below this share of its best, or below `floor`.
        flat: Share of groups without spread that leaves nothing to learn from,
        floor: which is too hard where the deserved reward was never above this,
        ceiling: and solved above this, where the run has not climbed there itself by `gain`.
        broken: The reward differs from the deserved one by this much.
        gain: A run without event has learned if the deserved reward gained this,
        still: and is a plateau if its last quarter is above its second by less than this and it ends below `ceiling`.
    """

    smooth: int = 15
    start: int = 2
    lasting: float = 0.1
    collapse: float = 0.5
    fall: float = 0.1
    swing: float = 0.2
    swings_on: float = 0.5
    rise: float = 0.1
    rise_share: float = 0.2
    rise_least: float = 0.02
    stall: float = 0.2
    gold_fall: float = 0.08
    gold_fall_share: float = 0.3
    apart: float = 0.1
    spent: float = 0.1
    left: float = 0.25
    way: float = 0.5
    way_least: float = 0.1
    uniform: float = 0.6
    lost: float = 0.5
    flat: float = 0.8
    floor: float = 0.1
    ceiling: float = 0.9
    broken: float = 0.02
    gain: float = 0.1
    still: float = 0.04


LIMITS = Limits()
EARNED = ("right", "anywhere", "partial")
"""Components of the reward that a right answer earns, and no other completion in full."""
_WAITS = {"collapse": 1, "policy_concentration": 2}
"""Events that give way to others which begin up to so many times `Limits.lasting` later."""


@dataclass(frozen=True)
class DeepTruth(Result):
    """Truth record of a run of the laboratory.

    Attributes:
        family: What it was drawn from.
        causes: What was set to go wrong; none in a healthy run.
        event: The first event, or "healthy" or "plateau".
        onset: Optimizer step at which it began; None without one.
        events: Onset of every event.
        attainable: Highest reward that a completion can get.
        first_gold: Gold reward over the first steps.
        best_gold: Highest smoothed gold reward.
        final_gold: Gold reward over the last steps.
    """

    family: str
    causes: tuple[str, ...]
    event: Label
    onset: int | None
    events: dict[str, int]
    attainable: float
    first_gold: float
    best_gold: float
    final_gold: float


class _Course(NamedTuple):
    """Smoothed true quantities of a run; shape (T,) each, rewards as shares of what is attainable."""

    gold: np.ndarray
    trained: np.ndarray
    deserved: np.ndarray
    entropy: np.ndarray
    flat: np.ndarray
    start: float  # deserved reward before the run could lose it
    start_gold: float
    ways: float  # entropy of a uniform policy, nats
    worth: float  # what the right answer earns, which a completion that ends or is long does not


def deep_truth(
    trajectory: DeepTrajectory,
    numbers: LabNumbers,
    vocabulary: int,
    answer: float,
    family: str = "",
    causes: tuple[str, ...] = (),
) -> DeepTruth:
    """Judges a run.

    Args:
        trajectory: One run (no leading axis).
        numbers: Its numeric settings, scalars.
        vocabulary: Number of tokens.
        answer: Tokens of a right completion over the limit.
        family: What it was drawn from.
        causes: What was set to go wrong.

    Returns:
        Its truth.
    """
    weights = np.array([float(getattr(numbers, name)) for name in REWARDS])
    scores = np.asarray(trajectory.components, float)
    attainable = attainable_reward(numbers, answer)
    deserved = scores @ weights / attainable
    course = _Course(
        gold=smoothed(scores[:, 0]),
        trained=smoothed(np.asarray(trajectory.reward, float)) / attainable,
        deserved=smoothed(deserved),
        entropy=smoothed(np.asarray(trajectory.entropy, float)),
        flat=smoothed(np.asarray(trajectory.frac_reward_zero_std, float)),
        start=float(deserved[: LIMITS.start].mean()),
        start_gold=float(scores[: LIMITS.start, 0].mean()),
        ways=float(np.log(vocabulary)),
        worth=sum(float(getattr(numbers, name)) for name in EARNED) / attainable,
    )
    least = max(1, round(LIMITS.lasting * len(course.gold)))
    events = {}
    for name, holds in _conditions(course).items():
        onset = _to_the_end(holds)
        if onset is not None and len(holds) - onset >= least:
            events[name] = onset + 1
    order = {x: (onset + least * _WAITS.get(x, 0), EVENTS.index(x)) for x, onset in events.items()}
    event: Label = min(order, key=order.__getitem__) if order else _uneventful(course)
    return DeepTruth(
        family=family,
        causes=causes,
        event=event,
        onset=events.get(event),
        events=events,
        attainable=attainable,
        first_gold=float(course.gold[0]),
        best_gold=float(course.gold.max()),
        final_gold=float(course.gold[-1]),
    )


def attainable_reward(numbers: LabNumbers, answer: float) -> float:
    """The better of two completions: the right one, and one that holds the answer and fills the limit.

    Args:
        numbers: Numeric settings, scalars.
        answer: Tokens of a right completion over the limit.

    Returns:
        The reward.
    """
    w = {name: float(getattr(numbers, name)) for name in REWARDS}
    right = w["right"] + w["anywhere"] + w["partial"] + w["ended"] + w["length"] * answer
    return max(right, w["anywhere"] + w["ended"] + w["length"], 1e-9)


def smoothed(x: np.ndarray) -> np.ndarray:
    """Centred mean over `Limits.smooth` steps, over those there are near both ends."""
    half = LIMITS.smooth // 2
    total = np.concatenate([[0.0], np.cumsum(x)])
    at = np.arange(len(x))
    low, high = np.maximum(at - half, 0), np.minimum(at + half + 1, len(x))
    return (total[high] - total[low]) / (high - low)


def _conditions(c: _Course) -> dict[Event, np.ndarray]:
    """Whether each event's condition holds at every step, shape (T,)."""
    k = LIMITS
    best = np.maximum(np.maximum.accumulate(c.deserved), c.start)
    best_gold = np.maximum(np.maximum.accumulate(c.gold), c.start_gold)
    # What a run that started high can lose is its level; what one that climbed can lose is its gain.
    height = np.where(c.start > 0.5 * best, best, best - c.start)
    rise = c.trained - c.trained[0]
    risen = rise > np.clip(k.rise_share * (1.0 - c.trained[0]), k.rise_least, k.rise)
    fallen = best_gold - c.gold > np.maximum(k.gold_fall, k.gold_fall_share * best_gold)
    # Where much besides right answers is rewarded, a small part of the reward is all that they earn.
    stalled = risen & (c.worth * (c.gold - c.gold[0]) < k.stall * rise)
    turned = fallen & (rise > k.rise_least)
    exploded = c.entropy - c.entropy[0] > np.maximum(k.way * (c.ways - c.entropy[0]), k.way_least * c.ways)
    flat = c.flat > k.flat
    return {
        "broken_reward": np.abs(c.deserved - c.trained) > k.broken,
        "entropy_explosion": exploded
        & (c.entropy > k.uniform * c.ways)
        & (c.gold < np.maximum(k.lost * best_gold, k.floor)),
        "reward_hacking": (turned | stalled) & (c.deserved - c.gold > k.apart),
        "collapse": best - c.deserved > np.maximum(k.fall, k.collapse * height),
        "oscillation": np.arange(len(c.deserved)) >= _swings_from(c.deserved),
        "policy_concentration": (c.entropy < k.spent * c.entropy[0]) & (c.deserved < 1.0 - k.left),
        "too_hard": flat & (best < k.floor),
        "solved": flat & (c.deserved > k.ceiling) & (c.deserved - c.start < k.gain),
    }


def _swings_from(x: np.ndarray) -> int:
    """Index of the top before the first of at least two falls with a rise between; the length of x if it swings not."""
    turns = _turns(x, LIMITS.swing)
    tops = [at for at, then in pairwise(turns) if x[then] < x[at]]
    goes_on = len(turns) > 1 and turns[-2] >= (1.0 - LIMITS.swings_on) * len(x)
    return tops[0] if len(tops) > 1 and goes_on else len(x)


def _turns(x: np.ndarray, least: float) -> list[int]:
    """Indices between which x rises and falls in turn, each time by at least so much; the last leg may still go on."""
    low = high = 0
    turns: list[int] = []
    rising: bool | None = None
    for i in range(1, len(x)):
        if rising is not True and x[i] - x[low] >= least:
            turns.append(low)
            rising, high = True, i
        elif rising is not False and x[high] - x[i] >= least:
            turns.append(high)
            rising, low = False, i
        if x[i] > x[high]:
            high = i
        if x[i] < x[low]:
            low = i
    if rising is not None:
        turns.append(high if rising else low)
    return turns


def _to_the_end(holds: np.ndarray) -> int | None:
    """First index from which on a condition holds to the end."""
    if not holds[-1]:
        return None
    broken = np.flatnonzero(~holds)
    return int(broken[-1]) + 1 if len(broken) else 0


def _uneventful(c: _Course) -> Label:
    """Healthy, or a plateau: nothing learned, or nothing more and much left."""
    quarter = len(c.deserved) // 4
    gain = c.deserved[-1] - c.start
    late = c.deserved[-quarter:].mean() - c.deserved[quarter : 2 * quarter].mean()
    ends_high = c.deserved[-1] > LIMITS.ceiling
    if ends_high or (gain > LIMITS.gain and late > LIMITS.still):
        return "healthy"
    return "plateau"
