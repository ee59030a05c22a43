"""Outcomes of public runs that changed one setting: counts, and P(fails) by the learning rate.

A pair is a run that worked and another run of the same repository, task and model that differs in one setting alone.
P(fails) of a changed learning rate is a logistic regression,

    logit P(fails) = a + b log(η'/η) + c log(η/η₀) + u,    u ~ Normal(0, σ²) for a new repository,

with a normal posterior of (a, b, c). It holds for Adam, whose step has no scale. All failures come from two
repositories that train one model on one exercise. `benchmarks/lab/learners/outcomes.py` makes the numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import expit

ChangedSetting = Literal["learning_rate", "refresh_interval", "group_size", "prompts_per_step"]
SETTINGS: tuple[ChangedSetting, ...] = get_args(ChangedSetting)
"""Settings whose changes are counted."""
OUTCOMES_PATH = Path(__file__).with_name("outcomes.json")
SIMILAR_CHANGE = math.log(1.5)
"""Pairs whose ratio lies within this distance of another one, e-folds, count as about the same change."""


class FailureRegression(NamedTuple):
    """P(fails) of a changed learning rate.

    Attributes:
        mean: Posterior means of a (logits), b and c (logits an e-fold).
        covariance: Their posterior covariance, shape (3, 3).
        repository_sd: σ, logits.
        reference_rate: η₀.
        rates: Least and largest learning rate of the public runs that worked; it says nothing outside.
    """

    mean: Sequence[float]
    covariance: Sequence[Sequence[float]]
    repository_sd: float
    reference_rate: float
    rates: Sequence[float]

    def probability(self, ratio: float, learning_rate: float) -> float:
        """P(fails) in a new repository at a new over a present learning rate, which worked."""
        x = np.array([1.0, math.log(ratio), math.log(learning_rate / self.reference_rate)])
        variance = float(x @ np.array(self.covariance) @ x) + self.repository_sd**2
        return float(expit(x @ np.array(self.mean) / math.sqrt(1.0 + math.pi * variance / 8.0)))


class OtherRuns(NamedTuple):
    """Public runs that changed one setting by about the same ratio, from a run that worked.

    Attributes:
        setting: The setting that changed alone.
        ratio: New value over old value.
        pairs: Pairs of runs with about this change.
        failed: How many of the changed runs failed.
        repositories: Repositories of these pairs.
        p_fails: Probability that a run with this change fails, by the regression; NaN for other settings than the
            learning rate and where the present one is unknown, not Adam's or outside those of public runs.
        planned: Whether this is a planned change.
    """

    setting: ChangedSetting
    ratio: float
    pairs: int
    failed: int
    repositories: int
    p_fails: float
    planned: bool


def outcomes_of_similar_changes(
    setting: ChangedSetting, ratio: float, learning_rate: float = math.nan, planned: bool = False
) -> OtherRuns:
    """Counts of public pairs with about the same change of one setting, and P(fails) of a changed learning rate.

    ``learning_rate`` is the present highest one under Adam; NaN where it is unknown or of another optimizer.
    """
    cases = _outcomes()["cases"][setting]  # ratio, pairs, failed, repository
    near = [case for case in cases if _is_similar_change(math.log(case[0]), math.log(ratio))]
    regression = failure_regression()
    known = setting == "learning_rate" and regression.rates[0] <= learning_rate <= regression.rates[1]
    return OtherRuns(
        setting=setting,
        ratio=float(ratio),
        pairs=sum(pairs for _, pairs, _, _ in near),
        failed=sum(failed for _, _, failed, _ in near),
        repositories=len({repository for *_, repository in near}),
        p_fails=regression.probability(ratio, learning_rate) if known else math.nan,
        planned=planned,
    )


@cache
def failure_regression() -> FailureRegression:
    """The regression that comes with the package."""
    return FailureRegression(**_outcomes()["regression"])


def _is_similar_change(one: float, other: float) -> bool:
    """True if two logarithms of ratios are about the same change: same direction and near."""
    return abs(one - other) <= SIMILAR_CHANGE and one * other > 0.0


@cache
def _outcomes() -> dict[str, Any]:
    return json.loads(OUTCOMES_PATH.read_text(encoding="utf-8"))
