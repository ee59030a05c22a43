"""What the reduction predicts, measured on real GRPO updates of a bandit: onset, refresh thresholds, fluctuation.

    python -m benchmarks.calibration.ground_truth

The second notebook draws the stored result. The curvature comes from finite differences of the expected update, never
from a reward curve. Takes about two minutes on two cores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayes_grpo.dynamics.reduction import critical_gain, onset_of_oscillation
from bayes_grpo.simulate.policies import bernoulli_bandit
from bayes_grpo.simulate.settings import Numbers, Structure
from benchmarks.common import keep
from benchmarks.lab.fixed_points import find_fixed_point
from benchmarks.lab.measure import log_log_slope, measured_fluctuation, measured_onset, measured_threshold

REFERENCE = -1.2
"""Logit of the right arm under the reference policy."""
MOMENTA = (0.0, 0.5, 0.9)
INTERVALS = (1, 2, 4, 8, 16, 32)
MODELS = ("delay", "hold")
GROUP_SIZES = (2, 4, 8, 16, 32, 64)
FLUCTUATION: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "mean only, half right": (GROUP_SIZES, {"correct_rate": 0.5}),
    "mean only, 78% right": (GROUP_SIZES, {"correct_rate": 0.9}),
    "std-normalized, half right": ((2, 4, 16), {"advantage": "std", "ddof": 1}),
}
"""Case → group sizes and settings of its runs."""


def fixed_point() -> dict[str, float]:
    """Where the bandit's mean update rests, and the curvature there."""
    settings = Numbers(kl_weight=0.5, lag_exposure=1.0, advantage_epsilon=0.0)
    structure = Structure(n_steps=400, advantage="mean", refresh="hold", update="infinite_group")
    point = find_fixed_point(structure, settings, bernoulli_bandit(REFERENCE, REFERENCE))
    assert point is not None
    return {"parameter": float(point.parameters[0]), "reward": point.reward, "curvature": point.curvature}


def onset() -> dict[str, Any]:
    """Gain at which runs begin to pass their fixed point, by momentum."""
    measured = measured_onset(MOMENTA)
    return {"momentum": MOMENTA, "measured": measured, "exact": onset_of_oscillation(MOMENTA)}


def thresholds() -> dict[str, Any]:
    """Gain at which runs leave their fixed point, for each model of the lag: momenta by refresh intervals."""
    mu, interval = (axis.ravel() for axis in np.meshgrid(MOMENTA, INTERVALS, indexing="ij"))
    shape = (len(MOMENTA), len(INTERVALS))
    found: dict[str, Any] = {"momentum": MOMENTA, "interval": INTERVALS}
    for model in MODELS:
        exact = [critical_gain(float(m), int(k), model) for m, k in zip(mu, interval, strict=True)]
        measured = measured_threshold(mu, interval, model)
        found[model] = {"measured": measured.reshape(shape), "exact": np.reshape(exact, shape)}
    return found


def fluctuation() -> dict[str, Any]:
    """Stationary variance of the true reward by group size, and its log-log slope, for each case."""
    found = {}
    for case, (sizes, settings) in FLUCTUATION.items():
        rows = measured_fluctuation(sizes, n_runs=96, n_steps=3000, **settings)
        columns = {key: [getattr(row, key) for row in rows] for key in ("measured", "exact", "leading_order")}
        slopes = {key: log_log_slope(sizes, columns[key]) for key in ("measured", "exact")}
        found[case] = {"group_size": sizes, **columns, "slope": slopes}
    return found


def main() -> None:
    result = {"fixed_point": fixed_point(), "onset": onset(), "thresholds": thresholds(), "fluctuation": fluctuation()}
    keep("ground_truth", result)


if __name__ == "__main__":
    main()
