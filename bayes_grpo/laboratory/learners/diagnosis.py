"""Learns the layer of the diagnosis from labelled logs and simulated runs and writes it as the package's table.

    python -m bayes_grpo.laboratory.learners.diagnosis INDEX.csv ... --lab FOLDER ... [--simulated 900] [--seed 100]
                                                       [--jobs 2] [--out layer.json]

The logs of one repository count as `_MOST` logs at most, and so do all small softmax policies together and all runs of
the deep laboratory (`lab_logs` makes them): authors differ more than their runs do, and a simulator is one author.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.cache import compilation_cache
from bayes_grpo.common.files import written_whole
from bayes_grpo.diagnosis.classes import CANNOT_TELL, CLASSES, MODES, PRIOR
from bayes_grpo.diagnosis.classify import leading, log_odds
from bayes_grpo.diagnosis.features import gather_all
from bayes_grpo.diagnosis.layer import INTERCEPT_SD, PREDICTORS, WEIGHT_SD, Comorbidity, Layer, event_values
from bayes_grpo.laboratory.learners.lab_logs import lab_logs, thinned
from bayes_grpo.laboratory.learners.public_logs import labelled_logs
from bayes_grpo.laboratory.learners.record import keep
from bayes_grpo.laboratory.learners.simulated_runs import SETTINGS, labelled_runs
from bayes_grpo.logs.run import Run

_TARGET = Path(__file__).parents[2] / "diagnosis" / "layer.json"
_PART = 450
_MOST = 8.0
Rivals = Mapping[str, Callable[[Run], Mapping[str, float]]]
"""Rival → function of a run that gives the step of its first alarm for each failure."""
SIMULATED, LABORATORY = "simulated", "laboratory"
_WITHOUT = Comorbidity(0.0, 1.0)
"""Before anything is learned: a failure beside another one has its probability against no failure."""


class LabelledCase(NamedTuple):
    """A labelled run as the layer learns from it.

    Attributes:
        label: What it is.
        repository: Whose it is.
        features: What the layer sees.
        modes: Every failure under way; None where only the leading one is known.
    """

    label: str
    repository: str
    features: Mapping[str, float]
    modes: tuple[str, ...] | None = None


def learn_layer(cases: Sequence[LabelledCase], provenance: Mapping[str, object]) -> Layer:
    """The layer of highest posterior density: multinomial logistic likelihood, normal priors.

    What a failure keeps of its evidence beside another one is learned after it, from the cases that know every failure.
    """
    from scipy.optimize import minimize

    x = np.stack([event_values(c.features) for c in cases])
    truth = np.array([CLASSES.index(c.label) for c in cases])
    count = Counter(c.repository for c in cases)
    weight = np.array([min(1.0, _MOST / count[c.repository]) for c in cases])
    belongs = np.array([CLASSES.index(e.belongs) for e in PREDICTORS])
    middle, k = np.array([e.weight for e in PREDICTORS]), len(CLASSES)
    place = np.eye(k)[belongs]

    def loss(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        intercept, slope = numbers[:k], numbers[k:]
        score = intercept + (x * slope) @ place
        log = score - np.logaddexp.reduce(score, axis=1, keepdims=True)
        away = (slope - middle) / WEIGHT_SD
        value = -float(weight @ log[np.arange(len(truth)), truth]) + 0.5 * float(
            away @ away + intercept @ intercept / INTERCEPT_SD**2
        )
        off = (np.exp(log) - np.eye(k)[truth]) * weight[:, None]
        slopes = np.sum(off[:, belongs] * x, axis=0) + away / WEIGHT_SD
        return value, np.concatenate([off.sum(axis=0) + intercept / INTERCEPT_SD**2, slopes])

    found = minimize(loss, np.concatenate([np.zeros(k), middle]), jac=True, method="L-BFGS-B").x
    share = np.bincount(truth, weight, k) + 1.0
    layer = Layer(found[:k] - found[:k].mean(), found[k:], share / share.sum(), dict(provenance), _WITHOUT)
    known = [(c, w) for c, w in zip(cases, weight, strict=True) if c.modes is not None]
    return replace(layer, comorbidity=learn_comorbidity(known, layer)) if known else layer


def learn_comorbidity(cases: Sequence[tuple[LabelledCase, float]], layer: Layer) -> Comorbidity:
    """What a failure keeps of its own evidence beside one that leads: the maximum of a weighted Bernoulli likelihood.

    Args:
        cases: Cases of which every failure is known, with their weights.
        layer: The layer; its own `comorbidity` is not used.
    """
    from scipy.optimize import minimize

    leads = [leading(c.features, PRIOR, layer) if c.features else None for c, _ in cases]
    told = [i for i, found in enumerate(leads) if found is not None]
    p = np.array([[found[mode] for mode in MODES] for found in leads if found is not None])
    odds = np.array([log_odds(found) for found in leads if found is not None])
    there = np.array([[mode in (cases[i][0].modes or ()) for mode in MODES] for i in told])
    weight = np.array([cases[i][1] for i in told])[:, None]
    others = p.sum(axis=1, keepdims=True) - p

    def loss(numbers: np.ndarray) -> float:
        own = np.clip(p + others / (1.0 + np.exp(-(numbers[0] + numbers[1] * odds))), 1e-6, 1.0 - 1e-6)
        return -float(np.sum(weight * np.where(there, np.log(own), np.log1p(-own))))

    found = minimize(loss, np.array([-1.0, 0.5]), method="Nelder-Mead").x
    return Comorbidity(float(found[0]), float(found[1]))


def frequencies(labels: Sequence[str], cannot_tell: float = 0.12) -> dict[str, float]:
    """A prior with the frequencies of the labels."""
    share = np.array([labels.count(name) for name in CLASSES], dtype=float) + 1.0
    share *= (1.0 - cannot_tell) / share.sum()
    return dict(zip(CLASSES, share.tolist(), strict=True)) | {CANNOT_TELL: cannot_tell}


class LayerRow(NamedTuple):
    """What is kept of a simulated run.

    Attributes:
        label: What it is.
        modes: Failures under way.
        features: What the layer sees.
        alarms: Rival → mode → step of its first alarm.
    """

    label: str
    modes: tuple[str, ...]
    features: Mapping[str, float]
    alarms: Mapping[str, Mapping[str, float]]


def layer_rows(n: int, seed: int, complete: bool, jobs: int = 1, rivals: Rivals | None = None) -> list[LayerRow]:
    """Simulates runs and gathers their evidence.

    The runs come in parts with a seed each, so that their number of processes does not matter.

    Args:
        n: Number of runs.
        seed: Seed of the set.
        complete: Keep every signal in every log.
        jobs: Processes.
        rivals: Name → what tells the alarms of a run; asked of every run.
    """
    asked = rivals or {}
    parts = [(min(_PART, n - first), 1000 * seed + i, complete, asked) for i, first in enumerate(range(0, n, _PART))]
    if jobs == 1:
        return [row for part in parts for row in _part(*part)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return [row for rows in pool.map(_part, *zip(*parts, strict=True)) for row in rows]


def _part(n: int, seed: int, complete: bool, rivals: Rivals) -> list[LayerRow]:
    runs = labelled_runs(n, seed, complete=complete)
    with compilation_cache():
        gathered = gather_all([r.run for r in runs])
    return [
        LayerRow(
            r.label,
            r.modes,
            {} if g is None else g.features,
            {name: rival(r.run) for name, rival in rivals.items()},
        )
        for r, g in zip(runs, gathered, strict=True)
    ]


def lab_rows(folders: Sequence[Path], complete: bool, seed: int = 5) -> list[LayerRow]:
    """Evidence of laboratory logs, with all signals or with signals missing at random."""
    logs, rng = lab_logs(folders), np.random.default_rng(seed)
    runs = [x.run if complete else thinned(x.run, rng) for x in logs]
    with compilation_cache():
        found = [g for first in range(0, len(runs), 64) for g in gather_all(runs[first : first + 64])]
    pairs = zip(logs, found, strict=True)
    return [LayerRow(x.label, x.modes, {} if g is None else g.features, {}) for x, g in pairs]


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path, nargs="+")
    parser.add_argument("--lab", type=Path, nargs="+", required=True, help="folders of `lab_logs`")
    parser.add_argument("--simulated", type=int, default=900)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--leave-out", nargs="*", default=["rec_"], help="Logs whose names begin so: out of domain.")
    parser.add_argument("--out", type=Path, default=_TARGET)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    begun = time.perf_counter()
    simulated = layer_rows(options.simulated, options.seed, False, options.jobs)
    logs = [x for x in labelled_logs(options.index) if not x.name.startswith(tuple(options.leave_out))]
    cases = [LabelledCase(x.label, x.repository, x.features) for x in logs]
    cases += [LabelledCase(r.label, SIMULATED, r.features, r.modes) for r in simulated]
    lab = [r for complete in (True, False) for r in lab_rows(options.lab, complete)]
    cases += [LabelledCase(r.label, LABORATORY, r.features, r.modes) for r in lab]
    layer = learn_layer(
        cases,
        {
            "made by": "bayes_grpo/laboratory/learners/diagnosis.py",
            "logs": dict(Counter(x.label for x in logs)),
            "repositories": len({x.repository for x in logs}),
            "simulated": dict(Counter(r.label for r in simulated)),
            "laboratory": dict(Counter(r.label for r in lab)),
            "seed": options.seed,
            "settings": SETTINGS,
        },
    )
    with written_whole(options.out) as temporary:
        temporary.write_text(json.dumps(layer.to_dict(), indent=1) + "\n", encoding="utf-8")
    if options.out == _TARGET:
        keep(
            "learn_diagnosis",
            {
                "logs": len(logs),
                "simulated": len(simulated),
                "laboratory": len(lab) // 2,
                "numbers": layer.to_dict()["weight"],
            },
        )
    print(json.dumps(layer.to_dict(), indent=1))
    print(f"{len(cases)} runs, {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
