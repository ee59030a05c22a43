"""Runs that depart from their siblings: how often of those that end well and of those that fail, and how early.

    python -m benchmarks.departures FOLDER ... --index INDEX.csv ... [--laboratory FOLDER]

Families and folders are those of `benchmarks/siblings.py`, outcomes those of the indices. Every run is looked at after
each tenth of its rows, beside its siblings at the same steps. The distance that a twentieth of looks at runs that ended
well exceed is learned with each repository left out in turn and judged there. For runs that failed, the first look that
departs stands beside the first at which the diagnosis of the run alone gives a failure even odds. The laboratory's
families have rewards alone.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo import Run, diagnose
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.siblings.departure import BORDER, Signals, compare_at, signals_of
from bayes_grpo.siblings.gather import gather_siblings
from benchmarks.common import keep
from benchmarks.siblings import families_of, logs_of

LOOKS = np.linspace(0.1, 1.0, 10)
FAILED = ("dynamical_instability", "policy_concentration")
ELSE = ("reward_hacking", "advantage_degeneracy")
FINE = ("healthy", "plateaued")
SHARES = (0.5, 0.2, 0.1, 0.05, 0.02)


@dataclass(frozen=True, eq=False)
class Looked:
    """A run at all looks: its distance from its siblings at each, NaN where nothing can be compared."""

    name: str
    repo: str
    label: str
    score: np.ndarray
    step: np.ndarray
    run: Run


def scores_of(own: Signals, siblings: Sequence[Signals], steps: np.ndarray) -> np.ndarray:
    """Distance of the most unusual signal at each step."""
    found = [compare_at(own, siblings, float(s)) for s in steps]
    return np.array([x[0].counts if x else np.nan for x in found])


def public(folders: Sequence[Path], indices: Sequence[Path]) -> list[Looked]:
    """All looks at public runs."""
    labels: dict[str, str] = {}
    for index in indices:
        with index.open(encoding="utf-8") as file:
            labels |= {row["run_id"]: row["outcome_label"] for row in csv.DictReader(file)}
    out = []
    for some in families_of(logs_of(folders, indices)).values():
        for log in some:
            found = gather_siblings(log.run, log.table, [x.run for x in some if x is not log])
            step = log.table.step[np.maximum(np.round(LOOKS * len(log.table.step)).astype(int), 1) - 1]
            own, *others = (signals_of(x, log.table.signal) for x in (log.run, *found.runs))
            score = scores_of(own, others, step)
            out.append(Looked(log.run.name, log.repo, labels[log.run.name], score, step, log.run))
    return out


def fine_scores(looked: Sequence[Looked]) -> tuple[np.ndarray, np.ndarray]:
    """Distances at all looks at runs that ended well, sorted, and their weights, repositories counted alike."""
    by_repo: dict[str, list[float]] = {}
    for x in looked:
        if x.label in FINE:
            by_repo.setdefault(x.repo, []).extend(x.score[np.isfinite(x.score)])
    score = np.concatenate([np.array(v) for v in by_repo.values()])
    weight = np.concatenate([np.full(len(v), 1.0 / max(len(v), 1)) for v in by_repo.values()])
    order = np.argsort(score)
    return score[order], weight[order] / weight.sum()


def border_of(looked: Sequence[Looked], share: float = 0.05) -> float:
    """Distance that such a share of looks at runs that ended well exceed."""
    score, weight = fine_scores(looked)
    return float(np.interp(1.0 - share, np.cumsum(weight) - 0.5 * weight, score))


def rates(looked: Sequence[Looked], border: dict[str, float]) -> dict[str, float]:
    """Share of looks, and of runs at any look, beyond the border of their repository."""
    hits = [(x.score > border[x.repo])[np.isfinite(x.score)] for x in looked]
    hits = [h for h in hits if len(h)]
    return {
        "runs": len(hits),
        "looks": float(np.mean(np.concatenate(hits))) if hits else float("nan"),
        "any_look": float(np.mean([h.any() for h in hits])) if hits else float("nan"),
        "last_look": float(np.mean([h[-1] for h in hits])) if hits else float("nan"),
    }


def leads(looked: Sequence[Looked], border: dict[str, float]) -> list[dict[str, Any]]:
    """When a run that failed departed, and when its own diagnosis said that it fails; shares of its rows."""
    out = []
    for x in looked:
        if x.label in FAILED:
            past = diagnose(x.run).timeline
            own = np.empty(0)
            if past is not None:
                failing = np.max([past.modes[mode].probability for mode in MODES], axis=0) >= 0.5
                own = past.step[failing] / past.step[-1]
            departed = LOOKS[np.nan_to_num(x.score, nan=-np.inf) > border[x.repo]]
            first = [float(v[0]) if len(v) else None for v in (departed, own)]
            out.append({"run": x.name, "repo": x.repo, "departs": first[0], "own": first[1]})
            print(f"{x.name:34s} departs {first[0]}, by itself {first[1]}", flush=True)
    return out


def laboratory(folder: Path) -> dict[str, Any]:
    """The same in the laboratory's families, at the border of the package."""
    from benchmarks.lab.learners.lab_siblings import lab_siblings
    from tests.helpers.runs import make_run

    out: list[Looked] = []
    for seed in (1, 2):
        families: dict[str, list[Any]] = {}
        for x in lab_siblings(folder, seed, range(25)):
            families.setdefault(x.sibling.family, []).append(x)
        for some in families.values():
            if len(some) < 5:
                continue
            runs = [make_run(np.arange(1.0, len(x.reward) + 1), x.reward, name=x.sibling.name) for x in some]
            signals = [signals_of(r, "reward") for r in runs]
            for i, x in enumerate(some):
                step = np.round(LOOKS * len(x.reward))
                score = scores_of(signals[i], signals[:i] + signals[i + 1 :], step)
                label = FAILED[0] if x.sibling.failed else FINE[0]
                out.append(Looked(x.sibling.name, "laboratory", label, score, step, runs[i]))
    border = {"laboratory": BORDER}
    found = {
        "fine": rates([x for x in out if x.label in FINE], border),
        "failed": rates([x for x in out if x.label in FAILED], border),
    }
    print("laboratory:", found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--laboratory", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    looked = public(options.folders, options.index)
    usual = {f"beyond_{100 * s:.0f}": border_of(looked, s) for s in SHARES}
    print("distances that shares of looks at runs that ended well exceed:", usual)
    repos = sorted({x.repo for x in looked})
    border = {r: border_of([x for x in looked if x.repo != r]) for r in repos}
    found: dict[str, Any] = {"usual": usual, "border": {"low": min(border.values()), "high": max(border.values())}}
    kinds = {"fine": FINE, "failed": FAILED, **{k: (k,) for k in ELSE}}
    for kind, labels in kinds.items():
        found[kind] = rates([x for x in looked if x.label in labels], border)
        print(kind, found[kind])
    found["by_repository"] = {}
    for r in repos:
        some = {k: rates([x for x in looked if x.repo == r and x.label in v], border) for k, v in kinds.items()}
        found["by_repository"][r] = {k: v for k, v in some.items() if v["runs"]}
        print(r, border[r], found["by_repository"][r])
    found["leads"] = leads(looked, border)
    if options.laboratory is not None:
        found["laboratory"] = laboratory(options.laboratory)
    keep("departures", found)


if __name__ == "__main__":
    main()
