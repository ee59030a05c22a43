"""The one formula: how probably a run fails at a severity, where its border lies some e-folds above a run that worked.

A change's *severity* v counts in e-folds of the learning rate: v = Σ w·x over what changed (`Change`), w = 1 for the
learning rate itself. A run that worked has a *border* G > 0, the severity from which on its siblings fail,

    P(fails | v, G) = ε + (1 − ε) / (1 + exp((G − v) / s)),    log G ~ Normal(m, d²) over runs,

with ε the share that fails for reasons of its own and s² = s₀² + λ² Σ (w x)² over all but the learning rate: what is
known of other settings from others' runs holds less well the farther they move.

Where the run's learning rate η is that of an optimizer whose steps have a scale of their own (Adam), borders of
language models lie together, log η + G ~ Normal(log η*, σ²), so that a rate far below others' borders has a far border
above it. One family in ten may have a scale of its own, of which that says nothing. Works on NumPy and on JAX arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

BORDER_NODES = ndtri((np.arange(24) + 0.5) / 24.0)
"""Standard normal quantiles that stand for the runs' borders, shape (nodes,)."""

_OWN_SCALE = 0.1
"""Share of families whose learning rates have a scale of their own."""
_SCALES = 20.0
"""E-folds over which a scale of its own may lie anywhere."""


def borders(centre: Any, spread: Any, xp: Any = np) -> Any:
    """Thresholds of runs in e-folds, all equally likely, shape (…, nodes).

    Args:
        centre: m, the logarithm of the median border; any shape.
        spread: d, same shape.
        xp: `numpy` or `jax.numpy`.
    """
    return xp.exp(centre[..., None] + spread[..., None] * BORDER_NODES)


def prior_weight(gap: Any, rate: Any, scale: Any, scatter: Any, xp: Any = np) -> Any:
    """Weights of a run's borders by where others' borders lie; arguments broadcast.

    Args:
        gap: G, e-folds.
        rate: log η; NaN where it is not known or has no scale that others share: all weights are then equal.
        scale: log η*.
        scatter: σ, e-folds.
        xp: `numpy` or `jax.numpy`.
    """
    known = xp.where(xp.isnan(rate), scale, rate)
    # Beyond its width nothing is left of a border's place; unbounded it has no gradient.
    away = xp.clip(known + gap - scale, -_SCALES, _SCALES) / scatter
    normal = xp.exp(-0.5 * away**2) / (math.sqrt(2.0 * math.pi) * scatter)
    return xp.where(xp.isnan(rate), 1.0, (1.0 - _OWN_SCALE) * normal + _OWN_SCALE / _SCALES)


def failure_probability(gap: Any, severity: Any, width: Any, base: Any, xp: Any = np) -> Any:
    """P(fails) at a severity; arguments broadcast.

    Args:
        gap: G, e-folds.
        severity: v, e-folds.
        width: s, e-folds.
        base: ε.
        xp: `numpy` or `jax.numpy`.
    """
    exponent = xp.clip((gap - severity) / width, -60.0, 60.0)
    return base + (1.0 - base) / (1.0 + xp.exp(exponent))


def width_of(effects: Any, sharpness: Any, looseness: Any, xp: Any = np) -> Any:
    """Width of the border as a change meets it.

    Args:
        effects: w·x of every setting, the learning rate's first, shape (…, settings).
        sharpness: s₀.
        looseness: λ.
        xp: `numpy` or `jax.numpy`.
    """
    return xp.sqrt(sharpness**2 + looseness**2 * (effects[..., 1:] ** 2).sum(-1))
