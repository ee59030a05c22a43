"""Do the intervals of curvature, damping and fixed point cover the truth of simulated GRPO runs?

    python -m benchmarks.calibration.recovery [--runs 200] [--distance near far] [--json OUT]

Real GRPO updates on a two-armed bandit with a KL penalty, so that the fixed point is interior and its curvature is
known by finite differences of the expected update. Each run is written as a TRL log with its sidecar of settings and
read back from there, as `bayes-grpo fit` does. Two families: overdamped, with a gain of at most 0.8 of the onset of
oscillation, and oscillatory, at 2 to 40 times the onset and at most 0.6 of the exact threshold.

A 90% interval covers 90% only over truths that are as wide as its prior. So learning time, lag exposure, measurement
noise and gradient noise are drawn with the spread of the priors of the fit (one e-fold, 1.5 logits), by way of the
settings that cause them: learning rate, momentum, prompts a step, KL weight. Within a family a draw that the other
family would claim is drawn again. The sampling policy is held for 2, 4 or 8 steps: at 1 there is no lag, and the
damping 1 − μ is known. "near" starts 0.1 to 0.3 logits above or below the fixed point, where the drift is linear as
far as the rows can tell; "far" starts 1 to 1.5 logits below it, where it is not.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayes_grpo import fit, read_log, summarize
from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.dynamics.reduction import critical_gain, mean_lag, onset_of_oscillation
from bayes_grpo.simulate.policies import bernoulli_bandit
from bayes_grpo.simulate.scenarios import SimulatedRun
from bayes_grpo.simulate.settings import Numbers, Structure
from bayes_grpo.simulate.trainer_log import write_runs
from bayes_grpo.simulate.training import simulate
from bayes_grpo.simulate.truth import truth_of
from benchmarks.common import keep
from benchmarks.lab.fixed_points import linearized

QUANTITIES = ("curvature", "damping", "fixed_point")
DISTANCES = {"near": (0.1, 0.3), "far": (1.0, 1.5)}
STEPS = {"overdamped": 384, "oscillatory": 128}
LOGGING = {"overdamped": 4, "oscillatory": 1}
INTERVALS = (2, 4, 8)
GROUP_SIZE = 8
PROMPTS = tuple(4**i for i in range(7))
SPLITS = ((2.0, 5.0), (5.0, 15.0), (15.0, 40.0))
"""Gain over the onset of oscillation: how far the continuum of `reduction` reaches."""


def settings(family: str, distance: str, rng: np.random.Generator) -> tuple[int, Numbers, float, float]:
    """Prompts a step and numeric settings of one run, its start and its reference in logits."""
    logit, away = rng.uniform(-0.85, 0.85), rng.uniform(*DISTANCES[distance])
    away = away if distance == "far" else away * rng.choice([-1.0, 1.0])
    p, start = 1.0 / (1.0 + np.exp(-np.array([logit, logit - away])))
    steps, window = STEPS[family], LOGGING[family]
    # Prior of the noises: 0.5 and 0.2 of the rows' spread, of which an exponential way makes about a third.
    noise = 0.5 * 0.35 * abs(p - start) * np.exp(rng.standard_normal())
    prompts = min(PROMPTS, key=lambda b: abs(np.log(b * GROUP_SIZE * window * noise**2 / (p * (1.0 - p)))))
    ratio = 0.4 * np.exp(np.sqrt(2.0) * rng.standard_normal())
    exposure, interval = 1.0 / (1.0 + np.exp(-1.5 * rng.standard_normal())), int(rng.choice(INTERVALS))
    learning_time, mu = _speed(family, steps, interval, rng)
    # Stationary variance of the reward over that of a row's sampling noise is (1 − 1/G) window / (2 τ β²).
    weight = np.sqrt((1.0 - 1.0 / GROUP_SIZE) * window / (2.0 * learning_time)) / ratio
    numbers = Numbers(
        learning_rate=(1.0 - mu) / learning_time / (weight * p * (1.0 - p)),
        momentum=mu,
        refresh_interval=interval,
        lag_exposure=exposure,
        kl_weight=weight,
    )
    return prompts, numbers, logit - away, logit - (1.0 - 1.0 / GROUP_SIZE) / weight


def _speed(family: str, steps: int, interval: int, rng: np.random.Generator) -> tuple[float, float]:
    """Learning time from the prior of the fit, and a momentum with which the run belongs to its family."""
    while True:
        learning_time = steps / 5.0 * np.exp(rng.standard_normal())
        for _ in range(20):
            mu = rng.uniform(0.3, 0.97) if family == "overdamped" else 1.0 - 10.0 ** rng.uniform(-2.3, -0.7)
            gain, onset = (1.0 - mu) / learning_time, float(onset_of_oscillation(mu))
            if family == "overdamped" and gain < 0.8 * onset:
                return learning_time, mu
            highest = min(40.0 * onset, 0.6 * critical_gain(round(mu, 3), interval, "hold"))
            if family == "oscillatory" and 2.0 * onset < gain < highest:
                return learning_time, mu


def make_runs(family: str, distance: str, n: int, seed: int) -> list[SimulatedRun]:
    """Simulated runs with their truth, in one batch for each number of prompts."""
    drawn = [settings(family, distance, np.random.default_rng([seed, i])) for i in range(n)]
    runs: list[SimulatedRun] = []
    for prompts in PROMPTS:
        indices = [i for i, d in enumerate(drawn) if d[0] == prompts]
        if not indices:
            continue
        structure = Structure(
            n_steps=STEPS[family], group_size=GROUP_SIZE, prompts_per_step=prompts, advantage="mean", refresh="hold"
        )
        own = [drawn[i][1] for i in indices]
        places = [bernoulli_bandit(drawn[i][2], drawn[i][3]) for i in indices]
        numbers = Numbers(*map(np.array, zip(*own, strict=True)))
        batch = simulate(structure, numbers, jax.tree.map(lambda *x: np.stack(x), *places), indices)
        for k, i in enumerate(indices):
            trajectory = jax.tree.map(lambda leaf, k=k: leaf[k], batch)
            truth = truth_of(trajectory, places[k].train)
            runs.append(SimulatedRun(family, i, i, structure, own[k], places[k], trajectory, truth))
    return sorted(runs, key=lambda run: run.index)


def true_values(run: SimulatedRun) -> dict[str, float] | None:
    """Curvature, damping, fixed point and gain of a run; None where the search for a fixed point found none."""
    numbers, near = run.numbers, linearized(run.trajectory, run.structure, run.numbers, run.environment)
    if near is None:
        return None
    lag = mean_lag(float(numbers.refresh_interval)) * float(numbers.lag_exposure)
    damping = 1.0 - float(numbers.momentum) - near.gain * lag
    return {
        "curvature": near.point.curvature,
        "damping": damping,
        "fixed_point": near.point.reward,
        "gain": near.gain,
    }


def recover(run: SimulatedRun, true: dict[str, float], path: Path, regime: str) -> dict[str, Any]:
    """Fits one run's log and compares each quantity with its truth."""
    result = fit(read_log(path), regime, signal="reward", seed=run.index)
    rows = {row.name: row.posterior for row in summarize(result).rows}
    momentum = float(run.numbers.momentum)
    out: dict[str, Any] = {
        "run": run.index,
        "converged": result.convergence.passed,
        "momentum": momentum,
        "refresh_interval": int(run.numbers.refresh_interval),
        "gain_over_onset": true["gain"] / float(onset_of_oscillation(momentum)),
        "steps_over_learning_time": run.structure.n_steps * true["gain"] / (1.0 - momentum),
    }
    for name in QUANTITIES:
        draws, truth = result.draws(name), true[name]
        out[name] = {
            "truth": truth,
            "median": rows[name].median,
            "low": rows[name].low,
            "high": rows[name].high,
            "covered": bool(rows[name].low <= truth <= rows[name].high),
            "rank": float(np.mean(draws < truth)),
            "error_in_sd": (rows[name].median - truth) / float(np.std(draws)),
        }
    return out


def recovered(family: str, distance: str, runs: int, regime: str, seed: int) -> list[dict[str, Any]]:
    """Fits all runs of a family through their logs."""
    pairs = [(run, true_values(run)) for run in make_runs(family, distance, runs, seed)]
    made = [(run, true) for run, true in pairs if true is not None]
    if len(made) < runs:
        print(f"    {runs - len(made)} runs without a fixed point that could be measured are left out", flush=True)
    with tempfile.TemporaryDirectory() as place:
        paths = write_runs([run for run, _ in made], Path(place) / "runs", logging_steps=LOGGING[family])
        return [recover(run, true, path, regime) for (run, true), path in zip(made, paths, strict=True)]


def coverage(found: list[dict[str, Any]], name: str) -> float:
    """Share of the runs whose interval of a quantity holds its truth."""
    return float(np.mean([f[name]["covered"] for f in found]))


def show(title: str, found: list[dict[str, Any]]) -> None:
    """Prints coverage, error and width of every quantity over some runs."""
    for name in QUANTITIES:
        error = [f[name]["median"] / f[name]["truth"] - 1.0 for f in found]
        z = [f[name]["error_in_sd"] for f in found]
        width = [(f[name]["high"] - f[name]["low"]) / abs(f[name]["truth"]) for f in found]
        print(
            f"{title:44s} {name:12s} {coverage(found, name):8.3f} {np.median(error):+13.1%} {np.median(width):11.1%} "
            f"{np.mean(z):+9.2f} {np.std(z):7.2f} {len(found):6d} {sum(not f['converged'] for f in found):7d}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--family", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--distance", nargs="+", default=["near"], choices=list(DISTANCES))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    results = {}
    print(
        f"{'family, start, regime':44s} {'quantity':12s} 90% cover  median error  rel. width   mean z    sd z   runs"
        "  failed"
    )
    for family, distance, regime in product(options.family, options.distance, ["reduction"]):
        begun, title = time.perf_counter(), f"{family}, {distance}, {regime}"
        results[title] = found = recovered(family, distance, options.runs, regime, options.seed)
        show(title, found)
        for low, high in SPLITS if family == "oscillatory" else ():
            some = [f for f in found if low <= f["gain_over_onset"] < high]
            if some:
                show(f"    gain at {low:g} to {high:g} times the onset", some)
        print(f"    {time.perf_counter() - begun:.0f} s", flush=True)
    keep(
        "recovery",
        {
            title: {"runs": len(found), "coverage": {name: coverage(found, name) for name in QUANTITIES}}
            for title, found in results.items()
            if found
        },
    )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
