"""Ground truth: what the reduction predicts beside what real GRPO updates on a bandit do.

    python benchmarks/ground_truth.py

Prints four tables: onset of oscillation, refresh thresholds, stationary fluctuation against group size, and
the residual dependence of the drift on group size. Takes about two minutes on two cores.
"""

from typing import Any

import numpy as np

from bayes_grpo.dynamics.reduction import critical_gain, onset_of_oscillation, published_threshold
from benchmarks.common import keep
from benchmarks.lab.groups import group_drift_factor
from benchmarks.lab.measure import (
    log_log_slope,
    measured_drift_factor,
    measured_fluctuation,
    measured_onset,
    measured_threshold,
)

MOMENTA = (0.0, 0.5, 0.9)
INTERVALS = (1, 2, 4, 8, 16, 32)
GROUP_SIZES = (2, 4, 8, 16, 32, 64)


def onset() -> dict[str, float]:
    """Measured over predicted onset, by momentum."""
    print("\nOnset of oscillation, gain g = eta K")
    print(f"{'mu':>5} {'(1-sqrt mu)^2':>14} {'measured':>10} {'ratio':>7}")
    out: dict[str, float] = {}
    for mu, found in zip(MOMENTA, measured_onset(MOMENTA), strict=True):
        predicted = float(onset_of_oscillation(mu))
        out[f"momentum {mu:g}"] = found / predicted
        print(f"{mu:5.1f} {predicted:14.6f} {found:10.6f} {found / predicted:7.4f}")
    return out


def thresholds() -> dict[str, float]:
    """Mean of measured over exact threshold, by model of the lag."""
    out: dict[str, float] = {}
    mu, interval = (axis.ravel() for axis in np.meshgrid(MOMENTA, INTERVALS, indexing="ij"))
    for model in ("delay", "hold"):
        found = measured_threshold(mu, interval, model)
        ratios = []
        print(f"\nRefresh threshold, {model}: in units of the published rule (1 - mu)/K_ref")
        print(f"{'mu':>5} {'K_ref':>6} {'rule':>9} {'exact':>8} {'measured':>9} {'measured/exact':>15}")
        for m, s, g in zip(mu, interval, found, strict=True):
            rule, exact = float(published_threshold(m, s)), critical_gain(float(m), int(s), model)
            ratios.append(float(g / exact))
            print(f"{m:5.1f} {s:6d} {rule:9.5f} {exact / rule:8.3f} {g / rule:9.3f} {g / exact:15.4f}")
        out[model] = float(np.mean(ratios))
    return out


def fluctuation() -> dict[str, float]:
    """Log-log slope of the measured variance against group size, by case."""
    out: dict[str, float] = {}
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("mean-only advantage, verifier .85/.15, p = .5", {}),
        ("mean-only advantage, verifier .85/.15, p = .7", {"correct_rate": 0.7}),
        ("std-normalised advantage (ddof 1), same verifier, p = .5", {"advantage": "std", "ddof": 1}),
    )
    for title, settings in cases:
        rows = measured_fluctuation(GROUP_SIZES, **settings)
        print(f"\nStationary variance of the reward: {title}")
        print(f"{'G':>4} {'measured':>11} {'/ exact finite G':>17} {'/ leading order':>16}")
        for row in rows:
            exact, leading = row.measured / row.exact, row.measured / row.leading_order
            print(f"{row.group_size:4d} {row.measured:11.4e} {exact:17.3f} {leading:16.3f}")
        for name in ("measured", "exact"):
            slope = log_log_slope(GROUP_SIZES, [getattr(row, name) for row in rows])
            print(f"log-log slope, {name}: {slope:.3f}")
            if name == "measured":
                out[title] = float(slope)
    return out


def drift() -> dict[str, float]:
    """Least and largest ratio of measured to exact drift."""
    ratios = []
    print("\nDrift of finite groups relative to G = infinity, std-normalised advantages")
    print(f"{'p':>5} {'G':>4} {'ddof':>5} {'E[sigma_G]':>11} {'measured':>9} {'ratio':>7} {'1-1/(8Gpq)':>11}")
    for p in (0.5, 0.3, 0.05):
        for size in GROUP_SIZES:
            for ddof in (0, 1):
                exact = float(group_drift_factor(p, size, ddof))
                found = measured_drift_factor(p, size, ddof, n_runs=1000)
                expansion = float(1.0 - 1.0 / (8.0 * size * p * (1.0 - p)))
                ratios.append(float(found / exact))
                row = f"{p:5.2f} {size:4d} {ddof:5d} {exact:11.4f} {found:9.4f} {found / exact:7.4f}"
                print(f"{row} {expansion:11.3f}")
    return {"least": min(ratios), "largest": max(ratios)}


if __name__ == "__main__":
    keep(
        "ground_truth",
        {"onset": onset(), "thresholds": thresholds(), "fluctuation": fluctuation(), "drift": drift()},
    )
