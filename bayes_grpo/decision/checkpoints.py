"""Checkpoints of a run, and the value of a stop where it keeps them: that of the picked one, not of the last policy.

The path of the rows gives draws of the reward at every checkpoint. Where checkpoints are evaluated, the target is the
evaluation reward,

    evaluation reward = reward of the rows + gap,   score = evaluation reward + noise of so many completions,

The gap is a random walk with an unknown start and a strength on a grid, weighted by the scores. It stays constant where
train and evaluation reward move together, and follows their divergence. Draws follow by conditioning, as for a path
(`bayes_grpo.signals.path`). The best of many noisy scores is too high by chance (the winner's curse; Andrews,
Kitagawa and McCloskey 2024, https://doi.org/10.1093/qje/qjad043); the posterior mean of the picked checkpoint is not.

    N(s) = V (R(picked of those up to s) - R(picked of those up to now)) - C (s - now)

Paths of the forecast and draws of past checkpoints are joined by rank of the present reward. Past checkpoints are
picked by their posterior mean. Future checkpoints are picked by their reward plus an error of the same size as the
posterior error of past ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_grpo.common.document import ranged
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import Interval, interval, percent
from bayes_grpo.common.results import Result
from bayes_grpo.rows.reward_range import span_of
from bayes_grpo.signals.path import SignalPath, fit_path

if TYPE_CHECKING:
    from bayes_grpo.forecasting.forecast import Forecast

GAP_WALKS = (0.0, 0.03, 0.1, 0.3, 1.0)
"""Strengths of the walk tried: its standard deviation over the log, in ranges of the rows."""
_GAP_PRIOR = (0.3, 0.25, 0.2, 0.15, 0.1)


class Checkpoints(NamedTuple):
    """Checkpoints that a run can return to, in addition to the policy at the stop.

    Attributes:
        saved: Steps of the saved checkpoints, shape (k,), increasing.
        every: Steps between future checkpoints; infinite without any.
        scored: Evaluated steps, shape (e,).
        score: Evaluation reward at these steps, shape (e,).
        noise: Standard deviation of a score, reward; NaN to estimate it from the scores.
    """

    saved: np.ndarray
    every: float = np.inf
    scored: np.ndarray = np.empty(0)
    score: np.ndarray = np.empty(0)
    noise: float = np.nan

    def checked(self, now: float) -> Checkpoints:
        """The same with those up to a step alone."""
        if not self.every > 0.0:
            raise SettingError(f"expected a number of steps above 0, found {self.every:g}", parameter="checkpoints")
        saved = np.unique(np.asarray(self.saved, float))
        scored = np.asarray(self.scored, float)
        there = np.isfinite(self.score) & (scored <= now)
        return self._replace(
            saved=saved[saved <= now], scored=scored[there], score=np.asarray(self.score, float)[there]
        )


@dataclass(frozen=True)
class Choice(Result):
    """The checkpoint to take; the present policy is a candidate.

    Attributes:
        step: Its step.
        reward: Its reward: of the evaluation where one is logged there.
        probability: Probability that it is the best.
        ahead: Its reward minus that of the present policy.
        optimism: Expected excess of the best score over its reward; NaN without scores.
        best_score_step: Step of the best score; NaN without scores.
    """

    step: float
    reward: Interval
    probability: float
    ahead: Interval
    optimism: float
    best_score_step: float

    also_in_json = ("sentence",)

    @property
    def sentence(self) -> str:
        """Which to take, in words."""
        r = self.reward
        text = (
            f"Take the checkpoint of step {self.step:g}: reward {ranged(r)} "
            f"({r.level:.0%}), the best so far with a chance of {percent(self.probability)}"
        )
        if self.optimism > 0.0:
            text += (
                f"; the best score, at step {self.best_score_step:g}, is expected to be {self.optimism:.2g} too high "
                "by chance"
            )
        return f"{text}."


class CheckpointRewards(NamedTuple):
    """Posterior of the rewards of the checkpoints.

    Attributes:
        step: Their steps and the present one, shape (k + 1,).
        draws: Their rewards, on the scale of the rows at the present step, shape (draws, k + 1).
        gap: Evaluation minus train reward at the present step, shape (draws,); 0 without scores.
    """

    step: np.ndarray
    draws: np.ndarray
    gap: np.ndarray

    def choice(self, checkpoints: Checkpoints) -> Choice:
        """The checkpoint of the highest expected reward; of several as good ones the earliest."""
        mean = self.draws.mean(axis=0)
        best = np.bincount(np.argmax(self.draws, axis=1), minlength=len(mean)) / len(self.draws)
        chosen = int(np.argmax(mean))
        evaluation = self.draws + self.gap[:, None]
        scores, optimism, top = checkpoints.score, np.nan, np.nan
        among = np.isin(checkpoints.scored, self.step)
        if among.any():
            place = int(np.flatnonzero(among)[np.argmax(scores[among])])
            top = float(checkpoints.scored[place])
            optimism = float(scores[place] - evaluation[:, self.step == top].mean())
        return Choice(
            float(self.step[chosen]),
            interval(evaluation[:, chosen]),
            float(best[chosen]),
            interval(self.draws[:, chosen] - self.draws[:, -1]),
            optimism,
            top,
        )


def checkpoint_rewards(
    path: SignalPath, checkpoints: Checkpoints, now: float, lag: float = 0.0, seed: int = 0
) -> CheckpointRewards:
    """Draws of the reward at every checkpoint and ``now``, given scores and rows of policies ``lag`` steps older."""
    step = np.unique(np.append(checkpoints.saved, now))
    reward = path.at(step + lag)
    if not len(checkpoints.scored):
        return CheckpointRewards(step, reward, np.zeros(len(reward)))
    rng = np.random.default_rng(seed)
    places = np.concatenate([step, checkpoints.scored])
    rows = np.concatenate([reward, path.at(checkpoints.scored + lag)], axis=1)
    span = span_of(path.value)
    y = checkpoints.score
    noise = _variance(checkpoints)
    k = len(step)
    scale = max(now - float(path.step[0]), 1.0)
    of_rows = np.cov(rows.T)
    start = (2.0 * span + abs(float(y.mean() - rows[:, k:].mean()))) ** 2
    t = np.maximum(places - path.step[0], 0.0) / scale
    gaps = [start + (walk * span) ** 2 * np.minimum(t[:, None], t) for walk in GAP_WALKS]
    residual = y - rows[:, k:].mean(axis=0)
    of_scores = [(of_rows + g)[k:, k:] + noise * np.eye(len(y)) for g in gaps]
    log = np.log(_GAP_PRIOR) + np.array([_log_density(residual, c) for c in of_scores])
    share = np.exp(log - log.max())
    counts = rng.multinomial(len(rows), share / share.sum())
    gap = np.empty_like(rows)
    rest = rows.copy()
    parts = np.split(rng.permutation(len(rows)), np.cumsum(counts)[:-1])
    for g, c, picks in zip(gaps, of_scores, parts, strict=True):
        if not len(picks):
            continue
        root = np.linalg.cholesky(g + 1e-9 * start * np.eye(len(places)))
        before = rng.standard_normal((len(picks), len(places))) @ root.T
        shown = rows[picks, k:] + before[:, k:] + np.sqrt(noise) * rng.standard_normal((len(picks), len(y)))
        weight = np.linalg.solve(c, (y - shown).T)
        rest[picks] += (of_rows[:, k:] @ weight).T
        gap[picks] = before + (g[:, k:] @ weight).T
    evaluation = (rest + gap)[:, :k]
    at_now = gap[:, k - 1]
    return CheckpointRewards(step, evaluation - at_now[:, None], at_now)


def _variance(checkpoints: Checkpoints) -> float:
    """Variance of a score; where it is unknown, half the squared step from score to score, which is robust."""
    if np.isfinite(checkpoints.noise):
        return max(checkpoints.noise**2, 1e-12)
    steps = np.diff(checkpoints.score)
    return max(0.5 * float(np.median(steps**2)) / 0.455, 1e-8) if len(steps) else 1e-4


def _log_density(residual: np.ndarray, covariance: np.ndarray) -> float:
    return float(-0.5 * (residual @ np.linalg.solve(covariance, residual) + np.linalg.slogdet(covariance)[1]))


def recalled(forecast: Forecast, checkpoints: Checkpoints) -> tuple[np.ndarray, np.ndarray, Choice]:
    """The checkpoint picked at every stopping step of a forecast.

    Returns:
        Stopping steps, the first of them now, shape (1 + h,); reward of the picked checkpoint at each, shape
        (draws, 1 + h); and the checkpoint to take now.
    """
    now = float(forecast.now)
    saved = checkpoints.checked(now)
    step, reward = rewards_at_stops(forecast)
    path = fit_path(forecast.logged_step, forecast.logged, seed=1)
    if path is None:
        raise SettingError("checkpoints: too few rows to rank them; wait for more steps")
    rng = np.random.default_rng(0)
    past_rewards = checkpoint_rewards(path, saved, now, forecast.lag)
    choice = past_rewards.choice(saved)
    # The highest draws of the present go with the highest of the past.
    ranks = np.argsort(np.argsort(reward[:, 0], kind="stable"), kind="stable")
    order = np.argsort(past_rewards.draws[:, -1], kind="stable")
    past = past_rewards.draws[order[ranks * len(order) // len(ranks)]]
    known = past_rewards.draws.mean(axis=0)
    error = float(np.sqrt(past_rewards.draws.var(axis=0).mean()))
    best = int(np.argmax(known))
    out = np.empty_like(reward)
    out[:, 0] = past[:, best]
    picked = top = np.full(len(reward), -np.inf)
    if len(known) > 1:  # going on keeps no present policy
        earlier = int(np.argmax(known[:-1]))
        picked = past[:, earlier]
        top = np.full(len(reward), known[earlier])
    to_come = _future_steps(saved, now, float(step[-1]))
    each = _at(to_come, step, reward)
    shown = each + error * rng.standard_normal(each.shape)
    at_stop = reward + error * rng.standard_normal(reward.shape)
    done = 0
    for j in range(1, len(step)):
        while done < len(to_come) and to_come[done] < step[j]:
            better = shown[:, done] > top
            picked = np.where(better, each[:, done], picked)
            top = np.where(better, shown[:, done], top)
            done += 1
        keeps_last = at_stop[:, j] > top
        out[:, j] = np.where(keeps_last, reward[:, j], picked)
    return step, out, choice


def rewards_at_stops(forecast: Forecast) -> tuple[np.ndarray, np.ndarray]:
    """Stopping steps, the first of them now, shape (1 + h,), and the reward of every finite draw, shape (draws, 1 + h).

    A stop keeps the policy of that step. Logged rows describe older policies, so its reward is that of the rows a
    `Forecast.lag` later. Beyond the horizon the reward stays constant. Where the learning rate reaches zero before the
    horizon, that step is the last one, because later stops gain nothing.
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


def _future_steps(checkpoints: Checkpoints, now: float, until: float) -> np.ndarray:
    """Steps of the checkpoints after now."""
    if not np.isfinite(checkpoints.every):
        return np.empty(0)
    first = np.floor(now / checkpoints.every) + 1.0
    return checkpoints.every * np.arange(first, np.floor(until / checkpoints.every) + 1.0)
