"""Is the forecast calibrated? Coverage of the final reward's 90% interval on simulated runs with known truth.

    python benchmarks/forecast_calibration.py [--runs 200] [--jobs 2] [--json OUT]

A law is drawn with its prior weight, its parameters from fixed priors, and a run of 100 rows from the law: underlying
reward, logged rows, and a learning rate that is constant, or falls linearly or as a cosine to 0 at the last row. The
run is forecast after 20, 40 and 60% of its rows, by the same function as a user's, with the same priors and the
planned length as setting; the truth is the underlying reward of the last row. Coverage of the last logged row and of
single laws' truths is printed too.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.rows.padding import padded
from benchmarks.common import keep

ROWS = 100
ORIGINS = (0.2, 0.4, 0.6)
COVERED = (0.86, 0.94)
SCHEDULES = ("constant", "linear", "cosine")
LAWS = ("flat", "exponential", "oscillator", "bernoulli", "logistic", "sigmoid")
PRIORS = {
    "fixed_point": (0.65, 0.15),
    "initial_reward": (0.3, 0.1),
    "observation_sd": (0.05, 0.4),
    "fluctuation_sd": (0.03, 0.4),
    "fluctuation_time": (6.0, 0.6),
    "relaxation_time": (30.0, 0.7),
    "response_time": (30.0, 0.7),
    "damping_ratio": (2.0, 0.6),
    "half_gain_step": (30.0, 0.7),
    "initial_success": (0.15, 0.8),
    "midpoint": (40.0, 0.6),
    "exponent": (2.0, 0.4),
}


def priors_of(regime: Any, table: Any = None) -> dict[str, Any]:
    """The fixed priors of a regime."""
    from bayes_grpo.regimes.base import Prior

    return {p.name: Prior(*PRIORS[p.name]) for p in regime.parameters}


def empty_run(schedule: str, rows: int = ROWS) -> Any:
    """Steps and a logged learning rate; rewards come later."""
    from bayes_grpo.logs.run import Run
    from bayes_grpo.logs.settings import Provenance, Setting, Settings

    step = np.arange(1.0, rows + 1)
    done = step / rows
    shape = {"constant": np.ones(rows), "linear": 1.0 - done, "cosine": 0.5 * (1.0 + np.cos(np.pi * done))}
    settings = Settings(
        schedule=Setting("logged", Provenance.LOGGED), total_steps=Setting(float(rows), Provenance.CONFIG)
    )
    nothing = np.array([])
    signals = {"learning_rate": 1e-5 * shape[schedule]}
    return Run("simulated", "simulated", "none", "0", step, np.zeros(rows), np.ones(rows), signals, nothing, nothing,
               settings)  # fmt: skip


def simulate(regime: Any, run: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Underlying reward and logged row of every step, drawn from the law with parameters from the fixed priors."""
    from dataclasses import replace

    import jax

    from bayes_grpo.dynamics.state_space import dense
    from bayes_grpo.fitting.fit import draw_prior
    from bayes_grpo.fitting.sampling.target import target_of
    from bayes_grpo.rows.rows_of import rows_of
    from benchmarks.common import draw_rows

    table = rows_of(replace(run, reward=np.linspace(0.0, 1.0, len(run.step))))  # any values: the priors are fixed
    with jax.enable_x64(True):
        target = target_of(regime, table, priors_of(regime))
        draws = {k: float(v[0]) for k, v in draw_prior(target, rng, size=1).items()}
        levels = {p.name: (draws[p.name], 0.0) for p in regime.marginalized}
        rows = padded(table, len(table.y))
        space = dense(regime.state_space({p.name: draws[p.name] for p in regime.sampled}, levels, rows), len(table.y))
        space = jax.tree.map(np.asarray, space)
    return draw_rows(space, rng)


def one(i: int, seed: int) -> list[dict[str, Any]]:
    """Forecasts of one simulated run."""
    warnings.simplefilter("ignore")
    from dataclasses import replace
    from unittest.mock import patch

    from bayes_grpo.fitting.sampling.nuts import SamplerSettings
    from bayes_grpo.forecasting.fits import prior_weights
    from bayes_grpo.forecasting.forecast import forecast
    from bayes_grpo.regimes import get_regime

    rng = np.random.default_rng([seed, i])
    prior = prior_weights([get_regime(x) for x in LAWS])
    regime = get_regime(str(rng.choice(list(prior), p=list(prior.values()))))
    schedule = SCHEDULES[i % len(SCHEDULES)]
    run = empty_run(schedule)
    latent, y = simulate(regime, run, rng)
    run = replace(run, reward=y)
    out = []
    for origin in ORIGINS:
        begun = time.perf_counter()
        past = run.until(origin * ROWS)
        sampler = SamplerSettings(num_chains=4, num_warmup=200, num_samples=250)
        with patch("bayes_grpo.forecasting.fits.forecast_priors", priors_of):  # those that the runs were drawn from
            found = forecast(past, ROWS, seed=i, sampler=sampler)
        final, row = found.latent[:, -1], found.rows[:, -1]
        tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
        out.append(
            {
                "law": regime.name,
                "schedule": schedule,
                "origin": origin,
                "inside": bool(np.quantile(final, tails[0]) <= latent[-1] <= np.quantile(final, tails[1])),
                "row_inside": bool(np.quantile(row, tails[0]) <= y[-1] <= np.quantile(row, tails[1])),
                "pit": float(np.mean(final < latent[-1])),
                "weight_of_truth": found.weights.get(regime.name, 0.0),
                "seconds": time.perf_counter() - begun,
            }
        )
    return out


def report(found: list[dict[str, Any]]) -> bool:
    """Prints coverage by origin, schedule and law; returns whether the aim is met."""
    met = True
    print(f"{'':24s} forecasts  final reward  last row  mean PIT")
    for key in ("origin", "schedule", "law"):
        for value in dict.fromkeys(f[key] for f in found):
            own = [f for f in found if f[key] == value]
            share, row = np.mean([f["inside"] for f in own]), np.mean([f["row_inside"] for f in own])
            fine = COVERED[0] <= share <= COVERED[1]
            met = met and (fine or key != "origin")
            mark = "" if fine or key != "origin" else "  OUTSIDE"
            label = f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
            print(
                f"{label:24s} {len(own):9d}  {share:12.3f}  {row:8.3f}  {np.mean([f['pit'] for f in own]):8.2f}{mark}"
            )
    error = np.sqrt(LEVEL * (1 - LEVEL) / max(sum(f["origin"] == ORIGINS[0] for f in found), 1))
    print(f"aim: coverage of the {LEVEL:.0%} interval within {COVERED} at every origin: {'met' if met else 'NOT MET'} "
          f"(standard error {error:.3f}); {np.median([f['seconds'] for f in found]):.1f} s a forecast")  # fmt: skip
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for i, result in enumerate(pool.map(one, range(options.runs), [options.seed] * options.runs)):
            found += result
            if (i + 1) % 25 == 0:
                inside = np.mean([f["inside"] for f in found])
                print(f"{i + 1} runs, coverage so far {inside:.3f}", flush=True)
    report(found)
    inside = {o: [f["inside"] for f in found if f["origin"] == o] for o in ORIGINS}
    covered = {f"origin_{100 * o:.0f}": float(np.mean(x)) for o, x in inside.items()}
    keep("forecast_calibration", {"runs": options.runs, "coverage": covered})
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
