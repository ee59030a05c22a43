"""Value of a stop where the run keeps checkpoints: the value of the picked checkpoint, not of the last policy.

    N(s) = V (R(picked of those up to s) - R(picked of those up to now)) - C (s - now)

Paths of the forecast and draws of past checkpoints are joined by rank of the present reward. Past checkpoints are
picked by their posterior mean. Future checkpoints are picked by their reward plus an error of the same size as the
posterior error of past ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.checkpoints import Checkpoints, Choice, had
from bayes_grpo.diagnosis.trend import fit_trend

if TYPE_CHECKING:
    from bayes_grpo.forecasting.forecast import Forecast


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


def recalled(forecast: Forecast, checkpoints: Checkpoints, seed: int = 0) -> Recall:
    """What is picked at every stopping step of a forecast.

    Args:
        forecast: The forecast.
        checkpoints: Checkpoints to return to.
        seed: Seed.

    Returns:
        Steps and rewards.

    Raises:
        SettingError: The forecast has no future step, too few rows, or checkpoints are impossible.
    """
    now, kept = float(forecast.now), checkpoints.checked(float(forecast.now))
    step, reward = rewards_at_stops(forecast)
    trend = fit_trend(forecast.logged_step, forecast.logged, seed=1)
    if trend is None:
        raise SettingError("checkpoints: too few rows to rank them; wait for more steps")
    rng = np.random.default_rng(seed)
    behind = had(trend, kept, now, forecast.lag, seed)
    choice = behind.choice(kept)
    # The highest draws of the present go with the highest of the past.
    ranks = np.argsort(np.argsort(reward[:, 0], kind="stable"), kind="stable")
    order = np.argsort(behind.draws[:, -1], kind="stable")
    past = behind.draws[order[ranks * len(order) // len(ranks)]]
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
    each = _at(to_come, step, reward)
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


def rewards_at_stops(forecast: Forecast) -> tuple[np.ndarray, np.ndarray]:
    """Stopping steps from now on, and the reward of every finite draw at them.

    A stop keeps the policy of that step. Logged rows describe older policies, so its reward is that of the rows a
    `Forecast.lag` later. Beyond the horizon the reward stays constant. Where the learning rate reaches zero before the
    horizon, that step is the last one, because later stops gain nothing.

    Returns:
        Steps, the first of them now, shape (1 + h,); reward of every draw at them, shape (draws, 1 + h).
    """
    step = np.asarray(forecast.step, float)
    if not step.size:
        raise SettingError("decision: the forecast has no future step to stop at; ask for a later last step")
    latent = np.concatenate(
        [np.asarray(forecast.latent_now, float)[:, None], np.asarray(forecast.latent, float)], axis=1
    )
    finite = np.isfinite(latent).all(axis=1) & np.isfinite(forecast.rows).all(axis=1)
    if not finite.any():
        raise SettingError("decision: no draw of the forecast is finite; forecast with another regime")
    step = np.concatenate([[forecast.now], step])
    reward = _at(step + forecast.lag, step, latent[finite])
    last = max(1, int(np.searchsorted(step, forecast.schedule.ends)))
    if last < len(step) - 1 or step[-1] > forecast.schedule.ends > step[0]:
        step = np.append(step[:last], min(step[last], max(math.ceil(forecast.schedule.ends), step[last - 1] + 1.0)))
        reward = reward[:, : last + 1]
    return step, reward


def _at(places: np.ndarray, step: np.ndarray, paths: np.ndarray) -> np.ndarray:
    """Paths of shape (draws, h) at places between their steps: linear interpolation, constant beyond the last step."""
    if not len(places) or np.array_equal(places, step):
        return paths[:, : len(places)]
    before = np.clip(np.searchsorted(step, places, side="right") - 1, 0, len(step) - 2)
    share = np.clip((places - step[before]) / (step[before + 1] - step[before]), 0.0, 1.0)
    return (1.0 - share) * paths[:, before] + share * paths[:, before + 1]


def _to_come(checkpoints: Checkpoints, now: float, until: float) -> np.ndarray:
    """Steps of the checkpoints after now."""
    if not np.isfinite(checkpoints.every):
        return np.empty(0)
    first = np.floor(now / checkpoints.every) + 1.0
    return checkpoints.every * np.arange(first, np.floor(until / checkpoints.every) + 1.0)
