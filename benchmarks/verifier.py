"""Errors of a verifier by hand labels: coverage of intervals on simulated verifiers of known error rates.

    python -m benchmarks.verifier [--repeats 30] [--keep]

Completions of prompts whose success rates differ and rise over 40 steps are graded by a verifier that is wrong at known
rates. Labels are drawn at random, or are the ones that the package proposes, 20 at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.passing.verifier import VerifierErrors, verifier_errors
from bayes_grpo.rollouts.labels import Labels, places_of, to_label
from bayes_grpo.rollouts.passes import Right
from benchmarks.common import keep, mean_coverage, repeated, say
from tests.helpers.made_rollouts import rollouts_of

STEPS, PROMPTS, GROUP, PHASES, LABELS = 40, 8, 8, 5, 80


class Verifier(NamedTuple):
    """False accept rates at the first and the last step, false reject rate, and whether proposed labels are used."""

    accept: tuple[float, float]
    reject: float
    proposed: bool = False


VERIFIERS = {
    "random_labels": Verifier((0.1, 0.1), 0.15),
    "proposed_labels": Verifier((0.1, 0.1), 0.15, proposed=True),
    "accurate": Verifier((0.02, 0.02), 0.02),
    "hacked": Verifier((0.05, 0.4), 0.05),
}


def one(rng: np.random.Generator, verifier: Verifier, seed: int) -> VerifierErrors:
    """The result of one simulated run."""
    level = np.linspace(-1.5, 1.0, STEPS)[:, None] + 1.5 * rng.standard_normal((STEPS, PROMPTS))
    right = (rng.random((STEPS, PROMPTS, GROUP)) < 1.0 / (1.0 + np.exp(-level[..., None]))).ravel()
    step = np.repeat(np.arange(1, STEPS + 1), PROMPTS * GROUP)
    rate = np.linspace(*verifier.accept, STEPS)[step - 1]
    accepted = (rng.random(len(step)) < np.where(right, 1.0 - verifier.reject, rate)).astype(float)
    run = rollouts_of(accepted, step, np.repeat(np.arange(STEPS * PROMPTS), GROUP))
    place = rng.choice(len(step), LABELS, replace=False)
    if verifier.proposed:
        known = places_of(run)
        place, labels = np.zeros(0, int), None
        while len(place) < LABELS - 10:
            new = [known[x] for x in to_label(run, accepted, labels, seed=seed + len(place))]
            place = np.concatenate([place, new]).astype(int)
            labels = Labels(place, right[place])
    return verifier_errors(run, Right(accepted, "made"), Labels(place, right[place]), seed=seed)


def covered(name: str, verifier: Verifier, repeats: int) -> dict[str, Any]:
    """Coverage of the intervals of one verifier."""
    z = np.random.default_rng(0).standard_normal(20_000)
    exact = (1.0 / (1.0 + np.exp(-(np.linspace(-1.5, 1.0, STEPS)[:, None] + 1.5 * z)))).mean(axis=1)
    phases = exact.reshape(PHASES, -1)
    rate = np.linspace(*verifier.accept, STEPS)
    true = {
        "false_accept": float(np.sum(rate * (1.0 - exact)) / np.sum(1.0 - exact)),
        "false_reject": verifier.reject,
        "right": float(exact.mean()),
        "gain_right": float(phases[-1].mean() - phases[0].mean()),
    }
    held: dict[str, list[bool]] = {name: [] for name in (*true, "phases")}
    widths, hacked = [], []
    for seed in range(repeats):
        found = one(np.random.default_rng(seed), verifier, seed)
        for key, value in true.items():
            interval = getattr(found, key)
            held[key].append(interval.low <= value <= interval.high)
        held["phases"] += [
            p.right.low <= x <= p.right.high for p, x in zip(found.phases, phases.mean(axis=1), strict=True)
        ]
        widths.append(found.right.high - found.right.low)
        hacked.append(found.p_hacked)
    out = {
        "coverage": {k: float(np.mean(v)) for k, v in held.items()},
        "width_of_right": float(np.mean(widths)),
        "p_hacked": float(np.mean(hacked)),
        "true": true,
    }
    say(f"{name}: {out}")
    return out


def measured(repeats: int) -> dict[str, Any]:
    """All verifiers with so many repeats."""
    result = {name: covered(name, verifier, repeats) for name, verifier in VERIFIERS.items()}
    return result | {"coverage": mean_coverage(result.values()), "labels": LABELS, "repeats": repeats}


def main() -> None:
    result, kept = repeated(__doc__, 30, measured)
    if kept:
        keep("verifier", result)


if __name__ == "__main__":
    main()
