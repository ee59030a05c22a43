"""Parts of a reward: its reward functions or environments, each with its trend, its share of the gain, and its fall.

    share of part i in the gain of the mean = w_i Δr_i / Σ_j w_j Δr_j

The weights are those with which the logged parts add up to the logged reward, where they do; otherwise the reward
functions count 1 each, and there is no share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.fallen import last_near_best
from bayes_grpo.diagnosis.rows import Logged
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.rollouts.parts import adding_weights


@dataclass(frozen=True)
class PartTrend(Result):
    """One reward function or environment.

    Attributes:
        name: Its name in the log.
        kind: "reward function" or "environment".
        first_step: Step of its first value: a part may appear late.
        before: Its trend at its first value.
        now: Its trend at its last value.
        p_rises: Probability that it rises; NaN where it is constant.
        adds: What its change adds to the reward; NaN where the parts do not add up to it.
        share: Share of the gain of the reward; NaN where the reward has no clear gain or the parts do not add up to it.
        falls_since: Last step near its best, where it has fallen since; None where it has not.
    """

    name: str
    kind: str
    first_step: float
    before: Interval
    now: Interval
    p_rises: float
    adds: Interval
    share: Interval
    falls_since: float | None


def parts_of(trends: RunTrends) -> tuple[PartTrend, ...]:
    """The parts of a run's reward, the largest contribution first; empty where fewer than two were logged."""
    out: list[tuple[float, PartTrend]] = []
    for kind, found, logged in (
        ("reward function", trends.components, trends.run.components),
        ("environment", trends.environments, trends.run.environments),
    ):
        if len(found) < 2:
            continue
        weights = _weights(trends, logged, of_mean=kind == "environment")
        added = {name: weights.get(name, 0.0) * trend.change() for name, trend in found.items()}
        whole = np.sum(list(added.values()), axis=0) if weights else np.zeros(1)
        gain = interval(whole)
        clear = bool(weights) and gain.low * gain.high > 0.0 and abs(gain.median) > trends.reward.noise_sd * 0.5
        for name, trend in found.items():
            share = interval(added[name] / whole) if clear else Interval(np.nan, np.nan, np.nan, LEVEL)
            size = added[name] if weights else trend.change()
            adds = interval(added[name] if weights else np.nan)
            out.append((-abs(float(np.mean(size))), _part(name, kind, trend, adds, share)))
    return tuple(part for _, part in sorted(out, key=lambda x: x[0]))


def _part(name: str, kind: str, trend: Trend, adds: Interval, share: Interval) -> PartTrend:
    change, constant = trend.change(), bool(np.ptp(trend.raw) == 0.0)
    before, now = (np.full(1, trend.raw[0]) if constant else trend.draws[:, i] for i in (0, -1))
    return PartTrend(
        name=name,
        kind=kind,
        first_step=float(trend.raw_step[0]),
        before=interval(before),
        now=interval(now),
        p_rises=float("nan") if constant else float(np.mean(change > 0.0)),
        adds=adds,
        share=share,
        falls_since=fall_of(trend),
    )


def fall_of(trend: Trend) -> float | None:
    """Last step near the best of a part that has fallen since by more than the noise of its means; None without."""
    y = Logged(trend.raw_step, trend.raw)
    if y.rows < THRESHOLDS.trend_rows or y.since_best < THRESHOLDS.least_rows:
        return None
    best = int(trend.mean.argmax())
    surely = np.mean(trend.draws[:, -1] < trend.draws[:, best]) >= THRESHOLDS.sure
    fell = surely and y.best - y.now >= THRESHOLDS.fall_errors * y.error
    return last_near_best(trend, float(trend.step[-1])) if fell else None


def _weights(trends: RunTrends, logged: Mapping[str, np.ndarray], of_mean: bool) -> dict[str, float]:
    """Weights with which parts add up to the reward; empty where they do not, or some are missing in many rows.

    A mean over environments has as many completions of each as were drawn for a row, so its weights are estimated.
    """
    run = trends.run
    known = np.isfinite(run.reward) & np.all([np.isfinite(x) for x in logged.values()], axis=0)
    if trends.uses_eval or known.sum() < THRESHOLDS.all_parts * np.isfinite(run.reward).sum():
        return {}
    found = adding_weights(run.reward[known], {name: x[known] for name, x in logged.items()})
    if found or not of_mean:
        return found
    weights = np.linalg.lstsq(np.stack([x[known] for x in logged.values()], axis=1), run.reward[known], rcond=1e-8)[0]
    one = bool(np.all(weights >= 0.0)) and abs(float(weights.sum()) - 1.0) < THRESHOLDS.whole
    return dict(zip(logged, weights.tolist(), strict=True)) if one else {}
