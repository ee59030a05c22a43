"""Parts of a reward: its reward functions or environments, each with its trend, its share of the gain, and its fall.

    share of part i in the gain of the mean = w_i Δr_i / Σ_j w_j Δr_j

The weights are those with which the logged parts add up to the logged reward (`weights_of`), where they do;
otherwise every part keeps its own unit, and there is no share. Every Δr_i is the change of the part's trend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.intervals import Interval, interval, span_text
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends, last_near_best
from bayes_grpo.logs.reward_key import adding_weights
from bayes_grpo.logs.run import Run

FUNCTION, ENVIRONMENT = "reward function", "environment"
"""Kinds of parts."""


@dataclass(frozen=True, eq=False)
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
        falls_since: Last step near its best, where it has fallen since (`Logged.loss`); None where it has not.
        change: Draws of what its change adds, or of its change where the parts do not add up, shape (draws,).
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
    change: np.ndarray

    not_in_json = ("change",)


def weights_of(run: Run, parts: Mapping[str, np.ndarray], of_mean: bool = False) -> dict[str, float]:
    """Weights with which parts add up to the reward; empty where they do not.

    Args:
        run: The run.
        parts: Reward functions or environments, on its steps.
        of_mean: Whether the reward is a mean over them. It has as many completions of each as were drawn for a row, so
            that its weights are estimated.
    """
    known = np.isfinite(run.reward) & np.all([np.isfinite(x) for x in parts.values()], axis=0)
    found = adding_weights(run.reward[known], {name: x[known] for name, x in parts.items()})
    if found or not of_mean or not known.any():
        return found
    weights = np.linalg.lstsq(np.stack([x[known] for x in parts.values()], axis=1), run.reward[known], rcond=1e-8)[0]
    one = bool(np.all(weights >= 0.0)) and abs(float(weights.sum()) - 1.0) < THRESHOLDS.whole
    return dict(zip(parts, weights.tolist(), strict=True)) if one else {}


def parts_of(trends: RunTrends) -> tuple[PartTrend, ...]:
    """The parts of a run's reward, the largest contribution first; empty where fewer than two were logged."""
    out: list[PartTrend] = []
    run = trends.run
    for kind, found, logged in (
        (FUNCTION, trends.components, run.components),
        (ENVIRONMENT, trends.environments, run.environments),
    ):
        if len(found) < 2:
            continue
        rewards = np.isfinite(run.reward)
        full = (rewards & np.all([np.isfinite(x) for x in logged.values()], axis=0)).sum()
        enough = run.has_reward and full >= THRESHOLDS.all_parts * rewards.sum()
        weights = weights_of(run, logged, of_mean=kind == ENVIRONMENT) if enough else {}
        changes = {name: (weights.get(name, 0.0) if weights else 1.0) * x.change() for name, x in found.items()}
        whole = np.sum(list(changes.values()), axis=0)
        gain, least = interval(whole), THRESHOLDS.clear_gain * trends.reward.noise_sd
        clear = bool(weights) and gain.low * gain.high > 0.0 and abs(gain.median) > least
        for name, trend in found.items():
            y, change = trend.logged, changes[name]
            constant = bool(np.ptp(y.value) == 0.0)
            part = PartTrend(
                name=name,
                kind=kind,
                first_step=float(y.step[0]),
                before=interval(y.value[0] if constant else trend.draws[:, 0]),
                now=interval(y.value[0] if constant else trend.draws[:, -1]),
                p_rises=np.nan if constant else float(np.mean(trend.change() > 0.0)),
                adds=interval(change if weights else np.nan),
                share=interval(change / whole if clear else np.nan),
                falls_since=last_near_best(trend, float(trend.step[-1])) if y.loss() > 1.0 else None,
                change=change,
            )
            out.append(part)
    return tuple(sorted(out, key=lambda part: -abs(float(np.mean(part.change)))))


def rise_and_fall(parts: Sequence[PartTrend]) -> tuple[PartTrend | None, PartTrend | None]:
    """The reward functions that rose and fell most; None for each where none did, or by little of the largest."""
    found = _material(parts)
    rises = next((p for p in found if interval(p.change).low > 0.0), None)
    return rises, next((p for p in found if interval(p.change).high < 0.0), None)


def _material(parts: Sequence[PartTrend]) -> list[PartTrend]:
    """Reward functions whose change counts next to the largest one, the largest first."""
    size = {p.name: abs(float(np.median(p.change))) for p in parts if p.kind == FUNCTION}
    found = [p for p in parts if p.kind == FUNCTION and size[p.name] >= THRESHOLDS.material_part * max(size.values())]
    return sorted(found, key=lambda p: -size[p.name])


def functions_text(parts: Sequence[PartTrend], level: bool = True) -> str:
    """Which reward function rises, which one falls, and how much of the rise is lost; "" where none moves."""
    rises, falls = rise_and_fall(parts)
    names = [plain(p.name, 40) for p in (rises, falls) if p is not None]
    if rises is not None and falls is not None:
        back = interval(np.clip(-falls.change / np.maximum(rises.change, 1e-12), 0.0, THRESHOLDS.taken_back_most))
        lost = f"{span_text(back, '.0%', level=False)} of that rise"
        if back.median >= THRESHOLDS.taken_back_most:
            lost = f"more than that rise, by a factor of {back.median:.2g} or more"
        elif back.median > 1.0:
            lost = f"more than that rise, by a factor of {span_text(back, level=False)}"
        gain, loss = span_text(rises.change, "+.3g", level=level), span_text(falls.change, "+.3g", level=False)
        return f"of the reward functions, {names[0]} adds {gain} and {names[1]} {loss}, which offsets {lost}"
    one = rises or falls
    if one is None:
        return ""
    how = f"{'rises' if one is rises else 'falls'} {'alone' if len(_material(parts)) == 1 else 'most'}"
    count = sum(p.kind == FUNCTION for p in parts)
    return f"of {count} reward functions, {names[0]} {how}, by {span_text(one.change, '+.3g', level=level)}"
