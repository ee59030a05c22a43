"""Learns P(fails | what changed) from labelled public runs: `bayes_grpo/risk/failing.json`, and how good it is.

    python -m benchmarks.lab.learners.failing --index runs/index.csv runs/more/index.csv --lab runs --cache kept

Scores are of whole repositories left out: those with failures by a fit of their own, the others, which move the
posterior little, by weighing its draws with what they say of the repository. A family counts once, and of its runs that
worked each as much as any other. Nobody is told whether a run trains an adapter, as no log says so. The laboratory's
families (`lab_siblings`) are of two seeds, each judged by the other. What they teach of public runs is told by the
scores with and without them (`public_alone`).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from bayes_grpo.common.files import written_whole
from bayes_grpo.risk.failure import FAILING_PATH, LearnedFailures, failure_risk
from bayes_grpo.risk.threshold import Change
from benchmarks.common import keep, say
from benchmarks.lab.failing_model import KEPT, MOST_BASE, Pairs, View, log_density, moved, pairs_of, sample_failing
from benchmarks.lab.learners.failing_scores import both_scores, calibration_error, pair_scores
from benchmarks.lab.learners.lab_siblings import LAB_SEEDS, lab_siblings
from benchmarks.lab.learners.siblings import SiblingFamily, sibling_families, siblings_in


def as_pairs(families: Sequence[SiblingFamily]) -> Pairs:
    """Families as the model takes them."""
    return pairs_of([[pair_view(f, *view) for view in f.views] for f in families])


def pair_view(family: SiblingFamily, place: int, changes: np.ndarray, failed: np.ndarray) -> View:
    """What a run that worked sees."""
    own = family.runs[place].settings
    rate = own.get("learning_rate")
    return View(changes, failed, math.nan if rate is None else math.log(rate), float(own.get("full", 1.0)))


def posterior_of(
    families: Sequence[SiblingFamily], file: Path, lab: Sequence[SiblingFamily] = ()
) -> dict[str, np.ndarray]:
    """Draws of the posterior of some families, shape (draws, …) each, kept in a file."""
    if not file.exists():
        say(f"fitting {len(families)} families and {len(lab)} of the laboratory: {file.stem}")
        found = sample_failing(as_pairs(families), as_pairs(lab) if lab else None)
        values: Any = {name: x.reshape(-1, *x.shape[2:]) for name, x in found.items()}
        np.savez(file, **values)
    with np.load(file) as kept:
        return dict(kept)


def as_kept(draws: Mapping[str, np.ndarray], weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """`KEPT` draws, by their weights where there are any."""
    size = len(draws["base"])
    mass = np.cumsum(np.full(size, 1.0 / size) if weight is None else weight / weight.sum())
    place = np.searchsorted(mass, (np.arange(KEPT) + 0.5) / KEPT).clip(max=size - 1)
    return {name: x[place] for name, x in draws.items()}


def posterior_without(
    families: Sequence[SiblingFamily],
    repo: str,
    whole: Mapping[str, np.ndarray],
    cache: Path,
    lab: Sequence[SiblingFamily] = (),
) -> dict[str, np.ndarray]:
    """Draws of the posterior without a repository."""
    own = [f for f in families if f.repo == repo]
    if any(run.failed for f in own for run in f.runs):
        name = f"without_{repo.partition('/')[0]}{'_with_lab' if lab else ''}.npz"
        return as_kept(posterior_of([f for f in families if f.repo != repo], cache / name, lab))
    pairs = as_pairs(own)
    with jax.enable_x64(True):
        told = np.asarray(jax.jit(jax.vmap(lambda q: (pairs.share * log_density(q, pairs)).sum()))(dict(whole)))
    return as_kept(whole, np.exp(told.min() - told))


def changes_tried(families: Sequence[SiblingFamily]) -> dict[tuple[str, bytes], list[float]]:
    """(Repository, change) → ordered pairs and how many failed."""
    out: dict[tuple[str, bytes], list[float]] = {}
    for f in families:
        for _, changes, failed in f.views:
            for x, y in zip(np.round(changes, 3), failed, strict=True):
                count = out.setdefault((f.repo, (x + 0.0).tobytes()), [0.0, 0.0])
                count[0] += 1
                count[1] += y
    return out


def failing_table(families: Sequence[SiblingFamily], posterior_draws: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What is shipped."""
    return {
        "about": {
            "made by": "benchmarks/lab/learners/failing.py",
            "repositories": {
                repo: {
                    "pairs": sum(f.pairs for f in families if f.repo == repo),
                    "failed": int(sum(y.sum() for f in families if f.repo == repo for _, _, y in f.views)),
                }
                for repo in sorted({f.repo for f in families})
            },
        },
        "settings": list(Change._fields),
        "posterior": {
            name: [float(f"{x:.4g}") for x in values]
            for name, values in posterior_draws.items()
            if values.ndim == 1 and not name.startswith("lab_")
        },
        "cases": [
            {"change": [float(v) for v in np.frombuffer(key)], "pairs": int(n), "failed": int(k), "repository": repo}
            for (repo, key), (n, k) in changes_tried(families).items()
        ],
    }


def as_learned(table: Mapping[str, Any], draws: Mapping[str, np.ndarray]) -> LearnedFailures:
    """A table with other draws."""
    cases = table["cases"]
    return LearnedFailures(
        draws,
        np.array([c["change"] for c in cases], float),
        np.array([c["pairs"] for c in cases], float),
        np.array([c["failed"] for c in cases], float),
        np.array([c["repository"] for c in cases]),
        table["about"],
    )


def failures_without(
    families: Sequence[SiblingFamily],
    repo: str,
    whole: Mapping[str, np.ndarray],
    cache: Path,
    lab: Sequence[SiblingFamily] = (),
) -> LearnedFailures:
    """What the other repositories tell, and the laboratory where it is given."""
    others = [f for f in families if f.repo != repo]
    return as_learned(failing_table(others, {}), posterior_without(families, repo, whole, cache, lab))


def lab_families(folder: Path, count: int) -> list[list[SiblingFamily]]:
    """The laboratory's families, by seed.

    Args:
        folder: Where its runs are kept; those that lack are trained.
        count: How many of each seed.
    """
    return [sibling_families([x.sibling for x in lab_siblings(folder, seed, range(count))]) for seed in LAB_SEEDS]


def pairs_predicted(
    families: Sequence[SiblingFamily],
    whole: Mapping[str, np.ndarray],
    cache: Path,
    lab: Sequence[SiblingFamily] = (),
) -> list[dict[str, Any]]:
    """P(fails) of every pair by what the other repositories tell, and the laboratory where it is given."""
    out = []
    for repo in sorted({f.repo for f in families}):
        others = [f for f in families if f.repo != repo]
        known = failures_without(families, repo, whole, cache, lab)
        rate = sum(y.sum() for f in others for _, _, y in f.views) / sum(f.pairs for f in others)
        out += told_of([f for f in families if f.repo == repo], known, float(rate))
    return out


def told_of(
    families: Sequence[SiblingFamily], known: LearnedFailures, base_rate: float, *, scaled: bool = True
) -> list[dict[str, Any]]:
    """P(fails) of every pair of some families by what is known.

    Args:
        families: The families.
        known: What is known.
        base_rate: Share of the pairs that failed of those from which that was learned.
        scaled: Whether their learning rates lie on its scale.
    """
    out, seen = [], {}
    for f in families:
        for place, changes, failed in f.views:
            own, other = f.runs[place], [run for run in f.runs if run is not f.runs[place]]
            rate = own.settings.get("learning_rate") if scaled else None
            for run, x, y in zip(other, changes, failed, strict=True):
                if (x.tobytes(), rate) not in seen:
                    seen[x.tobytes(), rate] = failure_risk(Change(*x), rate=rate, known=known)
                found = seen[x.tobytes(), rate]
                out.append(
                    {
                        "repo": f.repo,
                        "family": f.name,
                        "from": own.name,
                        "to": run.name,
                        "change": x.tolist(),
                        "failed": int(y),
                        "p": found.p,
                        "low": found.interval.low,
                        "high": found.interval.high,
                        "tried": found.tried,
                        "base_rate": base_rate,
                        "weight": 1.0 / (len(f.views) * len(failed)),
                    }
                )
    return out


class LabLearned(NamedTuple):
    """What the laboratory's families of other seeds teach together with the public ones.

    Attributes:
        lab: Of the laboratory's own runs.
        public: Of public ones.
        apart: How far the two lie apart, mean over the posterior.
        rate: Share of the other families' pairs that failed.
    """

    lab: LearnedFailures
    public: LearnedFailures
    apart: float
    rate: float


def learned_in_lab(families: Sequence[SiblingFamily], others: Sequence[SiblingFamily], file: Path) -> LabLearned:
    """What public families and some of the laboratory teach.

    Args:
        families: Public families.
        others: The laboratory's.
        file: Where the posterior is kept.
    """
    draws = as_kept(posterior_of(families, file, others))
    own = {name: np.asarray(x) for name, x in moved(draws, draws["away"]).items()}
    own |= {"scale": draws["lab_scale"], "scatter": draws["lab_scatter"], "base": np.minimum(own["base"], MOST_BASE)}
    return LabLearned(
        as_learned(failing_table(others, {}), own),
        as_learned(failing_table(families, {}), draws),
        float(draws["apart"].mean()),
        float(sum(y.sum() for f in others for _, _, y in f.views) / sum(f.pairs for f in others)),
    )


def lab_scores(
    families: Sequence[SiblingFamily], labs: Sequence[Sequence[SiblingFamily]], cache: Path
) -> dict[str, Any]:
    """How good P(fails) is in the laboratory, the families of a seed judged by those of the other and the public ones.

    Args:
        families: Public families.
        labs: The laboratory's, by seed.
        cache: Where posteriors are kept.
    """
    told: list[dict[str, Any]] = []
    public: list[dict[str, Any]] = []
    apart = []
    for i, own in enumerate(labs):
        others = [f for j, lab in enumerate(labs) if j != i for f in lab]
        found = learned_in_lab(families, others, cache / f"lab_without_{LAB_SEEDS[i]}.npz")
        apart.append(found.apart)
        told += told_of(own, found.lab, found.rate)
        public += told_of(own, found.public, found.rate, scaled=False)
    (cache / "lab_pairs.json").write_text(json.dumps(told))
    return {
        "families": sum(map(len, labs)),
        "runs": sum(len(f.runs) for lab in labs for f in lab),
        "discrepancy": apart,
        "own": pair_scores(told) | {"ece": calibration_error(told)},
        "by_public_runs": pair_scores(public) | {"ece": calibration_error(public)},
    }


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--lab", type=Path, help="folder of the laboratory's runs; those that lack are trained")
    parser.add_argument("--families", type=int, default=20, help="of the laboratory, of each seed")
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    families, cache = sibling_families(siblings_in(options.index)), options.cache
    alone = posterior_of(families, cache / "whole.npz")
    rows = pairs_predicted(families, alone, cache)
    result: dict[str, Any] = {}
    whole = alone
    if options.lab is not None:
        labs = lab_families(options.lab, options.families)
        every = [f for lab in labs for f in lab]
        result["public_alone"] = both_scores(rows)
        whole = posterior_of(families, cache / "whole_with_lab.npz", every)
        rows = pairs_predicted(families, whole, cache, every)
        result["laboratory"] = lab_scores(families, labs, cache)
    table = failing_table(families, as_kept(whole))
    with written_whole(FAILING_PATH) as temporary:
        temporary.write_text(json.dumps(table, ensure_ascii=False) + "\n", encoding="utf-8")
    (cache / "pairs.json").write_text(json.dumps(rows))
    result |= {"repositories": table["about"]["repositories"], **both_scores(rows)}
    keep("learn_failing", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
