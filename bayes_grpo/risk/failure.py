"""P(fails | change of settings), given a run that worked or failed; used by plan, stability, remedies and the report.

A new run is a new draw of its failure threshold (`bayes_grpo.risk.threshold`). The interval is the posterior of the
share of such runs that fail. A measured curvature replaces the learned threshold. Outside the changes of public runs,
in the direction of failure, the interval widens towards 1 with the distance.

The learning rate of the present run informs its threshold: public thresholds lie on the same scale, so a run far below
them has much room.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval, interval, probability_text
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import counted
from bayes_grpo.risk.threshold import (
    SIGNS,
    THRESHOLD_NODES,
    Change,
    failure_probability,
    prior_weight,
    thresholds_at,
    width_of,
)

FAILING_PATH = Path(__file__).with_name("failing.json")
NEAR = math.log(1.5)
"""Pairs that changed the same settings the same way, each within this distance on the scale of `Change`, are near."""
SAME = 0.01
"""Within this distance a change is as far as another."""
DISCREPANCY = 0.35
"""Standard deviation of the log of the threshold over the one from a measured curvature. In simulated training the
exact threshold is right within a few percent for a frozen gradient, and drifts as the policy learns."""
_WORDS = {
    "learning_rate": "learning rate",
    "refresh_interval": "refresh interval",
    "epochs": "epochs of a rollout",
    "group_size": "group size",
    "prompts_per_step": "prompts a step",
    "kl_weight": "KL weight",
    "clip_range": "clip range",
    "full": "LoRA or all weights",
    "undecayed": "schedule",
    "unguarded": "baseline or clipping",
    "unscaled": "normalization of advantages",
}


class LearnedFailures(NamedTuple):
    """What was learned from labelled runs; `benchmarks.lab.learners.failing` makes it.

    Attributes:
        posterior: Parameter of the model → draws, shape (draws,).
        change: Changes between reference runs, shape (cases, settings).
        pairs: Ordered pairs of each, shape (cases,).
        failed: How many of these failed, shape (cases,).
        repository: Repository of each, shape (cases,).
        about: Pairs and failed ones by repository.
    """

    posterior: Mapping[str, np.ndarray]
    change: np.ndarray
    pairs: np.ndarray
    failed: np.ndarray
    repository: np.ndarray
    about: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class FailureRisk(Result):
    """Failure probability of a run.

    Attributes:
        change: What changes.
        p: Probability, mean over the posterior.
        interval: Of the share of such runs that fail, by the posterior.
        near: Ordered pairs of public runs with about this change.
        near_failed: How many of these failed.
        repositories: From how many repositories these come.
        beyond: Settings that no public run moved as far, in words.
        measured: Whether the threshold comes from a measured curvature.
        failed: Whether the present run failed.
        threshold_rates: Learning rates at which full fine-tuning of public runs begins to fail; None where the run's
            own learning rate is unknown.
        draws: P(fails) at each draw of the posterior and of a run's threshold, shape (draws, nodes).
    """

    change: Change
    p: float
    interval: Interval
    near: int
    near_failed: int
    repositories: int
    beyond: tuple[str, ...]
    measured: bool
    failed: bool
    threshold_rates: Interval | None
    draws: np.ndarray

    also_in_json = ("tried",)
    not_in_json = ("change", "failed", "threshold_rates", "draws")

    @property
    def tried(self) -> bool:
        """Whether some public run moved every setting as far."""
        return not self.beyond

    @property
    def text(self) -> str:
        """The probability with its interval, e.g. "P(fails) 0.08 [0.03, 0.17]"."""
        low, high = (probability_text(x) for x in (self.interval.low, self.interval.high))
        return f"P(fails) {probability_text(self.p)} [{low}, {high}]"

    @property
    def evidence(self) -> str:
        """What it rests on, in words."""
        if self.measured:
            return "from the measured curvature of the stiffest direction"
        if self.beyond:
            return f"no public run changed the {' and the '.join(self.beyond)} this far"
        if self.failed:
            text = "from public runs that failed, compared with their reference runs that worked"
        elif self.near:
            where = "repository" if self.repositories == 1 else "repositories"
            what = "about this change" if any(self.change) else "no change of settings"
            text = (
                f"{self.near_failed} of {counted(self.near, 'pair')} of public runs with {what} failed "
                f"({self.repositories} {where})"
            )
        else:
            text = "no public pair of runs tested a change of this size"
        if self.threshold_rates is None:
            return text
        b = self.threshold_rates
        return (
            f"{text}; full fine-tuning began to fail at learning rates of about {b.median:.1g} "
            f"[{b.low:.1g}, {b.high:.1g}], adapters at higher ones"
        )


@cache
def learned_failures() -> LearnedFailures:
    """The learned numbers that come with the package."""
    kept = json.loads(FAILING_PATH.read_text(encoding="utf-8"))
    cases = kept["cases"]
    return LearnedFailures(
        {name: np.array(x) for name, x in kept["posterior"].items()},
        np.array([case["change"] for case in cases], float),
        np.array([case["pairs"] for case in cases], float),
        np.array([case["failed"] for case in cases], float),
        np.array([case["repository"] for case in cases]),
        kept["about"],
    )


def shared_rate(learning_rate: float | None, convention: str | None) -> float | None:
    """A learning rate on the scale that runs share, which is Adam's; None where it has none.

    Args:
        learning_rate: Highest learning rate; None where it is not known.
        convention: "ema" (Adam) or "heavy_ball"; None where it is not known: then it is taken for Adam.
    """
    if (
        learning_rate is None
        or convention == "heavy_ball"
        or not (math.isfinite(learning_rate) and learning_rate > 0.0)
    ):
        return None
    return float(learning_rate)


def failure_risk(
    change: Change,
    *,
    rate: float | None = None,
    worked_changes: Sequence[Change] = (),
    failed_changes: Sequence[Change] = (),
    failed: bool = False,
    margin: np.ndarray | None = None,
    known: LearnedFailures | None = None,
) -> FailureRisk:
    """Failure probability of a run, given that the present run worked or failed.

    Args:
        change: From the settings of the present run to those of the next run.
        rate: Highest learning rate of the present run, on the scale that runs share (`shared_rate`); None if unknown.
        worked_changes: Changes from the present run to other runs that worked; they bound the threshold from below.
        failed_changes: Changes from the present run to other runs that failed; they bound the threshold from above.
        failed: Whether the present run failed. It then lies as far above its threshold as the public runs that
            failed, relative to their reference runs that worked.
        margin: Draws of the largest stable gain over the gain at the next settings, by a measured curvature of the
            stiffest direction; replaces the threshold learned from public runs.
        known: Learned model; None for the one of the package.
    """
    learned = known or learned_failures()
    if margin is not None:
        p = _by_margin(np.asarray(margin, float), learned)
    elif failed:
        p = _after_failure(change, rate, learned)
    else:
        p = _by_others(
            change, _picked(_gaps(learned), _weights(rate, worked_changes, failed_changes, learned)), learned
        )
    beyond = () if margin is not None or failed else tuple(_WORDS[k] for k in _farther(change, learned))
    mean = p.mean(axis=-1)
    near = _near(change, learned)
    return FailureRisk(
        change=change,
        p=float(p.mean()),
        interval=interval(mean, LEVEL),
        near=round(float(learned.pairs[near].sum())),
        near_failed=round(float(learned.failed[near].sum())),
        repositories=len(set(learned.repository[near])),
        beyond=beyond,
        measured=margin is not None,
        failed=failed and margin is None,
        threshold_rates=None if rate is None or margin is not None else _rates_of_others(learned),
        draws=p,
    )


def effects(change: Change, known: LearnedFailures) -> np.ndarray:
    """What every setting adds to the severity at each draw, e-folds, the learning rate's first: (draws, settings)."""
    q = known.posterior
    parts = []
    for name, x in change._asdict().items():
        weight = np.ones_like(q["base"]) if name == "learning_rate" else q[name]
        sign = -1.0 if getattr(SIGNS, name) < 0.0 else 1.0
        parts.append(sign * weight * x)
    return np.stack(parts, axis=-1)


def _at(change: Change, known: LearnedFailures, gaps: np.ndarray | None = None) -> np.ndarray:
    """P(fails) at each draw and threshold, shape (draws, nodes); at the learned thresholds if none are given."""
    q, part = known.posterior, effects(change, known)
    width = width_of(part, q["sharpness"], q["looseness"])
    return failure_probability(
        _gaps(known) if gaps is None else gaps, part.sum(axis=-1)[:, None], width[:, None], q["base"][:, None]
    )


def _weights(
    rate: float | None, worked_changes: Sequence[Change], failed_changes: Sequence[Change], known: LearnedFailures
) -> np.ndarray | None:
    """Weights of the thresholds at each draw, shape (draws, nodes); None where all are equally likely."""
    if rate is None and not worked_changes and not failed_changes:
        return None
    # A threshold at which a run that worked would have failed is as improbable as that; and one at which it would not.
    weight = _by_rate(rate, known) * np.prod([1.0 - _at(other, known) for other in worked_changes], axis=0)
    weight = weight * np.prod([_at(other, known) for other in failed_changes], axis=0)
    return weight / weight.sum(axis=-1, keepdims=True)


def _by_rate(rate: float | None, known: LearnedFailures) -> np.ndarray:
    """Weights of the thresholds above a run by its learning rate, shape (draws, nodes)."""
    q, gap = known.posterior, _gaps(known)
    if rate is None:
        return np.ones_like(gap)
    scale, scatter = q["scale"][:, None], q["scatter"][:, None]
    own, adapter = (prior_weight(gap, math.log(rate), x, scatter) for x in (scale, scale + q["full"][:, None]))
    return 0.5 * (own + adapter)  # no log says whether a run trains all weights or an adapter


def _rates_of_others(known: LearnedFailures) -> Interval:
    """Learning rates at which full fine-tuning begins to fail: spread over runs, with the posterior uncertainty."""
    q = known.posterior
    return interval(np.exp(q["scale"][:, None] + q["scatter"][:, None] * THRESHOLD_NODES).ravel(), LEVEL)


def _gaps(known: LearnedFailures) -> np.ndarray:
    """Thresholds of runs in e-folds, shape (draws, nodes)."""
    return thresholds_at(known.posterior["centre"], known.posterior["spread"])


def _picked(values: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Values at thresholds that are equally likely, by the weights of those given, shape (draws, nodes)."""
    if weight is None:
        return values
    picks = (np.arange(values.shape[-1]) + 0.5) / values.shape[-1]
    place = (np.cumsum(weight, axis=-1)[:, :, None] < picks).sum(axis=1).clip(max=values.shape[-1] - 1)
    return np.take_along_axis(values, place, axis=-1)


def _by_others(change: Change, gaps: np.ndarray, known: LearnedFailures) -> np.ndarray:
    p = _at(change, known, gaps)
    # Only what moves towards failure, or whose direction is unknown, widens the answer.
    far = sum(x for k, x in _farther(change, known).items() if getattr(SIGNS, k) * getattr(change, k) >= 0.0)
    if far > 0.0:
        spread = (np.arange(len(p)) + 0.5) / len(p)
        p = p + (1.0 - math.exp(-far)) * np.random.default_rng(0).permutation(spread)[:, None] * (1.0 - p)
    return p


def _by_margin(margin: np.ndarray, known: LearnedFailures) -> np.ndarray:
    """P(fails) for a threshold known up to its measurement error, shape (draws, margins)."""
    q = known.posterior
    picks = np.quantile(np.log(margin), (np.arange(25) + 0.5) / 25.0)
    width = np.hypot(q["sharpness"], DISCREPANCY)[:, None]
    return failure_probability(picks[None, :], 0.0, width, q["base"][:, None])


def _near(change: Change, known: LearnedFailures) -> np.ndarray:
    own = np.array(change)
    alike = np.sign(np.where(np.abs(known.change) > SAME, known.change, 0.0)) == np.sign(own)
    return (alike & (np.abs(known.change - own) <= NEAR)).all(axis=-1)


def _after_failure(change: Change, rate: float | None, known: LearnedFailures) -> np.ndarray:
    """P(fails) where the present run failed, shape (draws, 1): averaged over public runs that failed."""
    ways = np.flatnonzero(known.failed)
    _, place = np.unique(known.repository[ways], return_inverse=True)
    share = known.failed[ways] / np.bincount(place, known.failed[ways])[place]
    both, first = 0.0, 0.0
    for way, weight in zip(known.change[ways], share, strict=True):
        start = None if rate is None else rate / math.exp(way[0])
        then = weight * _by_rate(start, known) * _at(Change(*way), known)
        both = both + (then * _at(Change(*(way + np.array(change))), known)).sum(axis=-1)
        first = first + then.sum(axis=-1)
    return np.asarray(both / first)[:, None]


def _farther(change: Change, known: LearnedFailures) -> dict[str, float]:
    """Settings that no public run moved as far in that direction, and by how many e-folds."""
    out = {}
    for i, (name, x) in enumerate(change._asdict().items()):
        more = abs(x) - float((np.sign(x) * known.change[:, i]).max(initial=0.0))
        if x != 0.0 and more > SAME:
            out[name] = more
    return out
