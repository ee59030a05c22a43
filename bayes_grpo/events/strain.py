"""Strain: no event but a sum, how many e-folds signals lie beyond their ordinary range."""

from __future__ import annotations

import numpy as np

from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.trend import LatentSignals


def strain_along(signals: LatentSignals) -> np.ndarray:
    """How far gradient norm, KL, length and entropy have come beyond their ordinary range, shape (n,); NaN without any.

    In e-folds, at each row of the reward's trend. Trends of gradient norm, length and entropy are those of their
    logarithms. A burst counts from the row on in which it lies, for a twelfth of the log.
    """
    step = signals.reward.step
    reach = (step[-1] - step[0]) / BORDERS.end_part
    found = []
    for name, calm in (
        ("grad_norm", BORDERS.calm_grad_norm),
        ("completion_length", BORDERS.calm_length),
        ("entropy", BORDERS.calm_entropy),
    ):
        trend = signals.signals.get(name)
        if trend is None:
            continue
        folds = (trend.at(step) - trend.draws[:, :1]).mean(axis=0)
        found.append((np.abs(folds) if name == "completion_length" else folds) - np.log(calm))
        if name == "grad_norm":
            burst = np.flatnonzero(trend.raw - np.median(trend.raw) > np.log(BORDERS.calm_burst))
            begun = trend.raw_step[burst]
            near = (begun[:, None] <= step) & (step <= begun[:, None] + reach)
            size = (trend.raw[burst] - np.median(trend.raw) - np.log(BORDERS.calm_burst))[:, None]
            found.append(np.max(np.where(near, size, 0.0), axis=0, initial=0.0))
    kl = signals.signals.get("kl")
    if kl is not None:
        found.append(np.log(np.maximum(np.abs(kl.at(step).mean(axis=0)), BORDERS.least_kl) / BORDERS.calm_kl))
    if not found:
        return np.full(len(step), np.nan)
    total = np.minimum(np.clip(found, 0.0, BORDERS.strain_each).sum(axis=0), BORDERS.strain_most)
    if signals.has_range:  # a solved task has no gradient to speak of: what moves then is rounding
        total = np.where(signals.share(signals.reward.mean) > BORDERS.solved, 0.0, total)
    return total
