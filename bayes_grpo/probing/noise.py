"""The noise of a gradient, and how far the tail of importance ratios reaches, from parts of one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.pareto import generalised_pareto
from bayes_grpo.common.results import Result
from bayes_grpo.probing.operator import AnyVector, inner, mean_of


@dataclass(frozen=True)
class GradientNoise(Result):
    """How much of a mean update is noise, in the optimizer's metric: lengths are of D^½ u.

    Attributes:
        signal: Squared length of the mean update without its noise; negative where noise hides it.
        trace: Variance of the mean update over batches of this size, summed over directions.
        stiff_share: Share of the trace along the stiffest directions, one each.
        within_share: Share of the trace that comes from sampling completions of given prompts, which falls as 1/G;
            the rest is that of sampling prompts. NaN where it was not asked.
    """

    signal: float
    trace: float
    stiff_share: tuple[float, ...]
    within_share: float


@dataclass(frozen=True)
class RatioTail(Result):
    """Importance ratios of a batch.

    Attributes:
        count: How many.
        effective: Effective over actual number: 1 where all are equal.
        highest: The 99% quantile.
        largest: The largest.
        shape: Shape of a generalised Pareto distribution of the largest fifth: above .7 a mean over them cannot be
            trusted. NaN where there are too few or they are all alike.
    """

    count: int
    effective: float
    highest: float
    largest: float
    shape: float


def gradient_noise(
    updates: Sequence[AnyVector],
    scale: float | AnyVector = 1.0,
    stiff: Sequence[Sequence[AnyVector]] = (),
    twins: Sequence[tuple[AnyVector, AnyVector]] = (),
) -> GradientNoise:
    """Noise of the mean update of a batch.

    Args:
        updates: Mean update of each part of the batch, parts of equal size; at least 2.
        scale: D, see `bayes_grpo.probing.operator`.
        stiff: Stiff directions in the optimizer's metric, of length 1; of each one or several estimates, over
            which shares are averaged.
        twins: Of each part the updates of two halves of every group, under the advantages of the whole group: what
            they differ in is the luck of completions and not of prompts.

    Raises:
        SettingError: Fewer than 2 parts.
    """
    if len(updates) < 2:
        raise SettingError(f"gradient_noise: expected the updates of at least 2 parts, found {len(updates)}")
    root, parts = scale**0.5, len(updates)
    scaled = [root * update for update in updates]
    middle = mean_of(scaled)
    away = [part - middle for part in scaled]
    factor = 1.0 / (parts * (parts - 1.0))
    trace = factor * sum(inner(x, x) for x in away)
    along = tuple(
        factor * float(np.mean([sum(inner(way, x) ** 2 for x in away) for way in ways])) / trace if trace else math.nan
        for ways in stiff
    )
    within = math.nan
    if twins and trace:
        apart = [root * (a - b) * 0.5 for a, b in twins]
        within = sum(inner(x, x) for x in apart) / len(apart) / parts / trace
    return GradientNoise(inner(middle, middle) - trace, trace, along, within)


def ratio_tail(log_ratios: Sequence[float] | np.ndarray) -> RatioTail:
    """How far the tail of importance ratios reaches.

    Args:
        log_ratios: Logarithms of the ratios of a batch, finite, any shape.

    Raises:
        SettingError: None, or one that is not finite.
    """
    logs = np.sort(np.asarray(log_ratios, float).ravel())
    if not logs.size or not np.isfinite(logs).all():
        raise SettingError(f"ratio_tail: expected finite logarithms of ratios, found {logs.size} values")
    ratio = np.exp(np.minimum(logs, 700.0))
    relative = np.exp(logs - logs[-1])
    effective = float(relative.sum() ** 2 / (relative**2).sum() / logs.size)
    size = logs.size // 5
    excess = relative[-size:] - relative[-size - 1] if size >= 5 else np.zeros(0)
    shape = float(generalised_pareto(excess)[0]) if size >= 5 and excess[-1] > 1e-9 else math.nan
    return RatioTail(int(logs.size), effective, float(np.quantile(ratio, 0.99)), float(ratio[-1]), float(shape))
