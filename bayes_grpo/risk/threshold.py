"""A change of settings, and P(failure) as a logistic function of its severity, with a random threshold per run.

Numbers are logarithms of ratios; a KL weight may be 0 and has its own scale. A setting that is unknown on either side
counts as unchanged.

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
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

KL_UNIT = 0.01
"""A KL weight k counts as log(1 + k/KL_UNIT): none and a hundredth of a usual one are nearly the same."""


class Change(NamedTuple):
    """What is different from the settings of a run that worked.

    Attributes:
        learning_rate: Logarithm of the new learning rate over the old one.
        refresh_interval: Likewise of the optimizer steps between refreshes of the sampling policy.
        epochs: Likewise of the passes over a rollout's completions; its updates count in `refresh_interval` too.
        group_size: Likewise of the completions of a prompt.
        prompts_per_step: Likewise of the prompts of a step.
        kl_weight: Difference of log(1 + weight/`KL_UNIT`).
        clip_range: Logarithm of the new upper clip range over the old one.
        full: 1 from LoRA to all weights, -1 the other way.
        undecayed: 1 from a learning rate that decays to one that does not, -1 the other way.
        unguarded: Safeguards that were taken away (baseline, clipping of ratios), less those added.
        unscaled: 1 where advantages are no longer divided by the group's standard deviation, -1 the other way.
    """

    learning_rate: float = 0.0
    refresh_interval: float = 0.0
    epochs: float = 0.0
    group_size: float = 0.0
    prompts_per_step: float = 0.0
    kl_weight: float = 0.0
    clip_range: float = 0.0
    full: float = 0.0
    undecayed: float = 0.0
    unguarded: float = 0.0
    unscaled: float = 0.0


SIGNS = Change(1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
"""Which way theory and practice expect a change to make a run more likely to fail; 0 where they do not say."""
_RATIOS = ("learning_rate", "refresh_interval", "epochs", "group_size", "prompts_per_step", "clip_range")
_FLAGS = ("full", "undecayed", "unguarded", "unscaled")


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change:
    """The change from some settings to others.

    Where the refresh interval changes and the epochs are unknown, half of the change on the log scale counts as
    epochs: updates on new completions are safer than updates on the same ones.

    Args:
        before: Settings of the run that worked, by the names of `Change`; flags as numbers. Absent or None: unknown.
        after: Settings of the run to come, likewise; absent ones are as before.
    """
    moved: dict[str, float] = {}
    for name in (*_RATIOS, *_FLAGS, "kl_weight"):
        old, new = before.get(name), after.get(name, before.get(name))
        if old is None or new is None or old == new:
            continue
        if name == "kl_weight":
            moved[name] = math.log1p(float(new) / KL_UNIT) - math.log1p(float(old) / KL_UNIT)
        else:
            moved[name] = float(new) - float(old) if name in _FLAGS else math.log(float(new) / float(old))
    if "refresh_interval" in moved and (before.get("epochs") is None or "epochs" not in after):
        moved["epochs"] = 0.5 * moved["refresh_interval"]
    elif "epochs" in moved and "refresh_interval" not in moved:
        moved["refresh_interval"] = moved["epochs"]
    return Change(**moved)


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
