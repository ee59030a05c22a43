"""Value of a stop where the run keeps checkpoints: the value of the picked checkpoint, not of the last policy.

    N(s) = V (R(picked of those up to s) - R(picked of those up to now)) - C (s - now)

Paths of the forecast and draws of past checkpoints are joined by rank of the present reward. Past checkpoints are
picked by their posterior mean. Future checkpoints are picked by their reward plus an error of the same size as the
posterior error of past ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.budget import at_places, courses_of
from bayes_grpo.decision.checkpoints import Checkpoints, Choice, Had, had
from bayes_grpo.diagnosis.smoothing import fit_trend

if TYPE_CHECKING:
    from bayes_grpo.diagnosis.result import Diagnosis
    from bayes_grpo.forecasting.result import Forecast


UNDESERVED = "reward_hacking"
"""Name of the failure for gains that come from reward hacking."""


class Doubt(NamedTuple):
    """Penalty for reward hacking: the reward may have risen without better completions.

    Attributes:
        probability: Probability of reward hacking.
        since: Step of its onset.
    """

    probability: float
    since: float


def doubt_of(diagnosis: Diagnosis | None) -> Doubt | None:
    """The penalty from a diagnosis; None without an onset of reward hacking."""
    onset = None if diagnosis is None else diagnosis.onsets.get(UNDESERVED)
    if diagnosis is None or onset is None:
        return None
    return Doubt(float(diagnosis.probability[UNDESERVED]), float(onset.step.median))


class Recall(NamedTuple):
    """Stopping steps with the checkpoint that is picked at each.

    Attributes:
        step: Stopping steps, the first of them now, shape (1 + h,).
        reward: Reward of the picked checkpoint, shape (draws, 1 + h).
        choice: Checkpoint to take now.
    """

    step: np.ndarray
    reward: np.ndarray
    choice: Choice


def recalled(forecast: Forecast, checkpoints: Checkpoints, doubt: Doubt | None = None, seed: int = 0) -> Recall:
    """What is picked at every stopping step of a forecast.

    Args:
        forecast: The forecast.
        checkpoints: Checkpoints to return to.
        doubt: Penalty for reward hacking; None without a sign of it.
        seed: Seed.

    Returns:
        Steps and rewards.

    Raises:
        SettingError: The forecast has no future step, too few rows, or checkpoints are impossible.
    """
    now, kept = float(forecast.now), checkpoints.checked(float(forecast.now))
    step, reward = courses_of(forecast)
    trend = fit_trend(forecast.logged_step, forecast.logged, seed=1)
    if trend is None:
        raise SettingError("checkpoints: too few rows to rank them; wait for more steps")
    rng = np.random.default_rng(seed)
    behind = had(trend, kept, now, forecast.lag, seed)
    if len(kept.scored):  # what is deserved is what held-out scores say
        doubt = None
    else:
        behind = _past_undeserved(behind, doubt, seed)
    choice = behind.choice(kept)
    # The highest draws of the present go with the highest of the past.
    ranks = np.argsort(np.argsort(reward[:, 0], kind="stable"), kind="stable")
    order = np.argsort(behind.draws[:, -1], kind="stable")
    past = behind.draws[order[ranks * len(order) // len(ranks)]]
    reward = reward[:, :1] + undeserved(reward - reward[:, :1], doubt, now, seed)
    known, error = behind.draws.mean(axis=0), float(np.sqrt(behind.draws.var(axis=0).mean()))
    best = int(np.argmax(known))
    out = np.empty_like(reward)
    out[:, 0] = past[:, best]
    earlier = int(np.argmax(known[:-1])) if len(known) > 1 else None  # going on keeps no present policy
    if earlier is None:
        picked, top = np.full(len(reward), -np.inf), np.full(len(reward), -np.inf)
    else:
        picked, top = past[:, earlier].copy(), np.full(len(reward), known[earlier])
    to_come = _to_come(kept, now, float(step[-1]))
    each = at_places(to_come, step, reward)
    shown = each + error * rng.standard_normal(each.shape)
    at_stop = reward + error * rng.standard_normal(reward.shape)
    done = 0
    for j in range(1, len(step)):
        while done < len(to_come) and to_come[done] < step[j]:
            better = shown[:, done] > top
            picked, top = np.where(better, each[:, done], picked), np.where(better, shown[:, done], top)
            done += 1
        own = at_stop[:, j] > top
        out[:, j] = np.where(own, reward[:, j], picked)
    return Recall(step, out, choice)


def undeserved(rise: np.ndarray, doubt: Doubt | None, now: float, seed: int = 0) -> np.ndarray:
    """Gains of which a share of the draws deserves none, because what is paid for is not what is wanted.

    Args:
        rise: Gain of every draw, shape (draws, h).
        doubt: Whether the reward is deserved.
        now: Step from which the gains count.
        seed: Seed of the draws' order.
    """
    if doubt is None or not doubt.since <= now:
        return rise
    hit = np.random.default_rng(seed).permutation(len(rise)) < round(doubt.probability * len(rise))
    return np.where(hit[:, None], np.minimum(rise, 0.0), rise)


def _past_undeserved(behind: Had, doubt: Doubt | None, seed: int) -> Had:
    """Rewards of checkpoints without gains since `Doubt.since` in a share of the draws."""
    if doubt is None or not behind.step[0] <= doubt.since < behind.step[-1]:
        return behind
    first = int(np.searchsorted(behind.step, doubt.since, side="right")) - 1
    rise = undeserved(behind.draws[:, first:] - behind.draws[:, first, None], doubt, doubt.since, seed)
    return behind._replace(draws=np.concatenate([behind.draws[:, :first], behind.draws[:, first, None] + rise], axis=1))


def _to_come(checkpoints: Checkpoints, now: float, until: float) -> np.ndarray:
    """Steps of the checkpoints after now."""
    if not np.isfinite(checkpoints.every):
        return np.empty(0)
    first = np.floor(now / checkpoints.every) + 1.0
    return checkpoints.every * np.arange(first, np.floor(until / checkpoints.every) + 1.0)
