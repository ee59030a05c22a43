"""Parts of a reward: its reward functions or environments, each with its path, its share of the gain, and its fall.

    share of part i in the gain of the mean = w_i Δr_i / Σ_j w_j Δr_j

The weights are those with which the logged parts add up to the logged reward (`weights_of`), where they do;
otherwise every part keeps its own unit, and there is no share. Every Δr_i is the change of the part's path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.results import Result
from bayes_grpo.logs.reward_parts import adding_weights
from bayes_grpo.logs.run import Run
from bayes_grpo.signals.path import SignalPath
from bayes_grpo.signals.run_paths import RunPaths
from bayes_grpo.signals.thresholds import THRESHOLDS

_COMPLETE = 0.9
"""Share of the rows in which all parts have values, before they have shares of the gain."""
_ONE = 0.05
"""Tolerance of the sum of estimated weights of environments about 1."""


@dataclass(frozen=True, eq=False)
class PartTrend(Result):
    """One reward function or environment.

    Attributes:
        name: Its name in the log.
        kind: "reward function" or "environment".
        first_step: Step of its first value: a part may appear late.
        before: Its first level.
        now: Its last level.
        p_rises: Probability that it rises; NaN where it is constant.
        adds: What its change adds to the reward; NaN where the parts do not add up to it.
        share: Share of the gain of the reward; NaN where the reward has no clear gain or the parts do not add up to it.
        falls_since: Last step of its best level, where it has lost 30% of that since; None elsewhere.
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
    one = bool(np.all(weights >= 0.0)) and abs(float(weights.sum()) - 1.0) < _ONE
    return dict(zip(parts, weights.tolist(), strict=True)) if one else {}


def parts_of(paths: RunPaths) -> tuple[PartTrend, ...]:
    """The parts of a run's reward, the largest contribution first; empty where fewer than two were logged."""
    run = paths.run
    found = (
        *_kind_of_parts(paths, "reward function", paths.components, run.components),
        *_kind_of_parts(paths, "environment", paths.environments, run.environments),
    )
    return tuple(sorted(found, key=lambda part: -abs(float(np.mean(part.change)))))


def _kind_of_parts(
    paths: RunPaths, kind: str, found: Mapping[str, SignalPath], logged: Mapping[str, np.ndarray]
) -> Iterator[PartTrend]:
    """Parts of one kind; none where fewer than two were logged."""
    if len(found) < 2:
        return
    run = paths.run
    rewards = np.isfinite(run.reward)
    full = (rewards & np.all([np.isfinite(x) for x in logged.values()], axis=0)).sum()
    enough = run.has_reward and full >= _COMPLETE * rewards.sum()
    weights = weights_of(run, logged, of_mean=kind == "environment") if enough else {}
    changes = {name: (weights.get(name, 0.0) if weights else 1.0) * path.change() for name, path in found.items()}
    total = np.sum(list(changes.values()), axis=0)
    gain = interval(total)
    clear = bool(weights) and gain.low * gain.high > 0.0 and abs(gain.median) > THRESHOLDS.half * paths.reward.noise
    for name, path in found.items():
        change = changes[name]
        fell = float(path.fell(THRESHOLDS.turned)[:, -1].mean()) >= THRESHOLDS.probable
        yield PartTrend(
            name=name,
            kind=kind,
            first_step=float(path.logged.step[0]),
            before=interval(path.start),
            now=interval(path.now),
            p_rises=np.nan if path.logged.constant else float(np.mean(path.change() > 0.0)),
            adds=interval(change if weights else np.nan),
            share=interval(change / total if clear else np.nan),
            falls_since=path.best_step if fell else None,
            change=change,
        )
