"""Strain: no event but a sum, how many e-folds signals lie beyond their ordinary range."""

from __future__ import annotations

import numpy as np

from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.trend import LatentSignals


def strain(signals: LatentSignals) -> float:
    """How far gradient norm, KL, length and entropy lie beyond their ordinary range, in e-folds; NaN without any.

    Trends of gradient norm, length and entropy are those of their logarithms.
    """
    names = ("grad_norm", "kl", "completion_length", "entropy")
    norm, kl, length, entropy = (signals.signals.get(name) for name in names)
    found = []
    if norm is not None:
        found.append(float((norm.raw - np.median(norm.raw)).max()) - np.log(BORDERS.calm_burst))
        found.append(float(norm.change().mean()) - np.log(BORDERS.calm_grad_norm))
    if kl is not None:
        found.append(float(np.log(max(abs(kl.mean[-1]), BORDERS.least_kl) / BORDERS.calm_kl)))
    if length is not None:
        found.append(abs(float(length.change().mean())) - np.log(BORDERS.calm_length))
    if entropy is not None:
        found.append(float(entropy.change().mean()) - np.log(BORDERS.calm_entropy))
    if not found:
        return np.nan
    if signals.has_range and float(signals.share(signals.reward.mean[-1])) > BORDERS.solved:
        return 0.0  # a solved task has no gradient to speak of: what moves then is rounding
    return float(min(np.clip(found, 0.0, BORDERS.strain_each).sum(), BORDERS.strain_most))
