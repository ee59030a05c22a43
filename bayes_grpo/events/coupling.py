"""Uncoupled: a train reward that rises without the reward that it stands for (over-optimisation).

    coupling = Δ held-out reward / Δ train reward       (1: all of it carries over; 0: none; negative: it turns over)

The turnover is the fall of the held-out reward from its best while the train reward went on rising (Gao et al. 2022,
https://arxiv.org/abs/2210.10760).
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.events.borders import BORDERS, DIAGNOSIS, TRUTH
from bayes_grpo.events.definition import Definition
from bayes_grpo.events.trend import LatentSignals, Trend

_B = BORDERS
UNCOUPLED = Definition(
    "uncoupled",
    DIAGNOSIS,
    "reward_hacking",
    f"the train reward rose beyond noise; and either less than {_B.loose:.0%} of the rise came with the held-out "
    f"reward, and the rise is more than {_B.rise:.0%} of the range or {_B.rise_left:.0%} of what was left of it, or "
    f"the held-out reward fell by more than {_B.turned:.0%} of its best, and {_B.noise:g} noise sd, while the train "
    f"reward went on; or a held-out reward in [0, 1] ends below {_B.hollow:g} while the train reward stands above "
    f"{_B.stands:.0%} of its range",
)
HACKED = Definition(
    "reward_hacking",
    TRUTH,
    "",
    f"the deserved reward is more than {_B.apart:.0%} above the gold reward; and either less than "
    f"{_B.loose_truth:.0%} of a rise of the trained reward came with it, and the rise is more than {_B.rise:.0%} or "
    f"{_B.rise_left:.0%} of what was left, {_B.rise_least:.0%} at least, or the gold reward fell by more than "
    f"{_B.turned:.0%} of its best, and {_B.turned_least:.0%}, while the trained reward rose by {_B.rise_least:.0%}",
)

TURNOVER_STEPS = 40
"""Steps at which both rewards are asked for a turnover."""


def uncoupled(signals: LatentSignals, held: Trend, first: float, last: float) -> np.ndarray:
    """Draws of whether the train reward rose without the held-out reward, shape (draws,).

    Args:
        signals: Those of a run with a train reward.
        held: Trend of the held-out reward.
        first: First step at which both are known.
        last: Last such step.
    """
    train = signals.reward
    rise = train.change(first, last)
    rose = rise > np.maximum(train.noise_sd, BORDERS.noise * rise.std())
    unshared = (coupling(train, held, first, last) < BORDERS.loose) & (rise > _least_rise(signals))
    fall, best = turnover(train, held, first, last)
    parted = rose & (unshared | turned_over(fall, best, BORDERS.noise * held.noise_sd))
    return parted | hollow(signals, held, last)


def coupling(train: Trend, held: Trend, first: float, last: float) -> np.ndarray:
    """Draws of the held-out reward's change over the train reward's, bounded, shape (draws,)."""
    rise, most = train.change(first, last), BORDERS.coupling_most
    return np.clip(held.change(first, last) / np.where(np.abs(rise) > 1e-12, rise, 1e-12), -most, most)


def turnover(train: Trend, held: Trend, first: float, last: float) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the held-out reward's fall from its best, and of that best, shape (draws,) each.

    The fall is 0 where the train reward did not go on rising meanwhile.
    """
    steps = np.linspace(first, last, TURNOVER_STEPS)
    path, gold = train.at(steps), held.at(steps)
    best, rows = gold.argmax(axis=1), np.arange(len(gold))
    went_on = path[:, -1] > path[rows, best]
    return np.where(went_on, gold[rows, best] - gold[:, -1], 0.0), gold[rows, best]


def turned_over(fall: np.ndarray, best: np.ndarray, material: float) -> np.ndarray:
    """Whether a held-out reward turned over.

    Args:
        fall: How far it is below its best, any shape.
        best: That best, likewise.
        material: Fall below which none matters.
    """
    return fall > np.maximum(BORDERS.turned * best, material)


def least_rise(left: np.ndarray | float, span: float = 1.0) -> np.ndarray:
    """The smallest rise that matters beside a held-out reward that stands still.

    Args:
        left: What was left to gain at the start, any shape.
        span: Range of the reward.
    """
    return np.minimum(BORDERS.rise * span, np.maximum(BORDERS.rise_left * np.asarray(left), 0.0))


def hollow(signals: LatentSignals, held: Trend, last: float) -> np.ndarray:
    """Draws of whether a train reward stands high beside a held-out one of nothing, shape (draws,).

    Args:
        signals: Those of a run with a train reward.
        held: Trend of the held-out reward.
        last: Step at which both are asked; their means over the last part where it is the end.
    """
    train = signals.reward
    if not signals.has_range or held.raw.min() < 0.0 or held.raw.max() > 1.0:
        return np.zeros(len(train.draws), bool)
    ended = last >= min(train.step[-1], held.step[-1])
    nothing, high = (x.end if ended else x.at(np.array([last]))[:, 0] for x in (held, train))
    return (nothing < BORDERS.hollow) & (signals.share(high) > BORDERS.stands)


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
    risen = rise > np.maximum(least_rise(1.0 - trained[0]), BORDERS.rise_least)
    unshared = risen & (worth * (gold - gold[0]) < BORDERS.loose_truth * rise)
    turned = turned_over(best - gold, best, BORDERS.turned_least) & (rise > BORDERS.rise_least)
    return (turned | unshared) & (deserved - gold > BORDERS.apart)


def _least_rise(signals: LatentSignals) -> float:
    if not signals.has_range:
        return BORDERS.rise * signals.span
    return float(least_rise(signals.high - float(signals.reward.mean[0]), signals.span))
