"""Probabilities of what a law can do, counted over draws: growth, overdamped, oscillatory, unstable."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.regimes.base import Regime

_FULL = 2.0 * np.pi * THRESHOLDS.swing_periods
"""Phase of the swings that a log has to show."""


def probabilities(regime: Regime, draws: Mapping[str, np.ndarray], length: float, rows: int) -> dict[str, float]:
    """Probabilities of what a law can do.

    Args:
        regime: The law.
        draws: Draws of its parameters and derived quantities, arrays of one shape.
        length: Steps from the law's start to the last row.
        rows: Rows in them.

    Returns:
        "growth" for a law with a trend; "overdamped", "oscillatory", "unstable", "half_period_seen", "swings_seen"
        (a full period, with a damping at which one can be seen, of rows enough to follow it) and "turns_fast" (within
        fewer rows than that) for a law with a damping ratio; "unstable" for one
        with a growth per step.
    """
    out = {}
    if regime.has_trend:
        out["growth"] = float(np.mean(draws["fixed_point"] > draws["initial_reward"]))
    if "damping_ratio" in draws:
        zeta, omega = draws["damping_ratio"], draws["natural_frequency"]
        speed = omega * np.sqrt(np.maximum(1.0 - zeta**2, 0.0))
        swing, fast = speed * length, speed * length / rows > 2.0 * np.pi / THRESHOLDS.swing_period
        out |= {
            "overdamped": float(np.mean(zeta >= 1)),
            "oscillatory": float(np.mean((zeta > 0) & (zeta < 1))),
            "unstable": float(np.mean(zeta <= 0)),
            "half_period_seen": float(np.mean((np.abs(zeta) < 1) & (swing > np.pi))),
            "swings_seen": float(np.mean((zeta > 0) & (zeta < THRESHOLDS.swing_damping) & (swing > _FULL) & ~fast)),
            "turns_fast": float(np.mean((zeta > 0) & (zeta < 1) & fast)),
        }
    elif "growth_per_step" in draws:
        out["unstable"] = float(np.mean(draws["growth_per_step"] > 1.0))
    return out
