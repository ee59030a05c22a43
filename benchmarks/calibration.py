"""Simulation-based calibration of the fit: are the posteriors what they claim to be?

    python benchmarks/calibration.py [--runs 300] [--regime oscillator exponential] [--plot OUT.png] [--json OUT]

Parameters are drawn from fixed priors, rows are drawn from the law with these parameters, and the rows are fitted
through `bayes_grpo.fit` with the same priors. If sampler, likelihood and the drawing of the integrated-out levels
are right, the rank of the truth among the posterior draws is uniform (Talts et al. 2018, arXiv 1804.06788). The band
is the simultaneous 95% band for the ECDF of uniform ranks (Säilynoja et al. 2022,
https://doi.org/10.1007/s11222-022-10090-6), found here by simulation.

Half of the runs have a constant learning rate and a row a step; the other half a linear schedule to zero, windows of
several steps and gaps between the rows.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo import fit, summarize
from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.dynamics.state_space import dense
from bayes_grpo.fitting.data import draw_prior
from bayes_grpo.logs.run import Provenance, Run, Setting, Settings
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.padding import padded
from bayes_grpo.rows.rows_of import rows_of
from benchmarks.common import draw_rows, keep

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
    "entropy": {},
}
SHARED = {
    "fluctuation_time": Prior(4.0, 0.8),
    "observation_sd": Prior(0.10, 0.7),
    "fluctuation_sd": Prior(0.06, 0.7),
    "fixed_point": Prior(0.5, 0.4),
    "initial_reward": Prior(0.3, 0.3),
}


def priors_of(regime: Regime) -> dict[str, Prior]:
    """Fixed priors of a regime's parameters; its default ones look at the data."""
    known = SHARED | PRIORS[regime.name]
    return {p.name: known[p.name] for p in regime.parameters if p.name in known}


def empty_run(schedule: bool, rows: int = ROWS) -> Run:
    """A run without values: its steps, windows, learning rates, and an entropy that falls."""
    step = np.arange(1.0, rows + 1)
    window = np.ones(rows)
    signals = {"entropy": 0.8 * np.exp(-np.linspace(0.0, 3.0, rows))}
    settings = Settings(schedule=Setting("constant", Provenance.USER))
    if schedule:
        step = np.cumsum(np.tile([3.0, 1.0, 2.0], rows // 3 + 1)[:rows]) / 2.0 + 1.0
        window = np.full(rows, 0.5)
        signals |= {"learning_rate": 1e-5 * (1.0 - step / step[-1])}
        settings = Settings(schedule=Setting("logged", Provenance.LOGGED))
    nothing = np.array([])
    return Run("simulated", "simulated", "none", "0", step, np.zeros(rows), window, signals, nothing, nothing, settings)


def with_reward(run: Run, y: np.ndarray) -> Run:
    """The run with these rewards."""
    return Run(
        run.name, run.source, run.format, run.log_hash, run.step, y, run.window, run.signals, run.eval_step,
        run.eval_reward, run.settings,
    )  # fmt: skip


def simulate(regime: Regime, run: Run, rng: np.random.Generator) -> tuple[dict[str, float], np.ndarray]:
    """Parameters from the priors and rows from the law, step by step with joint noise of state and row.

    Args:
        regime: The law.
        run: Steps, windows and learning rates.
        rng: Randomness.

    Returns:
        The parameters and the rows, shape (rows,).
    """
    priors = priors_of(regime)
    # Any values do: the table's scale plays no part with fixed priors.
    table = rows_of(with_reward(run, np.linspace(0.0, 1.0, len(run.step))))
    with jax.enable_x64(True):
        draws = {k: float(v[0]) for k, v in draw_prior(regime, priors, table, rng, size=1).items()}
        levels = {p.name: (draws[p.name], 0.0) for p in regime.linear}
        rows = padded(table, len(table.y))
        sampled = {p.name: jnp.asarray(draws[p.name]) for p in regime.sampled}
        space = dense(regime.state_space(sampled, levels, rows), len(table.y))
        space = jax.tree.map(np.asarray, space)
    return draws, draw_rows(space, rng)[1]


def calibrate(regime_name: str, runs: int, seed: int, tell: Any = print) -> dict[str, Any]:
    """Ranks and coverage of every parameter over simulated runs.

    Args:
        regime_name: Regime.
        runs: Number of simulated runs.
        seed: Seed.
        tell: Called with a line every fifty runs.

    Returns:
        Fractional ranks, coverage of the 90% intervals and the number of fits that did not converge.
    """
    regime = get_regime(regime_name)
    names = [p.name for p in regime.parameters]
    ranks: dict[str, list[float]] = {name: [] for name in names}
    inside: dict[str, list[bool]] = {name: [] for name in names}
    failed, begun = 0, time.perf_counter()
    for i in range(runs):
        rng = np.random.default_rng([seed, zlib.crc32(regime_name.encode()), i])
        truth, y = simulate(regime, empty := empty_run(schedule=bool(i % 2)), rng)
        result = fit(with_reward(empty, y), regime, priors=priors_of(regime), seed=i)
        summary = summarize(result)
        failed += not summary.convergence.passed
        rows = {r.name: r.posterior for r in summary.rows}
        for name in names:
            flat = result.draws(name).ravel()
            few = flat[np.linspace(0, flat.size - 1, THINNED).astype(int)]
            # Uniform in the gap that the truth falls into, so that ranks are continuous.
            ranks[name].append((np.sum(few < truth[name]) + rng.uniform()) / (THINNED + 1))
            inside[name].append(rows[name].low <= truth[name] <= rows[name].high)
        if (i + 1) % 50 == 0:
            tell(f"  {regime_name}: {i + 1} runs, {time.perf_counter() - begun:.0f} s, {failed} not converged")
    return {
        "ranks": {k: np.array(v) for k, v in ranks.items()},
        "coverage": {k: float(np.mean(v)) for k, v in inside.items()},
        "failed": failed,
        "seconds": time.perf_counter() - begun,
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


def outside(ranks: np.ndarray) -> float:
    """Largest excursion of the ranks' ECDF beyond the band, 0 where it stays inside."""
    points = np.linspace(0.01, 0.99, 99)
    low, high = simultaneous_band(len(ranks), points)
    ecdf = np.searchsorted(np.sort(ranks), points, side="right") / len(ranks)
    return float(max(np.max(low - ecdf), np.max(ecdf - high), 0.0))


def plot(results: dict[str, dict[str, Any]], path: Path) -> None:
    """ECDF differences of all parameters with the band."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 5), layout="constrained")
    axes = figure.subplots(len(results), max(len(r["ranks"]) for r in results.values()), squeeze=False)
    points = np.linspace(0.01, 0.99, 99)
    for row, (regime, result) in zip(axes, results.items(), strict=True):
        for a, (name, ranks) in zip(row, result["ranks"].items(), strict=False):
            low, high = simultaneous_band(len(ranks), points)
            a.fill_between(points, low - points, high - points, color="#9ca3af", alpha=0.4, lw=0)
            a.plot(points, np.searchsorted(np.sort(ranks), points, side="right") / len(ranks) - points, "#c2410c")
            a.set_title(f"{regime}: {name}", fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--regime", nargs="+", default=["oscillator", "exponential"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    results = {name: calibrate(name, options.runs, options.seed) for name in options.regime}
    print(f"{'regime':12s} {'parameter':16s} coverage of 90%   ECDF outside the 95% band by")
    for regime, result in results.items():
        for name, covered in result["coverage"].items():
            beyond = outside(result["ranks"][name])
            fine = COVERED[0] <= covered <= COVERED[1] and beyond == 0
            print(f"{regime:12s} {name:16s} {covered:12.3f}      {beyond:10.4f}   {'' if fine else 'OUTSIDE'}")
        print(f"{regime:12s} {result['failed']} of {options.runs} fits not converged, {result['seconds']:.0f} s")
    keep(
        "calibration",
        {k: {"coverage": v["coverage"], "failed": v["failed"], "runs": options.runs} for k, v in results.items()},
    )
    if options.plot:
        plot(results, options.plot)
    if options.json:
        text = {k: {**v, "ranks": {n: list(r) for n, r in v["ranks"].items()}} for k, v in results.items()}
        options.json.write_text(json.dumps(text))


if __name__ == "__main__":
    main()
