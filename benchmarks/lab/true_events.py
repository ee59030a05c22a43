"""What only the laboratory knows: events as conditions on true quantities, with their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bayes_grpo.forecasting.events import at_stake as at_stake
from bayes_grpo.forecasting.events import least_loss


def lost(fall: np.ndarray, stake: np.ndarray | float, material: float) -> np.ndarray:
    """Whether a fall is a collapse.

    Args:
        fall: How far the signal is below its best, any shape.
        stake: What it had to lose, likewise.
        material: Fall below which none matters.
    """
    return (fall > least_loss(stake)) & (fall > material)


@dataclass(frozen=True)
class TrueThresholds:
    """The numbers, stricter than a diagnosis's: nothing is noise here, and a label has to be beyond doubt."""

    apart: float = 0.1
    """of the range: by which the deserved reward is above the gold reward all the while"""
    broken_truth: float = 0.02
    """of the range: between given and deserved reward, which only it knows"""
    exploded: float = 0.5
    """share: of the way from its start to a uniform policy's that the entropy went"""
    exploded_least: float = 0.1
    """of uniform: entropy that it went at least"""
    exploded_level: float = 0.6
    """of uniform: entropy above which it is"""
    exploded_lost: float = 0.5
    """of the best: gold reward below which it has done harm"""
    first_rows: int = 2
    """rows: whose mean is the level at which a run begins, as it may fall at once"""
    going: float = 0.04
    """of the range: that the second half gains while a run is going on"""
    hopeless: float = 0.1
    """of the range: never exceeded where a task is too hard"""
    lasting: float = 0.1
    """of the run: that an event lasts at least, up to the end; events that begin this close are one story"""
    learned: float = 0.1
    """of the range: gained by a run that has learned"""
    loose_truth: float = 0.2
    """coupling: the same of the true gold reward, in what right answers earn"""
    material_truth: float = 0.1
    """of the range: the same where nothing is noise and a label has to be beyond doubt"""
    rise: float = 0.1
    """of the range: above which a rise that is not shared matters"""
    rise_least: float = 0.02
    """of the range: a rise at least: at a reward near its top little was left"""
    rise_left: float = 0.2
    """of what was left: at the start, above which it matters too"""
    short_truth: float = 0.25
    """of the range: the same beside an entropy that is lower still"""
    smooth: int = 15
    """steps: of the centred mean of every true quantity"""
    solved_truth: float = 0.9
    """of the range: the same of the deserved reward, which no noise lifts"""
    spent_truth: float = 0.1
    """of the start: the same where a label has to be beyond doubt"""
    swing: float = 0.2
    """of the range: by which a true reward falls twice, with a rise as large between: it needs no law"""
    swings_on: float = 0.5
    """of the run: the last part in which its last turn lies"""
    turned: float = 0.3
    """of the best: that a held-out reward loses when it turns over"""
    turned_least: float = 0.08
    """of the range: and at least so much, where no noise sd says what matters"""
    wait_of_collapse: int = 1
    """lasting: later, an event that explains a collapse takes its place"""
    wait_of_spent: int = 2
    """lasting: later, an event that explains spent entropy takes its place"""
    wasted: float = 0.55
    """of the groups: without spread over the second half of a log, above which they are waste"""
    wasted_truth: float = 0.8
    """of the groups: without spread, above which nothing is left to learn from"""


TRUTH = TrueThresholds()


def misrewarded(trained: np.ndarray, deserved: np.ndarray) -> np.ndarray:
    """Whether the reward of a run of the laboratory is not what was deserved, at every step, shape (T,).

    Args:
        trained: Reward that was trained on, as a share of what is attainable, shape (T,).
        deserved: What the completions deserved, likewise.
    """
    return np.abs(deserved - trained) > TRUTH.broken_truth


def least_rise(left: np.ndarray | float, span: float = 1.0) -> np.ndarray:
    """The smallest rise that matters beside a held-out reward that stands still.

    Args:
        left: What was left to gain at the start, any shape.
        span: Range of the reward.
    """
    return np.minimum(TRUTH.rise * span, np.maximum(TRUTH.rise_left * np.asarray(left), 0.0))


def turned_over(fall: np.ndarray, best: np.ndarray, material: float) -> np.ndarray:
    """Whether a held-out reward turned over.

    Args:
        fall: How far it is below its best, any shape.
        best: That best, likewise.
        material: Fall below which none matters.
    """
    return fall > np.maximum(TRUTH.turned * best, material)


def hacked(trained: np.ndarray, deserved: np.ndarray, gold: np.ndarray, start: float, worth: float) -> np.ndarray:
    """Whether a run of the laboratory is hacked, at every step, shape (T,).

    Args:
        trained: Reward that was trained on, as a share of what is attainable, shape (T,).
        deserved: What the completions deserved, likewise.
        gold: Gold reward, shape (T,).
        start: Gold reward at the start.
        worth: Share of what is attainable that right answers earn: where much besides them is rewarded, a small part
            of the reward is all that they can move.
    """
    best = np.maximum(np.maximum.accumulate(gold), start)
    rise = trained - trained[0]
    risen = rise > np.maximum(least_rise(1.0 - trained[0]), TRUTH.rise_least)
    unshared = risen & (worth * (gold - gold[0]) < TRUTH.loose_truth * rise)
    turned = turned_over(best - gold, best, TRUTH.turned_least) & (rise > TRUTH.rise_least)
    return (turned | unshared) & (deserved - gold > TRUTH.apart)


def spent_early(entropy: np.ndarray, start: float, missing: np.ndarray, least: float, short: float) -> np.ndarray:
    """Whether little entropy is left while much of the reward is missing.

    Args:
        entropy: What is left, any shape.
        start: What there was at the start, in the same unit.
        missing: Share of the reward's range not reached, shaped like the entropy.
        least: Share of the start below which little is left.
        short: Share of the range above which much is missing.
    """
    return (entropy < least * start) & (missing > short)


def exploded(entropy: np.ndarray, uniform: float, gold: np.ndarray, start: float) -> np.ndarray:
    """Whether the entropy of a run of the laboratory exploded, at every step, shape (T,).

    Args:
        entropy: In nats, shape (T,).
        uniform: That of a uniform policy, nats.
        gold: Gold reward, shape (T,).
        start: Gold reward at the start.
    """
    best = np.maximum(np.maximum.accumulate(gold), start)
    went = np.maximum(TRUTH.exploded * (uniform - entropy[0]), TRUTH.exploded_least * uniform)
    harmed = gold < np.maximum(TRUTH.exploded_lost * best, TRUTH.hopeless)
    return (entropy - entropy[0] > went) & (entropy > TRUTH.exploded_level * uniform) & harmed


def goes_on(late_gain: np.ndarray | float, span: float = 1.0) -> np.ndarray:
    """Whether a gain of the second half is one of a run that is going on.

    Args:
        late_gain: Any shape.
        span: Range of the signal.
    """
    return np.asarray(late_gain) > TRUTH.going * span


def learned(reward: np.ndarray, start: float) -> bool:
    """Whether a true reward without any event is a healthy run's, and no plateau.

    Args:
        reward: Deserved reward as shares of what is attainable, shape (T,).
        start: The same before the run could lose it.
    """
    quarter = len(reward) // 4
    late = reward[-quarter:].mean() - reward[quarter : 2 * quarter].mean()
    return bool(reward[-1] > TRUTH.solved_truth or (reward[-1] - start > TRUTH.learned and goes_on(late)))


def swings_from(x: np.ndarray) -> int:
    """Index of the top before the first of at least two falls of a true reward; its length if it does not swing.

    Args:
        x: Without noise, as a share of what is attainable, shape (T,).
    """
    turns = _turns(x, TRUTH.swing)
    tops = [at for at, then in pairwise(turns) if x[then] < x[at]]
    goes_on = len(turns) > 1 and turns[-2] >= (1.0 - TRUTH.swings_on) * len(x)
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


def too_hard(flat: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Whether a run of the laboratory has nothing to learn from, at every step, shape (T,).

    Args:
        flat: Share of groups without spread, shape (T,).
        best: Best deserved reward so far, as a share of what is attainable, shape (T,).
    """
    return (flat > TRUTH.wasted_truth) & (best < TRUTH.hopeless)


def solved(flat: np.ndarray, reward: np.ndarray, start: float) -> np.ndarray:
    """Whether the task was solved before a run of the laboratory began, at every step, shape (T,).

    Args:
        flat: Share of groups without spread, shape (T,).
        reward: Deserved reward, as a share of what is attainable, shape (T,).
        start: The same at the start.
    """
    high = reward > TRUTH.solved_truth
    return (flat > TRUTH.wasted_truth) & high & (reward - start < TRUTH.learned)
