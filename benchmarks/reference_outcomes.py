"""P(fails) of a run where reference runs' outcomes at their settings are known, against the changed settings alone.

    python -m benchmarks.reference_outcomes --index INDEX.csv ... --cache DIR [--laboratory FOLDER]

Of every labelled family each run that worked is taken for the present one and others for the next; the rest are its
reference runs. Learned numbers are those without the repository (posteriors are kept in the cache); the laboratory's
families take those of the package. Log scores, means over pairs, families counted alike.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.risk.failure import LearnedFailures, failure_risk, learned_failures
from bayes_grpo.risk.threshold import Change
from benchmarks.common import keep
from benchmarks.lab.learners.failing import failures_without
from benchmarks.lab.learners.lab_siblings import LAB_SEEDS, lab_siblings
from benchmarks.lab.learners.siblings import SiblingFamily, sibling_families, siblings_in

DRAWS = 60
"""Draws of the learned posterior that are looked at."""
TARGETS = 6
"""Next runs of a present one at most."""


def thinned(known: LearnedFailures) -> LearnedFailures:
    """Fewer draws: means of P(fails) need no more."""
    size = len(next(iter(known.posterior.values())))
    at = np.linspace(0, size - 1, min(DRAWS, size)).astype(int)
    return known._replace(posterior={k: v[at] for k, v in known.posterior.items()})


def pairs_of(families: Sequence[SiblingFamily], known: LearnedFailures) -> list[tuple[str, bool, float, float]]:
    """Family, whether the next run failed, and P(fails) without and with reference runs."""
    rng, out = np.random.default_rng(0), []
    for f in families:
        for place, changes, failed in f.views:
            settings = f.runs[place].settings
            given: dict[str, Any] = {"rate": settings.get("learning_rate")}
            each = [Change(*c) for c in changes]
            for i in rng.permutation(len(each))[:TARGETS]:
                rest = [(c, bool(y)) for j, (c, y) in enumerate(zip(each, failed, strict=True)) if j != i]
                worked, fell = ([c for c, y in rest if y is kind] for kind in (False, True))
                alone = failure_risk(each[i], known=known, **given).p
                beside = failure_risk(each[i], known=known, worked_changes=worked, failed_changes=fell, **given).p
                out.append((f.name, bool(failed[i]), alone, beside))
    return out


def scores(pairs: Sequence[tuple[str, bool, float, float]]) -> dict[str, float]:
    """Log scores, families counted alike, and the share that failed beside mean probabilities."""
    names = [x[0] for x in pairs]
    weight = np.array([1.0 / names.count(n) for n in names])
    y, alone, beside = (np.array([x[k] for x in pairs], float) for k in (1, 2, 3))

    def loss(p: np.ndarray) -> float:
        p = np.clip(p, 1e-6, 1.0 - 1e-6)
        return float(np.average(-np.where(y > 0, np.log(p), np.log1p(-p)), weights=weight))

    mean = {k: float(np.average(v, weights=weight)) for k, v in (("failed", y), ("p", alone), ("p_beside", beside))}
    return {"pairs": len(pairs), "log_score": loss(alone), "log_score_beside": loss(beside)} | mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--laboratory", type=Path)
    options = parser.parse_args()
    families = sibling_families(siblings_in(options.index))
    whole, every = learned_failures(), []
    found: dict[str, Any] = {"by_repository": {}}
    for repo in sorted({f.repo for f in families}):
        known = failures_without(families, repo, whole.posterior, options.cache)
        some = pairs_of([f for f in families if f.repo == repo], thinned(known))
        every += some
        found["by_repository"][repo] = scores(some)
        print(repo, {k: round(v, 3) for k, v in scores(some).items()}, flush=True)
    found["public"] = scores(every)
    if options.laboratory is not None:
        lab = [x.sibling for seed in LAB_SEEDS for x in lab_siblings(options.laboratory, seed, range(25))]
        found["laboratory"] = scores(pairs_of(sibling_families(lab), thinned(whole)))
    for name in ("public", "laboratory"):
        print(name, found.get(name))
    keep("reference_outcomes", found)


if __name__ == "__main__":
    main()
