"""Do the intervals of curvature, damping and fixed point cover the truth of simulated GRPO runs?

    python benchmarks/recovery.py [--runs 200] [--regime hold reduction] [--distance near far] [--json OUT]

Real GRPO updates on a two-armed bandit with a KL penalty, so that the fixed point is interior and its curvature is
known by finite differences of the expected update. Each run is written as a TRL log with its sidecar of settings and
read back from there, as `bayes-grpo fit` does. Two families: overdamped (gain at 0.2 to 0.8 of the onset of
oscillation) and oscillatory (10 to 40 times the onset, at most 0.6 of the exact threshold). "near" starts 0.4 to 0.8
logits from the fixed point, where the drift is nearly linear; "far" 1.5 to 2, where it is not. Overdamped runs are
logged every 4 steps. The share of the gradient that is late is drawn too, and not told to the fit.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path

import jax
import numpy as np

from bayes_grpo import fit, read_log, summarize
from bayes_grpo.dynamics.reduction import critical_gain, mean_lag, onset_of_oscillation
from bayes_grpo.errors import BayesGrpoWarning
from bayes_grpo.simulate import Numbers, SimulatedRun, Structure, bernoulli_bandit, simulate, truth_of, write_runs

DISTANCES = {"near": (0.4, 0.8), "far": (1.5, 2.0)}
STEPS = {"overdamped": 400, "oscillatory": 200}
LOGGING = {"overdamped": 4, "oscillatory": 1}
INTERVALS = (1, 2, 4)


def settings(family: str, distance: str, rng: np.random.Generator) -> tuple[Numbers, float, float]:
    """Numeric settings of one run, its start and its reference, in logits."""
    mu, interval = rng.uniform(0.85, 0.95), int(rng.choice(INTERVALS))
    onset = float(onset_of_oscillation(mu))
    if family == "overdamped":
        gain = onset * rng.uniform(0.2, 0.8)
    else:
        highest = min(40.0, 0.6 * critical_gain(mu, interval, "hold") / onset)
        gain = onset * rng.uniform(min(10.0, 0.8 * highest), highest)
    logit, away, pull = rng.uniform(0.0, 0.85), rng.uniform(*DISTANCES[distance]), rng.uniform(1.0, 2.0)
    weight = (1.0 - 1.0 / 8) / pull
    p = 1.0 / (1.0 + np.exp(-logit))
    numbers = Numbers(
        learning_rate=gain / (weight * p * (1.0 - p)),
        momentum=mu,
        refresh_interval=interval,
        lag_exposure=rng.uniform(0.1, 0.9),
        kl_weight=weight,
    )
    return numbers, logit - away, logit - pull


def make_runs(family: str, distance: str, n: int, seed: int) -> list[SimulatedRun]:
    """Simulated runs with their truth, in one batch."""
    structure = Structure(n_steps=STEPS[family], group_size=8, prompts_per_step=16, advantage="mean", refresh="hold")
    drawn = [settings(family, distance, np.random.default_rng([seed, i])) for i in range(n)]
    numbers = Numbers(*map(np.array, zip(*(d[0] for d in drawn), strict=True)))
    places = [bernoulli_bandit(d[1], d[2]) for d in drawn]
    batch = simulate(structure, numbers, jax.tree.map(lambda *x: np.stack(x), *places), list(range(n)))
    runs = []
    for i, (own, place) in enumerate(zip((d[0] for d in drawn), places, strict=True)):
        trajectory = jax.tree.map(lambda leaf, i=i: leaf[i], batch)
        truth = truth_of(trajectory, structure, own, place)
        runs.append(SimulatedRun(family, i, i, structure, own, place, trajectory, truth))
    return runs


def true_values(run: SimulatedRun) -> dict[str, float]:
    """Curvature, damping and fixed point of a run."""
    numbers, truth = run.numbers, run.truth
    lag = mean_lag(float(numbers.refresh_interval), "hold")
    return {
        "curvature": truth.curvature,
        "damping": 1.0 - float(numbers.momentum) - truth.gain * lag * float(numbers.lag_exposure),
        "fixed_point": truth.fixed_point,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--family", nargs="+", default=list(STEPS))
    parser.add_argument("--regime", nargs="+", default=["reduction"])
    parser.add_argument("--distance", nargs="+", default=["near"])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    results = []
    print(f"{'family':12s} {'start':5s} {'regime':10s} {'quantity':12s} covered (90%)  median error  bias/sd  failed")
    for family in options.family:
        for distance in options.distance:
            runs = make_runs(family, distance, options.runs, options.seed)
            with tempfile.TemporaryDirectory() as place:
                paths = write_runs(runs, Path(place) / "runs", logging_steps=LOGGING[family])
                logs = [read_log(path) for path in paths]
            for regime in options.regime:
                begun, covered, error, pull, failed = time.perf_counter(), {}, {}, {}, 0
                for run, log in zip(runs, logs, strict=True):
                    result = fit(log, regime, signal="reward", seed=run.index)
                    summary = summarize(result)
                    failed += not summary.convergence.passed
                    rows = {r.name: r.posterior for r in summary.rows}
                    for name, value in true_values(run).items():
                        i = rows[name]
                        slack = 1e-9 * abs(
                            value
                        )  # without lag the damping is known exactly, and the interval is a point
                        covered.setdefault(name, []).append(i.low - slack <= value <= i.high + slack)
                        error.setdefault(name, []).append(i.median / value - 1.0)
                        sd = max(float(np.std(result.draws(name))), 1e-300)
                        pull.setdefault(name, []).append((i.median - value) / sd)
                for name, hits in covered.items():
                    print(
                        f"{family:12s} {distance:5s} {regime:10s} {name:12s} {np.mean(hits):12.3f}    "
                        f"{np.median(error[name]):+12.1%} {np.mean(pull[name]):+8.2f} {failed:6d}"
                    )
                print(f"    {len(runs)} fits in {time.perf_counter() - begun:.0f} s", flush=True)
                results.append({"family": family, "distance": distance, "regime": regime, "failed": failed}
                               | {"coverage": {k: float(np.mean(v)) for k, v in covered.items()}})  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
