"""Learns P(fails | what changed) from labelled public runs: `bayes_grpo/risk/failing.json`, and how good it is.

    python -m bayes_grpo.laboratory.learners.failing --index runs/index.csv runs/more/index.csv --cache folder

Scores are of whole repositories left out: those with failures by a fit of their own, the others, which move the
posterior little, by weighing its draws with what they say of the repository. A family counts once, and of its runs that
worked each as much as any other.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayes_grpo.common.files import written_whole
from bayes_grpo.common.intervals import interval
from bayes_grpo.laboratory.learners.record import keep, say
from bayes_grpo.laboratory.learners.siblings import SiblingFamily, sibling_families, siblings_in
from bayes_grpo.risk.change import Change
from bayes_grpo.risk.failing import FAILING_PATH, LearnedFailures, p_fails
from bayes_grpo.risk.model import KEPT, Pairs, log_density, pairs_of, sample_failing

_BINS = (0.0, 0.05, 0.1, 0.2, 0.4, 1.0)
_BOOTSTRAP = 2000


def as_pairs(families: Sequence[SiblingFamily]) -> Pairs:
    """Families as the model takes them."""
    return pairs_of([[(changes, failed) for _, changes, failed in f.views] for f in families])


def posterior_of(families: Sequence[SiblingFamily], file: Path) -> dict[str, np.ndarray]:
    """Draws of the posterior of some families, shape (draws,) each, kept in a file."""
    if not file.exists():
        say(f"fitting {len(families)} families: {file.stem}")
        found = sample_failing(as_pairs(families))
        values: Any = {name: x.reshape(-1) for name, x in found.items()}
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
    families: Sequence[SiblingFamily], repo: str, whole: Mapping[str, np.ndarray], cache: Path
) -> dict[str, np.ndarray]:
    """Draws of the posterior without a repository."""
    own = [f for f in families if f.repo == repo]
    if any(run.failed for f in own for run in f.runs):
        return as_kept(
            posterior_of([f for f in families if f.repo != repo], cache / f"without_{repo.partition('/')[0]}.npz")
        )
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
    runs = {run.name: run for f in families for run in f.runs}
    failed = [run.label for run in runs.values() if run.failed]
    return {
        "about": {
            "made by": "bayes_grpo/laboratory/learners/failing.py",
            "repositories": {
                repo: {
                    "pairs": sum(f.pairs for f in families if f.repo == repo),
                    "failed": int(sum(y.sum() for f in families if f.repo == repo for _, _, y in f.views)),
                }
                for repo in sorted({f.repo for f in families})
            },
        },
        "kinds": {label: failed.count(label) for label in sorted(set(failed))},
        "settings": list(Change._fields),
        "posterior": {name: [float(f"{x:.4g}") for x in values] for name, values in posterior_draws.items()},
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
        table["kinds"],
        table["about"],
    )


def pairs_predicted(
    families: Sequence[SiblingFamily], whole: Mapping[str, np.ndarray], cache: Path
) -> list[dict[str, Any]]:
    """P(fails) of every pair by what the other repositories tell."""
    out = []
    for repo in sorted({f.repo for f in families}):
        others = [f for f in families if f.repo != repo]
        known = as_learned(failing_table(others, {}), posterior_without(families, repo, whole, cache))
        rate = sum(y.sum() for f in others for _, _, y in f.views) / sum(f.pairs for f in others)
        seen: dict[bytes, Any] = {}
        for f in (f for f in families if f.repo == repo):
            for place, changes, failed in f.views:
                other = [run for run in f.runs if run is not f.runs[place]]
                for run, x, y in zip(other, changes, failed, strict=True):
                    found = seen.setdefault(x.tobytes(), p_fails(Change(*x), known=known))
                    out.append(
                        {
                            "repo": repo,
                            "family": f.name,
                            "from": f.runs[place].name,
                            "to": run.name,
                            "change": x.tolist(),
                            "failed": int(y),
                            "p": found.p,
                            "low": found.interval.low,
                            "high": found.interval.high,
                            "tried": found.tried,
                            "base_rate": float(rate),
                            "weight": 1.0 / (len(f.views) * len(failed)),
                        }
                    )
    return out


def pair_scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Brier and log score beside the base rate's, means over failed and unfailed pairs, reliability."""
    p, y, rate = (np.array([row[k] for row in rows], float) for k in ("p", "failed", "base_rate"))
    moved = np.array([any(row["change"]) for row in rows])
    repos = np.array([row["repo"] for row in rows])

    def log_score(q: np.ndarray) -> np.ndarray:
        return -np.log(np.where(y > 0, q, 1.0 - q))

    def spread(values: np.ndarray, kept: np.ndarray) -> list[float]:
        """90% interval of a mean by drawing repositories."""
        rng, names = np.random.default_rng(0), sorted(set(repos[kept]))
        sums = {n: (values[kept & (repos == n)].sum(), (kept & (repos == n)).sum()) for n in names}
        means = []
        for _ in range(_BOOTSTRAP):
            total = np.sum([sums[n] for n in rng.choice(names, len(names))], axis=0)
            means.append(total[0] / total[1])
        return list(interval(np.array(means))[1:3])

    failed, held, every = y > 0, y == 0, np.ones(len(y), bool)
    table = []
    for low, high in pairwise(_BINS):
        inside = (p >= low) & (p < high)
        if inside.any():
            table.append(
                {
                    "from": low,
                    "to": high,
                    "pairs": int(inside.sum()),
                    "told": float(p[inside].mean()),
                    "failed": float(y[inside].mean()),
                }
            )
    return {
        "pairs": len(rows),
        "failed": int(y.sum()),
        "moved": int(moved.sum()),
        "brier": float(np.mean((p - y) ** 2)),
        "brier_base_rate": float(np.mean((rate - y) ** 2)),
        "brier_stable": float(np.mean((0.01 - y) ** 2)),
        "log_score": float(log_score(p).mean()),
        "log_score_base_rate": float(log_score(rate).mean()),
        "log_score_stable": float(log_score(np.full(len(y), 0.01)).mean()),
        "p_of_failed": float(p[failed].mean()),
        "p_of_failed_interval": spread(p, failed),
        "p_of_held": float(p[held].mean()),
        "p_of_held_interval": spread(p, held),
        "p_of_held_moved": float(p[held & moved].mean()),
        "brier_interval": spread((p - y) ** 2, every),
        "reliability": table,
    }


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    families = sibling_families(siblings_in(options.index))
    whole = posterior_of(families, options.cache / "whole.npz")
    table = failing_table(families, as_kept(whole))
    with written_whole(FAILING_PATH) as temporary:
        temporary.write_text(json.dumps(table, ensure_ascii=False) + "\n", encoding="utf-8")
    rows = pairs_predicted(families, whole, options.cache)
    (options.cache / "pairs.json").write_text(json.dumps(rows))
    sweeps = [row for row in rows if np.count_nonzero(row["change"]) == 1 and row["change"][0] != 0.0]
    result = {
        "repositories": table["about"]["repositories"],
        "all": pair_scores(rows),
        "learning_rate_alone": pair_scores(sweeps),
    }
    keep("learn_failing", result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
