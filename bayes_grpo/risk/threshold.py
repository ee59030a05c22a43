"""Failure probability as a logistic function of severity, with a random threshold per run.

The *severity* v of a change is in e-folds of the learning rate: v = Σ w·x over the changed settings (`Change`), with
w = 1 for the learning rate. A run that worked has a *threshold* G > 0, the severity above which its variants fail,

    P(fails | v, G) = ε + (1 − ε) / (1 + exp((G − v) / s)),    log G ~ Normal(m, d²) over runs,

where ε is the share that fails for other reasons, and s² = s₀² + λ² Σ (w x)² over all settings but the learning rate:
the weights learned from public runs are less certain for larger changes.

For optimizers with a scale-free step (Adam), the learning rates at the threshold cluster across language models,
log η + G ~ Normal(log η*, σ²). A learning rate far below that cluster therefore has a high threshold. One family in ten
may have its own scale. Works on NumPy and on JAX arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

THRESHOLD_NODES = ndtri((np.arange(24) + 0.5) / 24.0)
"""Standard normal quantiles as quadrature nodes of the thresholds, shape (nodes,)."""

_OWN_SCALE = 0.1
"""Share of model families with their own learning-rate scale."""
_SCALES = 20.0
"""Width of the uniform prior of such a scale, e-folds."""


def thresholds_at(centre: Any, spread: Any, xp: Any = np) -> Any:
    """Thresholds of runs in e-folds, equally likely, shape (…, nodes).

    Args:
        centre: m, the logarithm of the median threshold; any shape.
        spread: d, same shape.
        xp: `numpy` or `jax.numpy`.
    """
    return xp.exp(centre[..., None] + spread[..., None] * THRESHOLD_NODES)


def prior_weight(gap: Any, rate: Any, scale: Any, scatter: Any, xp: Any = np) -> Any:
    """Prior weights of a run's thresholds, learned from public runs; arguments broadcast.

    Args:
        gap: G, e-folds.
        rate: log η; NaN for equal weights, where it is unknown or not on the scale that runs share.
        scale: log η*.
        scatter: σ, e-folds.
        xp: `numpy` or `jax.numpy`.
    """
    known = xp.where(xp.isnan(rate), scale, rate)
    # The density is negligible beyond the clip, and without it the gradient is unusable.
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
    """Width of the threshold for a change.

    Args:
        effects: w·x of every setting, the learning rate's first, shape (…, settings).
        sharpness: s₀.
        looseness: λ.
        xp: `numpy` or `jax.numpy`.
    """
    return xp.sqrt(sharpness**2 + looseness**2 * (effects[..., 1:] ** 2).sum(-1))
