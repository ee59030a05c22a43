"""What happened to a run of the deep laboratory, judged from what only the laboratory knows.

A *cause* is what was set; an *event* is what came of it. Events are conditions on smoothed true quantities: the gold
reward, the reward that the completions deserved, the entropy and the share of groups without spread. An event counts
from the step on from which its condition holds to the end of the run, so what a run recovers from is none.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from bayes_grpo.simulate.deep.settings import REWARDS, LabNumbers
from bayes_grpo.simulate.deep.training import DeepTrajectory

Event = Literal[
    "broken_reward",
    "entropy_explosion",
    "reward_hacking",
    "collapse",
    "policy_concentration",
    "too_hard",
    "solved",
]
Label = Event | Literal["healthy", "plateau"]
EVENTS: tuple[Event, ...] = get_args(Event)


class Limits(NamedTuple):
    """The constants of all events. Rewards are shares of what is attainable; steps are shares of the run.

    Attributes:
        smooth: Steps of the moving mean of every quantity.
        lasting: An event lasts at least this share of the run, up to its end.
        collapse: The deserved reward has lost this share of its gain; of its level, if it started above half its best.
        fall: And at least so much.
        hack_rise: The trained reward has risen by this much since the gold reward was best, or since the start,
        hack_fall: while the gold reward fell by this much and this share of its best,
        hack_stall: or never rose by more than this.
        spent: The entropy is below this share of its start,
        left: while the deserved reward is this far below what is attainable.
        explosion: The entropy is above its start by this factor and above this share of a uniform policy's,
        uniform: see explosion,
        lost: while the gold reward is below this share of its best.
        flat: Share of groups without spread that leaves nothing to learn from,
        floor: which is too hard below this deserved reward,
        ceiling: and solved above this one, where the run has not climbed there itself by more than `healthy_gain`.
        broken: The reward differs from the deserved one by this much.
        healthy_gain: A run without event has learned if the deserved reward gained this,
        still: and is a plateau if over its second half it gained less than this and ends below `ceiling`.
    """

    smooth: int = 20
    lasting: float = 0.1
    collapse: float = 0.5
    fall: float = 0.15
    hack_rise: float = 0.1
    hack_fall: float = 0.25
    hack_stall: float = 0.05
    spent: float = 0.1
    left: float = 0.25
    explosion: float = 1.5
    uniform: float = 0.6
    lost: float = 0.5
    flat: float = 0.9
    floor: float = 0.1
    ceiling: float = 0.9
    broken: float = 0.02
    healthy_gain: float = 0.1
    still: float = 0.03


LIMITS = Limits()


@dataclass(frozen=True)
class DeepTruth:
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

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready content."""
        return asdict(self) | {"causes": list(self.causes)}


class _Course(NamedTuple):
    """Smoothed true quantities of a run; shape (T,) each, rewards as shares of what is attainable."""

    gold: np.ndarray
    trained: np.ndarray
    deserved: np.ndarray
    entropy: np.ndarray
    flat: np.ndarray
    ways: float  # entropy of a uniform policy, nats


def deep_truth(
    trajectory: DeepTrajectory, numbers: LabNumbers, vocabulary: int, family: str = "", causes: tuple[str, ...] = ()
) -> DeepTruth:
    """Judges a run.

    Args:
        trajectory: One run (no leading axis).
        numbers: Its numeric settings, scalars.
        vocabulary: Number of tokens.
        family: What it was drawn from.
        causes: What was set to go wrong.

    Returns:
        Its truth.
    """
    weights = np.array([float(getattr(numbers, name)) for name in REWARDS])
    scores = np.asarray(trajectory.components, float)
    attainable = attainable_reward(numbers)
    course = _Course(
        gold=smoothed(scores[:, 0]),
        trained=smoothed(np.asarray(trajectory.reward, float)) / attainable,
        deserved=smoothed(scores @ weights) / attainable,
        entropy=smoothed(np.asarray(trajectory.entropy, float)),
        flat=smoothed(np.asarray(trajectory.frac_reward_zero_std, float)),
        ways=float(np.log(vocabulary)),
    )
    least = max(1, round(LIMITS.lasting * len(course.gold)))
    events = {}
    for name, holds in _conditions(course).items():
        onset = _to_the_end(holds)
        if onset is not None and len(holds) - onset >= least:
            events[name] = onset + 1
    event: Label = min(events, key=lambda x: (events[x], EVENTS.index(x))) if events else _uneventful(course)
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


def attainable_reward(numbers: LabNumbers) -> float:
    """Sum of the positive weights, a bound on the reward of a completion."""
    return max(sum(max(float(getattr(numbers, name)), 0.0) for name in REWARDS), 1e-9)


def smoothed(x: np.ndarray) -> np.ndarray:
    """Mean over the last `Limits.smooth` steps; over the first full window before that one is full."""
    size = min(LIMITS.smooth, len(x))
    total = np.concatenate([[0.0], np.cumsum(x)])
    mean = (total[size:] - total[:-size]) / size
    return np.concatenate([np.full(size - 1, mean[0]), mean])


def _conditions(c: _Course) -> dict[Event, np.ndarray]:
    """Whether each event's condition holds at every step, shape (T,)."""
    k = LIMITS
    best, best_gold = (np.maximum.accumulate(x) for x in (c.deserved, c.gold))
    start = c.deserved[0]
    # What a run that started high can lose is its level; what one that climbed can lose is its gain.
    height = np.where(start > 0.5 * best, best, best - start)
    since_best = c.trained - c.trained[_argbest(c.gold)]
    rise, fall = c.trained - c.trained[0], best_gold - c.gold
    hacked = (since_best > k.hack_rise) & (fall > np.maximum(k.hack_rise, k.hack_fall * best_gold))
    stalled = (rise > k.hack_rise) & (best_gold - c.gold[0] < k.hack_stall) & (c.deserved - c.gold > k.hack_rise)
    stalled &= c.gold < k.ceiling
    flat = c.flat > k.flat
    climbed = c.deserved - start > k.healthy_gain
    exploded = (c.entropy > k.explosion * c.entropy[0]) & (c.entropy > k.uniform * c.ways)
    return {
        "broken_reward": np.abs(c.deserved - c.trained) > k.broken,
        "entropy_explosion": exploded & (c.gold < np.maximum(k.lost * best_gold, k.floor)),
        "reward_hacking": hacked | stalled,
        "collapse": best - c.deserved > np.maximum(k.fall, k.collapse * height),
        "policy_concentration": (c.entropy < k.spent * c.entropy[0]) & (c.deserved < 1.0 - k.left),
        "too_hard": flat & (c.deserved < k.floor) & (best < k.floor),
        "solved": flat & (c.deserved > k.ceiling) & ~climbed,
    }


def _argbest(x: np.ndarray) -> np.ndarray:
    """Index of the highest value so far, at every step."""
    return np.maximum.accumulate(np.where(x >= np.maximum.accumulate(x), np.arange(len(x)), 0))


def _to_the_end(holds: np.ndarray) -> int | None:
    """First index from which on a condition holds to the end."""
    if not holds[-1]:
        return None
    broken = np.flatnonzero(~holds)
    return int(broken[-1]) + 1 if len(broken) else 0


def _uneventful(c: _Course) -> Label:
    """Healthy, or a plateau: nothing learned, or nothing more and much left."""
    gain, late = c.deserved[-1] - c.deserved[0], c.deserved[-1] - c.deserved[len(c.deserved) // 2]
    ends_high = c.deserved[-1] > LIMITS.ceiling
    if ends_high or (gain > LIMITS.healthy_gain and late > LIMITS.still):
        return "healthy"
    return "plateau"
