"""Learns the likelihoods of the diagnosis from simulated runs and writes them as the package's table.

    python benchmarks/learn_diagnosis.py [--runs 5400] [--tune 1350] [--seed 100] [--jobs 2] [--out likelihoods.json]

Densities are fitted on logs with every signal; missing ones are integrated out later. The exponent of the likelihoods
is chosen on other runs that lack signals at random, by their log score.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.cache import compilation_cache
from bayes_grpo.common.files import written_whole
from bayes_grpo.diagnosis.classes import CANNOT_TELL, CLASSES, MODES
from bayes_grpo.diagnosis.classify import Likelihoods, effective, posterior
from bayes_grpo.diagnosis.features import gather_all, vector
from bayes_grpo.diagnosis.mixture import Mixture, fit_mixture
from benchmarks.common import keep
from benchmarks.diagnosis_rivals import RIVALS
from benchmarks.diagnosis_runs import SETTINGS, labelled_runs

TARGET = Path(__file__).parents[1] / "bayes_grpo" / "diagnosis" / "likelihoods.json"
PART = 450
RESOLUTION = 0.25  # of a feature, in its sd over all runs: sharper differences are artefacts of the simulation
BROAD = 2.5  # variance of "cannot tell" over that of all runs
TEMPERS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)


def learn(rows: Sequence[Row], provenance: Mapping[str, object]) -> Likelihoods:
    """Fits all densities.

    Args:
        rows: The runs, every signal there.
        provenance: What to write into the table.
    """
    names = tuple(rows[0].features)
    x = np.stack([vector(dict(r.features), names) for r in rows])
    label = np.array([r.label for r in rows])
    # The few features that a complete log lacks (no spread at all) take their class's median.
    for name in CLASSES:
        chosen = label == name
        middle = np.nan_to_num(np.nanmedian(np.where(chosen[:, None], x, np.nan), axis=0))
        x = np.where(chosen[:, None] & ~np.isfinite(x), middle, x)
    spread = x.std(axis=0)
    floor = (RESOLUTION * spread) ** 2
    classes = {name: fit_mixture(x[label == name], floor) for name in CLASSES}
    present = {mode: fit_mixture(x[np.array([mode in r.modes for r in rows])], floor) for mode in MODES}
    weight = np.array([1.0 / np.sum(label == name) for name in label])
    weight /= weight.sum()
    centre = weight @ x
    cov = BROAD * (((x - centre).T * weight) @ (x - centre) + np.diag(floor))
    background = Mixture(np.ones(1), centre[None], cov[None], 4.0)
    return Likelihoods(names, classes, present, background, 1.0, dict(provenance))


def tuned(table: Likelihoods, rows: Sequence[Row]) -> tuple[Likelihoods, dict[float, float]]:
    """The table with the exponent of the best mean log score, and the scores of all."""
    prior = frequencies([r.label for r in rows])
    scores = {}
    for temper in TEMPERS:
        tried = Likelihoods(table.names, table.classes, table.present, table.background, temper, table.provenance)
        scores[temper] = float(
            np.mean(
                [
                    np.log(effective(posterior(f, prior, tried).probability, prior)[CLASSES.index(label)])
                    for label, _, f, _ in rows
                ]
            )
        )
    best = max(scores, key=lambda t: scores[t])
    return Likelihoods(table.names, table.classes, table.present, table.background, best, table.provenance), scores


def frequencies(labels: Sequence[str], cannot_tell: float = 0.12) -> dict[str, float]:
    """A prior with the frequencies of the labels."""
    share = np.array([labels.count(name) for name in CLASSES], dtype=float) + 1.0
    share *= (1.0 - cannot_tell) / share.sum()
    return dict(zip(CLASSES, share.tolist(), strict=True)) | {CANNOT_TELL: cannot_tell}


class Row(NamedTuple):
    """What is kept of a simulated run.

    Attributes:
        label: What it is.
        modes: Failures under way.
        features: What the classification sees.
        alarms: Rival → mode → step of its first alarm.
    """

    label: str
    modes: tuple[str, ...]
    features: Mapping[str, float]
    alarms: Mapping[str, Mapping[str, float]]


def rows_of(n: int, seed: int, complete: bool, jobs: int = 1) -> list[Row]:
    """Simulates runs and gathers their evidence.

    The runs come in parts with a seed each, so that their number of processes does not matter.

    Args:
        n: Number of runs.
        seed: Seed of the set.
        complete: Keep every signal in every log, and every feature of it: what is learned from.
        jobs: Processes.
    """
    parts = [(min(PART, n - first), 1000 * seed + i, complete) for i, first in enumerate(range(0, n, PART))]
    if jobs == 1:
        return [row for part in parts for row in _part(*part)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return [row for rows in pool.map(_part, *zip(*parts, strict=True)) for row in rows]


def _part(n: int, seed: int, complete: bool) -> list[Row]:
    runs = labelled_runs(n, seed, complete=complete)
    with compilation_cache():
        gathered = gather_all([r.run for r in runs])
    return [
        Row(
            r.label,
            r.modes,
            {} if g is None else g.all_features if complete else g.features,
            {} if complete else {name: rival(r.run) for name, rival in RIVALS.items()},
        )
        for r, g in zip(runs, gathered, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5400)
    parser.add_argument("--tune", type=int, default=1350)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    begun = time.perf_counter()
    rows = rows_of(options.runs, options.seed, True, options.jobs)
    print(f"{len(rows)} runs for learning, {time.perf_counter() - begun:.0f} s", flush=True)
    tune = rows_of(options.tune, options.seed + 1, False, options.jobs)
    print(f"{len(tune)} runs for the exponent, {time.perf_counter() - begun:.0f} s", flush=True)
    write(rows, tune, options.seed, options.out)


def write(rows: Sequence, tune: Sequence, seed: int, out: Path) -> Likelihoods:
    """Learns, tunes, reports and writes the table."""
    import jax

    labels = [r.label for r in rows]
    provenance = {
        "made by": "benchmarks/learn_diagnosis.py",
        "runs": {name: labels.count(name) for name in CLASSES},
        "runs for the exponent": len(tune),
        "seeds": [seed, seed + 1],
        "settings": SETTINGS,
        "versions": {"jax": jax.__version__, "numpy": np.__version__},
    }
    table, scores = tuned(learn(rows, provenance), tune)
    print("components:", {k: len(m.weight) for k, m in table.classes.items()})
    print("mean log score by exponent:", {t: round(s, 3) for t, s in scores.items()}, "taken:", table.temper)
    with written_whole(out) as temporary:
        temporary.write_text(json.dumps(table.to_dict(), separators=(",", ":")) + "\n", encoding="utf-8")
    if out == TARGET:
        by_exponent = {f"{t:g}".replace(".", "_"): s for t, s in scores.items()}
        keep("learn_diagnosis", {"runs": len(rows), "log_score": by_exponent, "exponent": table.temper})
    print(f"{out.name}: {out.stat().st_size / 1000:.0f} kB")
    return table


if __name__ == "__main__":
    main()
