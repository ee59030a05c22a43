"""Learns `bayes_grpo/planning/outcomes.json`: what happened to public runs that changed one setting.

    python -m benchmarks.lab.learners.outcomes --index runs/index.csv runs/more/index.csv

A pair is a run that worked and another run of the same repository, task and model. Pairs that differ in one setting
alone are counted by the ratio of that setting. Over pairs that differ in the learning rate alone, P(fails) is a
logistic regression on the logarithm of the ratio and on that of the first learning rate, with a random intercept for
each repository. It is scored on repositories that were left out.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from bayes_grpo.common.files import atomic_write
from bayes_grpo.planning.outcomes import OUTCOMES_PATH, SETTINGS, FailureRegression
from benchmarks.common import keep
from benchmarks.lab.learners.siblings import SiblingPair, sibling_pairs, siblings_in

REFERENCE_RATE = 1e-5
PRIOR_SD = (3.0, 2.0, 2.0)
"""Prior standard deviations of intercept and slopes, logits and logits an e-fold."""
REPOSITORY_SD = 2.0
"""Standard deviation of the intercepts of repositories, logits. Failures come from too few of them to learn it."""
OTHER_SDS = (0.5, 1.0, 3.0)
"""Other values at which the score is computed."""


class RatePairs(NamedTuple):
    """Pairs that changed the learning rate alone.

    Attributes:
        design: 1, log of the ratio and log of the first rate over `REFERENCE_RATE`, shape (pairs, 3).
        failed: Whether the other run failed, shape (pairs,).
        repository: Repository of each, shape (pairs,).
    """

    design: np.ndarray
    failed: np.ndarray
    repository: np.ndarray

    def chosen(self, where: np.ndarray) -> RatePairs:
        """Some of the pairs."""
        return RatePairs(self.design[where], self.failed[where], self.repository[where])


def setting_changed(pair: SiblingPair) -> str | None:
    """The setting in which a pair differs alone; passes over the same completions go with the refresh interval."""
    names = pair.changed
    if "refresh_interval" in names:
        names -= {"epochs"}
    alone = next(iter(names)) if len(names) == 1 else ""
    return alone if alone in SETTINGS else None


def ratio_of(pair: SiblingPair, name: str) -> float:
    """Other value of a setting over the first one."""
    return pair.other.settings[name] / pair.worked.settings[name]


def rate_pairs(pairs: Sequence[SiblingPair]) -> RatePairs:
    """The pairs that changed the learning rate alone."""
    some = [pair for pair in pairs if setting_changed(pair) == "learning_rate"]
    ratio = np.log([ratio_of(pair, "learning_rate") for pair in some])
    first = np.log([pair.worked.settings["learning_rate"] / REFERENCE_RATE for pair in some])
    return RatePairs(
        np.stack([np.ones(len(some)), ratio, first], axis=1),
        np.array([float(pair.other.failed) for pair in some]),
        np.array([pair.worked.repo for pair in some]),
    )


def fitted(pairs: RatePairs, repository_sd: float = REPOSITORY_SD) -> FailureRegression:
    """The regression, by a normal approximation at the mode of the posterior."""
    names, group = np.unique(pairs.repository, return_inverse=True)
    design = np.concatenate([pairs.design, np.eye(len(names))[group]], axis=1)
    precision = 1.0 / np.array([*PRIOR_SD, *np.full(len(names), repository_sd)]) ** 2

    def loss(q: np.ndarray) -> tuple[float, np.ndarray]:
        z = design @ q
        terms = pairs.failed * log_expit(z) + (1.0 - pairs.failed) * log_expit(-z)
        value = 0.5 * float(precision @ q**2) - float(terms.sum())
        return value, precision * q - design.T @ (pairs.failed - expit(z))

    mode = minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS").x
    p = expit(design @ mode)
    rates = REFERENCE_RATE * np.exp(pairs.design[:, 2])
    covariance = np.linalg.inv(design.T @ (design * (p * (1.0 - p))[:, None]) + np.diag(precision))
    return FailureRegression(
        tuple(float(f"{x:.4g}") for x in mode[:3]),
        tuple(tuple(float(f"{x:.4g}") for x in row) for row in covariance[:3, :3]),
        repository_sd,
        REFERENCE_RATE,
        (float(f"{rates.min():.4g}"), float(f"{rates.max():.4g}")),
    )


def left_out(pairs: RatePairs, repository_sd: float = REPOSITORY_SD) -> np.ndarray:
    """P(fails) of each pair by the pairs of the other repositories, shape (pairs,)."""
    p = np.zeros(len(pairs.failed))
    for name in np.unique(pairs.repository):
        own = pairs.repository == name
        found = fitted(pairs.chosen(~own), repository_sd)
        rows = pairs.design[own]
        p[own] = [found.probability(math.exp(x), REFERENCE_RATE * math.exp(first)) for _, x, first in rows]
    return p


def scores(pairs: RatePairs) -> dict[str, Any]:
    """Brier scores on repositories left out, and that of their rate of failures."""
    p, y = left_out(pairs), pairs.failed

    def brier(q: np.ndarray, where: np.ndarray | slice = slice(None)) -> float:
        return float(np.mean((q - y)[where] ** 2))

    names = np.unique(pairs.repository)
    base = np.array([y[pairs.repository != name].mean() for name in pairs.repository])
    return {
        "pairs": len(y),
        "failed": int(y.sum()),
        "brier": brier(p),
        "brier_base_rate": brier(base),
        "brier_by_repository": {str(name): brier(p, pairs.repository == name) for name in names},
        "brier_by_sd": {f"{sd:g}": brier(left_out(pairs, sd)) for sd in OTHER_SDS},
        "p_of_failed": float(p[y > 0].mean()),
        "p_of_worked": float(p[y == 0].mean()),
    }


def cases(pairs: Sequence[SiblingPair]) -> dict[str, list[tuple[float, int, int, str]]]:
    """Setting → ratio, pairs, failed pairs and repository of the pairs that changed it alone."""
    total: Counter[tuple[str, float, str]] = Counter()
    failed: Counter[tuple[str, float, str]] = Counter()
    for pair in pairs:
        name = setting_changed(pair)
        if name is not None:
            key = (name, float(f"{ratio_of(pair, name):.4g}"), pair.worked.repo)
            total[key] += 1
            failed[key] += pair.other.failed
    return {
        setting: [
            (ratio, count, failed[name, ratio, repo], repo)
            for (name, ratio, repo), count in sorted(total.items())
            if name == setting
        ]
        for setting in SETTINGS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    options = parser.parse_args()
    pairs = sibling_pairs(siblings_in(options.index))
    rates, counted = rate_pairs(pairs), cases(pairs)
    with atomic_write(OUTCOMES_PATH) as temporary:
        content = {"regression": fitted(rates)._asdict(), "cases": counted}
        temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
    failed = [pair for pair in pairs if pair.other.failed]
    result = {
        "pairs": len(pairs),
        "failed": len(failed),
        "repositories": len({pair.worked.repo for pair in pairs}),
        "repositories_of_failed": len({pair.worked.repo for pair in failed}),
        "alone": {
            name: {"pairs": sum(row[1] for row in rows), "failed": sum(row[2] for row in rows)}
            for name, rows in counted.items()
        },
        "learning_rate": scores(rates),
    }
    keep("learn_outcomes", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
