"""pass@1 and pass@k: coverage of intervals on simulated groups, and against exact values of softmax policies.

    python -m benchmarks.calibration.passing [--repeats 40] [--keep]

`groups`: prompts of logistic-normal difficulty, whose mean and spread move over 40 steps. `softmax`: policies that
`bayes_grpo.simulate` trains; their success rate on every prompt is exact at every step, and groups are drawn from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayes_grpo.passing.passing import Passing, passing
from bayes_grpo.rollouts.records import Rollouts
from bayes_grpo.simulate.objective import log_policy
from bayes_grpo.simulate.policies import contextual_bandit
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.training import simulate
from benchmarks.common import keep, mean_coverage, repeated, say
from tests.helpers.made_rollouts import rollouts_of

STEPS, PROMPTS, GROUP, PHASES = 40, 8, 8, 5
COURSES = {
    "rise": ((-1.0, 1.0), (1.5, 1.5)),
    "no_change": ((-0.5, -0.5), (1.5, 1.5)),
    "sharpening": ((-1.0, 0.0), (0.7, 4.0)),
    "hard": ((-4.0, -2.0), (1.5, 1.5)),
}
"""Course → mean logit, and spread of logits over prompts, at the first and the last step."""


def table_of(rng: np.random.Generator, p: np.ndarray, prompt: np.ndarray) -> Rollouts:
    """Groups of success rates p of shape (steps, prompts)."""
    steps, prompts = p.shape
    right = rng.random((steps, prompts, GROUP)) < p[..., None]
    return rollouts_of(
        right.ravel().astype(float),
        np.repeat(np.arange(1, steps + 1), prompts * GROUP),
        np.repeat(prompt.ravel(), GROUP),
    )


class Hits:
    """Which intervals hold their true values, and what was estimated."""

    def __init__(self) -> None:
        self.held: dict[str, list[bool]] = {"pass_1": [], "pass_k": [], "change_1": [], "change_k": []}
        self.error: list[float] = []
        self.sharpening: list[float] = []

    def add(self, found: Passing, true_1: np.ndarray, true_k: np.ndarray) -> None:
        """Adds a result; true values have the shape (phases,)."""
        for phase, a, b in zip(found.phases, true_1, true_k, strict=True):
            self.held["pass_1"].append(phase.pass_1.low <= a <= phase.pass_1.high)
            self.held["pass_k"].append(phase.pass_k.low <= b <= phase.pass_k.high)
            self.error.append(phase.estimate_k - b)
        for name, change, true in (("change_1", found.change_1, true_1), ("change_k", found.change_k, true_k)):
            self.held[name].append(change.low <= true[-1] - true[0] <= change.high)
        self.sharpening.append(found.p_sharpening)

    def summary(self) -> dict[str, Any]:
        """Coverage, bias of the unbiased estimate, and P(sharpening)."""
        return {
            "coverage": {k: float(np.mean(v)) for k, v in self.held.items()},
            "bias_of_estimate": float(np.mean(self.error)),
            "error_of_bias": float(np.std(self.error) / np.sqrt(len(self.error))),
            "p_sharpening": float(np.mean(self.sharpening)),
            "runs": len(self.sharpening),
        }


def by_phase(values: np.ndarray) -> np.ndarray:
    """Means over the steps of each phase of values of shape (steps, prompts)."""
    return values.mean(axis=1).reshape(PHASES, -1).mean(axis=1)


def groups(repeats: int) -> dict[str, Any]:
    """Coverage on prompts of logistic-normal difficulty."""
    out, z = {}, np.random.default_rng(0).standard_normal(20_000)
    for name, (mean, spread) in COURSES.items():
        at, wide = np.linspace(*mean, STEPS), np.linspace(*spread, STEPS)
        exact = 1.0 / (1.0 + np.exp(-(at[:, None] + wide[:, None] * z)))
        true = by_phase(exact), by_phase(1.0 - (1.0 - exact) ** GROUP)
        hits = Hits()
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            own = rng.standard_normal((STEPS, PROMPTS))
            p = 1.0 / (1.0 + np.exp(-(at[:, None] + wide[:, None] * own)))
            hits.add(passing(table_of(rng, p, np.arange(p.size).reshape(p.shape)), seed=seed), *true)
        out[name] = hits.summary() | {
            "true_change_1": true[0][-1] - true[0][0],
            "true_change_k": true[1][-1] - true[1][0],
        }
        say(f"{name}: {out[name]}")
    return out


def softmax(repeats: int) -> dict[str, Any]:
    """Coverage against exact success rates of softmax policies in training."""
    hits = Hits()
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        environment = contextual_bandit(rng, n_prompts=256, difficulty_mean=1.0)
        trained = simulate(Structure(n_steps=STEPS), Numbers(learning_rate=0.5), environment, np.array([seed]))
        theta = np.asarray(trained.parameters)[0]
        p = np.array(
            [
                np.sum(np.exp(log_policy(environment.train, x)) * environment.train.gold_probability, axis=-1)
                for x in theta
            ]
        )
        drawn = rng.integers(0, p.shape[1], (STEPS, PROMPTS))
        found = passing(table_of(rng, np.take_along_axis(p, drawn, axis=1), drawn), seed=seed)
        hits.add(found, by_phase(p), by_phase(1.0 - (1.0 - p) ** GROUP))
    return hits.summary()


def measured(repeats: int) -> dict[str, Any]:
    """Both benchmarks with so many repeats."""
    result: dict[str, Any] = {"groups": groups(repeats), "softmax": softmax(repeats)}
    return result | {"coverage": mean_coverage((*result["groups"].values(), result["softmax"]))}


def main() -> None:
    result, kept = repeated(__doc__, 40, measured)
    if kept:
        keep("passing", result)


if __name__ == "__main__":
    main()
