"""Simulation-based calibration: are the posteriors what they claim to be, those of NUTS and the fast ones?

    python -m benchmarks.calibration [--runs 300] [--regime oscillator ...] [--posterior nuts fast] [--jobs 2]
                                     [--json OUT]

Parameters are drawn from fixed priors, rows are drawn from the law with these parameters, and the rows are fitted
with the same priors. If sampler, likelihood and the drawing of the integrated-out levels are right, the rank of the
truth among the posterior draws is uniform (Talts et al. 2018, arXiv 1804.06788). The band is the simultaneous 95% band
for the ECDF of uniform ranks (Säilynoja et al. 2022, https://doi.org/10.1007/s11222-022-10090-6), found here by
simulation. It is a band for one parameter: of 34 parameters of six laws that are calibrated, one or two leave it by
chance. So the table says beside it how many do, and the largest excursion in a band for all of them together.

Both posteriors see the same runs: what both show is the luck of the runs, what one shows is that sampler's.

Half of the runs have a constant learning rate and a row a step; the other half a linear schedule to zero, windows of
several steps and gaps between the rows, and the measurement noise is known: it differs from row to row by a factor of
up to 3 in sd, and its prior is as narrow as that of a log that states groups.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.dynamics.state_space import dense
from bayes_grpo.fitting.draws import fast_posterior, sample_posterior
from bayes_grpo.fitting.fit import draw_prior
from bayes_grpo.fitting.sampling.target import target_of
from bayes_grpo.forecasting.fits import FORECAST_REGIMES
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Prior, Regime
from bayes_grpo.rows.known_noise import BY_GROUPS
from bayes_grpo.rows.padding import padded, shared
from bayes_grpo.rows.rows_of import rows_of
from bayes_grpo.rows.series import Series
from benchmarks.common import draw_rows, keep, side_by_side

ROWS = 60
THINNED = 100
COVERED = (0.86, 0.94)
PRIORS = {
    "oscillator": {"response_time": Prior(15.0, 0.8), "damping_ratio": Prior(2.0, 0.8)},
    "exponential": {"relaxation_time": Prior(15.0, 0.8)},
    "flat": {"fluctuation_time": Prior(4.0, 0.7)},
    "bernoulli": {"half_gain_step": Prior(15.0, 0.8), "initial_success": Prior(0.3, 1.5)},
    "logistic": {"half_gain_step": Prior(15.0, 0.8), "initial_success": Prior(0.3, 1.1)},
    "sigmoid": {"midpoint": Prior(20.0, 0.8), "exponent": Prior(1.5, 0.5)},
}
SHARED = {
    "fluctuation_time": Prior(4.0, 0.8),
    "observation_sd": Prior(0.10, 0.7),
    "fluctuation_sd": Prior(0.06, 0.7),
    "fixed_point": Prior(0.5, 0.4),
    "initial_reward": Prior(0.3, 0.3),
}


KNOWN = Prior(0.10, BY_GROUPS.spread)


def priors_of(regime: Regime, known_noise: bool) -> dict[str, Prior]:
    """Fixed priors of a regime's parameters; its default ones look at the data."""
    known = SHARED | PRIORS[regime.name] | ({"observation_sd": KNOWN} if known_noise else {})
    return {p.name: known[p.name] for p in regime.parameters if p.name in known}


def empty_run(schedule: bool, rows: int = ROWS) -> Run:
    """A run without values: its steps, windows, learning rates."""
    step = np.arange(1.0, rows + 1)
    window = np.ones(rows)
    signals = {}
    settings = Settings(schedule=Setting("constant", Provenance.USER))
    if schedule:
        step = np.cumsum(np.tile([3.0, 1.0, 2.0], rows // 3 + 1)[:rows]) / 2.0 + 1.0
        window = np.full(rows, 0.5)
        signals = {"learning_rate": 1e-5 * (1.0 - step / step[-1])}
        settings = Settings(schedule=Setting("logged", Provenance.LOGGED))
    nothing = np.array([])
    return Run("simulated", "simulated", "none", "0", step, np.zeros(rows), window, signals, nothing, nothing, settings)


def with_reward(run: Run, y: np.ndarray) -> Run:
    """The run with these rewards."""
    return Run(
        run.name, run.source, run.format, run.log_hash, run.step, y, run.window, run.signals, run.eval_step,
        run.eval_reward, run.settings,
    )  # fmt: skip


def table_of(run: Run, known_noise: bool) -> Series:
    """Rows with measurement noise that is fixed beforehand, as the rewards of simulated rows say nothing of it."""
    noise = np.exp(np.linspace(-1.1, 1.1, len(run.step))) if known_noise else None
    return replace(rows_of(run), noise=noise, level=None)


def simulate(
    regime: Regime, run: Run, known_noise: bool, rng: np.random.Generator
) -> tuple[dict[str, float], np.ndarray]:
    """Parameters from the priors and rows from the law, step by step with joint noise of state and row.

    Args:
        regime: The law.
        run: Steps, windows and learning rates.
        known_noise: Whether the measurement noise is known.
        rng: Randomness.

    Returns:
        The parameters and the rows, shape (rows,).
    """
    priors = priors_of(regime, known_noise)
    # Any values do: the table's scale plays no part with fixed priors.
    table = table_of(with_reward(run, np.linspace(0.0, 1.0, len(run.step))), known_noise)
    with jax.enable_x64(True):
        target = target_of(regime, table, priors)
        draws = {k: float(v[0]) for k, v in draw_prior(target, rng, size=1).items()}
        levels = {p.name: (draws[p.name], 0.0) for p in regime.marginalized}
        rows = padded(table, len(table.y))
        sampled = {p.name: jnp.asarray(draws[p.name]) for p in regime.sampled}
        space = dense(regime.state_space(sampled, levels, rows), len(table.y))
        space = jax.tree.map(np.asarray, space)
    return draws, draw_rows(space, rng)[1]


def draws_of(kind: str, regime: Regime, run: Run, known_noise: bool, seed: int) -> tuple[dict[str, np.ndarray], bool]:
    """Posterior draws of every parameter, and whether their checks passed."""
    rows = table_of(run, known_noise)
    target = target_of(regime, rows, priors_of(regime, known_noise), arrays=shared(rows))
    if kind == "fast":
        found = fast_posterior(target, seed=seed, fallback=False).sample_marginalized(seed)
    else:
        found = sample_posterior(target, seed=seed).draws
    return {k: v.ravel() for k, v in found.values.items()}, found.diagnostics.passed


def one_run(name: str, kinds: tuple[str, ...], seed: int, i: int) -> dict[str, Any]:
    """Ranks of the truth, whether the intervals hold it, whether the checks failed, and seconds, by posterior."""
    regime = get_regime(name)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), i])
    other = bool(i % 2)
    truth, y = simulate(regime, empty := empty_run(schedule=other), other, rng)
    part = rng.uniform()  # uniform in the gap that the truth falls into, so that ranks are continuous
    out = {}
    for kind in kinds:
        begun = time.perf_counter()
        draws, passed = draws_of(kind, regime, with_reward(empty, y), other, i)
        few = {p.name: draws[p.name][np.linspace(0, len(draws[p.name]) - 1, THINNED).astype(int)]
               for p in regime.parameters}  # fmt: skip
        ends = {k: np.quantile(draws[k], [0.5 - LEVEL / 2, 0.5 + LEVEL / 2]) for k in few}
        out[kind] = {
            "rank": {k: float((np.sum(x < truth[k]) + part) / (THINNED + 1)) for k, x in few.items()},
            "inside": {k: bool(ends[k][0] <= truth[k] <= ends[k][1]) for k in few},
            "failed": not passed,
            "seconds": time.perf_counter() - begun,
        }
    return out


def calibrate(name: str, kinds: tuple[str, ...], runs: int, seed: int, jobs: int) -> dict[str, dict[str, Any]]:
    """Ranks and coverage of every parameter over simulated runs, by posterior.

    Args:
        name: Regime.
        kinds: "nuts", "fast".
        runs: Number of simulated runs.
        seed: Seed.
        jobs: Processes.

    Returns:
        Posterior → fractional ranks, coverage of the 90% intervals, the number of fits whose checks failed, seconds.
    """
    parts = [(name, kinds, seed, i) for i in range(runs)]
    found = list(side_by_side(one_run, *zip(*parts, strict=True), jobs=jobs))
    names = [p.name for p in get_regime(name).parameters]
    return {
        kind: {
            "ranks": {k: np.array([f[kind]["rank"][k] for f in found]) for k in names},
            "coverage": {k: float(np.mean([f[kind]["inside"][k] for f in found])) for k in names},
            "failed": sum(f[kind]["failed"] for f in found),
            "seconds": float(np.sum([f[kind]["seconds"] for f in found])),
        }
        for kind in kinds
    }


def simultaneous_band(n: int, points: np.ndarray, probability: float = 0.95, seed: int = 0) -> tuple[Any, Any]:
    """Band that holds the whole ECDF of ``n`` uniform values with the given probability.

    Args:
        n: Number of values.
        points: Where the ECDF is looked at, in (0, 1).
        probability: Simultaneous probability.
        seed: Seed of the simulation.

    Returns:
        Lower and upper end at every point.
    """
    from scipy.stats import binom

    rng = np.random.default_rng(seed)
    counts = np.stack([np.searchsorted(np.sort(rng.uniform(size=n)), points) for _ in range(4000)])
    # Smallest two-sided tail of a simulated ECDF over the points; its quantile gives the pointwise level.
    every = np.arange(n + 1)[:, None]  # each count's tails once, not in each simulation
    tails = 2 * np.minimum(binom.cdf(every, n, points), binom.sf(every - 1, n, points))
    level = np.quantile(tails[counts, np.arange(len(points))].min(axis=1), 1 - probability)
    return binom.ppf(level / 2, n, points) / n, binom.ppf(1 - level / 2, n, points) / n


POINTS = np.linspace(0.01, 0.99, 99)


def outside(ranks: np.ndarray, family: int = 1) -> float:
    """Largest excursion of the ranks' ECDF beyond the band, 0 where it stays inside.

    Args:
        ranks: Fractional ranks of one parameter.
        family: Number of parameters that the band is to hold together.
    """
    low, high = simultaneous_band(len(ranks), POINTS, 0.95 ** (1.0 / family))
    ecdf = np.searchsorted(np.sort(ranks), POINTS, side="right") / len(ranks)
    return float(max(np.max(low - ecdf), np.max(ecdf - high), 0.0))


def report(results: dict[str, dict[str, Any]], runs: int) -> dict[str, Any]:
    """Prints the tables and returns their numbers."""
    out: dict[str, Any] = {}
    for kind in next(iter(results.values())):
        parts = {regime: r[kind] for regime, r in results.items()}
        family = sum(len(r["coverage"]) for r in parts.values())
        print(f"\n{kind}: {'regime':12s} {'parameter':16s} coverage of 90%   ECDF outside the 95% band by")
        alone, together, covered = 0, 0.0, []
        for regime, result in parts.items():
            for name, cover in result["coverage"].items():
                beyond = outside(result["ranks"][name])
                alone, together = alone + (beyond > 0), max(together, outside(result["ranks"][name], family))
                covered.append(cover)
                fine = COVERED[0] <= cover <= COVERED[1] and beyond == 0
                print(f"      {regime:12s} {name:16s} {cover:12.3f}      {beyond:10.4f}   {'' if fine else 'OUTSIDE'}")
            print(f"      {regime:12s} {result['failed']} of {runs} failed their checks, {result['seconds']:.0f} s")
        print(f"      {alone} of {family} leave a band of their own ({0.05 * family:.1f} expected by chance); "
              f"beyond a band for all: {together:.4f}; coverage {min(covered):.3f} to {max(covered):.3f}")  # fmt: skip
        out[kind] = {
            "runs": runs,
            "outside": alone,
            "parameters": family,
            "outside_all": together,
            "lowest": min(covered),
            "highest": max(covered),
            "failed": sum(r["failed"] for r in parts.values()),
            "laws": {k: {"coverage": v["coverage"], "failed": v["failed"]} for k, v in parts.items()},
        }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--regime", nargs="+", default=list(FORECAST_REGIMES))
    parser.add_argument("--posterior", nargs="+", choices=("nuts", "fast"), default=["nuts", "fast"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    results = {}
    for name in options.regime:
        begun = time.perf_counter()
        results[name] = calibrate(name, tuple(options.posterior), options.runs, options.seed, options.jobs)
        print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    found = report(results, options.runs)
    if set(options.regime) == set(FORECAST_REGIMES) and len(options.posterior) == 2:
        keep("calibration", found)
    if options.json:
        text = {
            name: {kind: {**v, "ranks": {n: list(r) for n, r in v["ranks"].items()}} for kind, v in kinds.items()}
            for name, kinds in results.items()
        }
        options.json.write_text(json.dumps(text))


if __name__ == "__main__":
    main()
