"""Shape of a fitted curve: growth, overshoot, swings, and the loss since its peak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.intervals import percent
from bayes_grpo.regimes.base import Regime
from bayes_grpo.signals.path import SignalPath

if TYPE_CHECKING:
    from bayes_grpo.fitting.sensitivity import SummaryRow

CLEAR_DIRECTION = 0.95
"""Probability from which on the direction of the reward is clear."""
PROBABLE_DIRECTION = 0.8
"""Probability from which on the reward has probably moved that way."""
LOST_SHARE = 0.25
"""Share of a rise from which on its loss is part of the answer."""
_SWING_PERIOD = 8.0
"""Rows in an oscillation at least: faster ones are a prompt order or an alias."""
_SWING_DAMPING = 0.4
"""Damping ratio below which a linear regime oscillates."""


def probabilities(regime: Regime, draws: Mapping[Any, Any], length: float, rows: int) -> dict[str, float]:
    """Probabilities of what a regime can do, from draws of its parameters and derived quantities, arrays of one shape.

    "growth" for a regime with a trend; "overdamped", "oscillatory", "unstable", "half_period_seen", "swings_seen" (a
    full period within ``length`` steps, with a damping at which one can be seen, of rows enough to follow it) and
    "turns_fast" (within fewer rows than that) for a regime with a damping ratio.
    """
    out = {}
    if regime.has_trend:
        out["growth"] = float(np.mean(draws["fixed_point"] > draws["initial_reward"]))
    if "damping_ratio" in draws:
        zeta, omega = draws["damping_ratio"], draws["natural_frequency"]
        speed = omega * np.sqrt(np.maximum(1.0 - zeta**2, 0.0))
        swing = speed * length
        fast = speed * length / rows > 2.0 * np.pi / _SWING_PERIOD
        out |= {
            "overdamped": float(np.mean(zeta >= 1)),
            "oscillatory": float(np.mean((zeta > 0) & (zeta < 1))),
            "unstable": float(np.mean(zeta <= 0)),
            "half_period_seen": float(np.mean((np.abs(zeta) < 1) & (swing > np.pi))),
            "swings_seen": float(np.mean((zeta > 0) & (zeta < _SWING_DAMPING) & (swing > 2.0 * np.pi) & ~fast)),
            "turns_fast": float(np.mean((zeta > 0) & (zeta < 1) & fast)),
        }
    return out


def overshoot_text(p: dict[str, float], zeta: SummaryRow | None) -> str:
    """Overshoot or instability of the curve, in one sentence."""
    if p.get("unstable", 0.0) > 0.5:
        return f"Unstable: {percent(p['unstable'])}."
    if zeta is None:
        return f"Stable: {percent(1.0 - p['unstable'])}." if "unstable" in p else ""
    if p["overdamped"] >= p["oscillatory"]:
        tail = "; this log barely tests it" if zeta.mostly_prior else f" ({percent(p['overdamped'])})"
        return f"No overshoot seen{tail}."
    if p["turns_fast"] >= 0.5:
        return f"It swings within fewer than {_SWING_PERIOD:g} rows, which is no oscillation of the learning."
    if p["swings_seen"] < 0.5:
        return "Overshoots at most once." if p["half_period_seen"] >= 0.5 else "A slow start; no oscillation seen."
    return f"Oscillates: {percent(p['oscillatory'])}."


def past_peak(path: SignalPath) -> bool:
    """True if a reward rose and has surely lost more than `LOST_SHARE` of its rise to its best level."""
    rise = path.best - path.start
    lost = path.best - path.now
    return float(np.mean((rise > 0.0) & (lost > LOST_SHARE * rise))) >= CLEAR_DIRECTION
