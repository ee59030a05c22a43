"""What happened to a run of the deep laboratory, judged from what only the laboratory knows.

A *cause* is what was set; an *event* is what came of it. Events are conditions on smoothed true quantities: the gold
reward, the reward that the completions deserved, the entropy and the share of groups without spread; they are defined
in `true_events`. An event counts from the step on from which its condition holds to the end of the run, so what a
run recovers from is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from bayes_grpo.common.results import Result
from bayes_grpo.rows.series import stretches
from benchmarks.lab.settings import REWARDS, LabNumbers
from benchmarks.lab.training import DeepTrajectory
from benchmarks.lab.true_events import (
    TRUTH,
    at_stake,
    exploded,
    hacked,
    learned,
    lost,
    misrewarded,
    solved,
    spent_early,
    swings_from,
    too_hard,
)

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
TRUE_EVENTS: tuple[Event, ...] = get_args(Event)
EARNED = ("right", "anywhere", "partial")
"""Components of the reward that a right answer earns, and no other completion in full."""
_WAITS: dict[str, int] = {
    "collapse": TRUTH.wait_of_collapse,
    "policy_concentration": TRUTH.wait_of_spent,
}
"""Events that give way to others which begin up to so many times `TRUTH.lasting` later: an explosion of the entropy
explains a collapse, and a collapse that the entropy is spent."""


@dataclass(frozen=True)
class DeepTruth(Result):
    """Truth record of a run of the laboratory.

    Attributes:
        family: What it was drawn from.
        causes: What was set to go wrong; none in a healthy run.
        event: The first event, or "healthy" or "plateau".
        onset: Optimizer step at which it began; None without one.
        events: Onset of every event.
        episodes: First and last step of every stretch in which a condition held, whether the run recovered or not;
            "wasted" among them, groups without spread while the reward is below its top, and "saturated", at its top.
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
    episodes: dict[str, tuple[tuple[int, int], ...]]
    attainable: float
    first_gold: float
    best_gold: float
    final_gold: float


class _TrueSignals(NamedTuple):
    """Smoothed true quantities of a run; shape (T,) each, rewards as shares of what is attainable."""

    gold: np.ndarray
    trained: np.ndarray
    deserved: np.ndarray
    entropy: np.ndarray
    flat: np.ndarray
    start: float  # deserved reward before the run could lose it
    start_gold: float
    uniform: float  # entropy of a uniform policy, nats
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
    attainable = trained_reward(numbers, answer)
    deserved = scores @ weights / attainable
    true = _TrueSignals(
        gold=smoothed(scores[:, 0]),
        trained=smoothed(np.asarray(trajectory.reward, float)) / attainable,
        deserved=smoothed(deserved),
        entropy=smoothed(np.asarray(trajectory.entropy, float)),
        flat=smoothed(np.asarray(trajectory.frac_reward_zero_std, float)),
        start=float(deserved[: TRUTH.first_rows].mean()),
        start_gold=float(scores[: TRUTH.first_rows, 0].mean()),
        uniform=float(np.log(vocabulary)),
        worth=sum(float(getattr(numbers, name)) for name in EARNED) / attainable,
    )
    least = max(1, round(TRUTH.lasting * len(true.gold)))
    events, conditions = {}, _conditions(true)
    for name, holds in conditions.items():
        onset = _to_the_end(holds)
        if onset is not None and len(holds) - onset >= least:
            events[name] = onset + 1
    order = {x: (onset + least * _WAITS.get(x, 0), TRUE_EVENTS.index(x)) for x, onset in events.items()}
    event: Label = (
        min(order, key=order.__getitem__) if order else "healthy" if learned(true.deserved, true.start) else "plateau"
    )
    return DeepTruth(
        family=family,
        causes=causes,
        event=event,
        onset=events.get(event),
        events=events,
        episodes={
            name: tuple((first + 1, last + 1) for first, last in spans)
            for name, holds in (*conditions.items(), *_without_spread(true).items())
            if (spans := stretches(holds, least))
        },
        attainable=attainable,
        first_gold=float(true.gold[0]),
        best_gold=float(true.gold.max()),
        final_gold=float(true.gold[-1]),
    )


def trained_reward(numbers: LabNumbers, answer: float) -> float:
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
    """Centred mean over `TRUTH.smooth` steps, over those there are near both ends."""
    half = TRUTH.smooth // 2
    total = np.concatenate([[0.0], np.cumsum(x)])
    at = np.arange(len(x))
    low, high = np.maximum(at - half, 0), np.minimum(at + half + 1, len(x))
    return (total[high] - total[low]) / (high - low)


def _conditions(c: _TrueSignals) -> dict[Event, np.ndarray]:
    """Whether each event's condition holds at every step, shape (T,)."""
    best = np.maximum(np.maximum.accumulate(c.deserved), c.start)
    return {
        "broken_reward": misrewarded(c.trained, c.deserved),
        "entropy_explosion": exploded(c.entropy, c.uniform, c.gold, c.start_gold),
        "reward_hacking": hacked(c.trained, c.deserved, c.gold, c.start_gold, c.worth),
        "collapse": lost(best - c.deserved, at_stake(c.start, best), TRUTH.material_truth),
        "oscillation": np.arange(len(c.deserved)) >= swings_from(c.deserved),
        "policy_concentration": spent_early(
            c.entropy, c.entropy[0], 1.0 - c.deserved, TRUTH.spent_truth, TRUTH.short_truth
        ),
        "too_hard": too_hard(c.flat, best),
        "solved": solved(c.flat, c.deserved, c.start),
    }


def _without_spread(c: _TrueSignals) -> dict[str, np.ndarray]:
    """Whether most groups have no spread at every step, below the top of the deserved reward and at it, shape (T,)."""
    flat, top = c.flat > TRUTH.wasted, c.deserved >= TRUTH.solved_truth
    return {"wasted": flat & ~top, "saturated": flat & top}


def _to_the_end(holds: np.ndarray) -> int | None:
    """First index from which on a condition holds to the end."""
    if not holds[-1]:
        return None
    broken = np.flatnonzero(~holds)
    return int(broken[-1]) + 1 if len(broken) else 0
