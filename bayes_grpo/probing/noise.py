"""The noise of a gradient, from parts of one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.results import Result
from bayes_grpo.probing.operator import AnyVector, inner, mean_of


@dataclass(frozen=True)
class GradientNoise(Result):
    """How much of a mean update is noise, in the optimizer's metric: lengths are of D^½ u.

    Attributes:
        signal: Squared length of the mean update without its noise; negative where noise hides it.
        trace: Variance of the mean update over batches of this size, summed over directions.
        stiff_share: Share of the trace along the stiffest directions, one each.
    """

    signal: float
    trace: float
    stiff_share: tuple[float, ...]


def gradient_noise(
    updates: Sequence[AnyVector],
    scale: float | AnyVector = 1.0,
    stiff: Sequence[Sequence[AnyVector]] = (),
) -> GradientNoise:
    """Noise of the mean update of a batch.

    Args:
        updates: Mean update of each part of the batch, parts of equal size; at least 2.
        scale: D, see `bayes_grpo.probing.operator`.
        stiff: Stiff directions in the optimizer's metric, of length 1; of each one or several estimates, over
            which shares are averaged.

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
    return GradientNoise(inner(middle, middle) - trace, trace, along)
