"""Exponents and spreads out of a family's draws, beside their priors and what theory expects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.families.design import FamilyQuantity, quantities_of, theory_of
from bayes_grpo.families.members import FamilyMember
from bayes_grpo.families.model import FLOOR
from bayes_grpo.families.posterior import FamilyPosterior, Together
from bayes_grpo.families.result import Exponent, Spread

POSITIVE_SHARE = 0.1
"""A level is measured against its own size where that is surely above this share of the range of the rewards."""


class Effect(NamedTuple):
    """Draws of an exponent.

    Attributes:
        quantity: The quantity.
        setting: Place of the setting.
        draws: The exponent, shape (chains, draws).
        doubling: What twice the setting does, likewise.
        prior_sd: Standard deviation of the exponent's prior, which is normal about 0.
        left: Posterior over prior variance of the slope.
        relative: Whether a level's change is over its own size.
    """

    quantity: FamilyQuantity
    setting: int
    draws: np.ndarray
    doubling: np.ndarray
    prior_sd: float
    left: float
    relative: bool


def effects_of(together: Together, found: FamilyPosterior, settings: int) -> list[Effect]:
    """Draws of the exponent of every quantity on every setting that may move it."""
    quantities = quantities_of(together.regime)
    pairs = [(k, q) for k in range(settings) for q in quantities if together.priors.slope[k, q.trait] > 0]
    return [_effect(together, found, q, k) for k, q in pairs]


def _effect(together: Together, found: FamilyPosterior, quantity: FamilyQuantity, k: int) -> Effect:
    slope, sd = found.draws.slopes[..., k, quantity.trait], float(together.priors.slope[k, quantity.trait])
    left = float(slope.var() / sd**2)
    if not quantity.level:
        draws = quantity.power * slope
        return Effect(quantity, k, draws, 2.0**draws, abs(quantity.power) * sd, left, True)
    unit = together.scale.unit
    size, relative = size_of(together, found, quantity)
    typical = float(np.median(size))
    return Effect(quantity, k, unit * slope / size, math.log(2.0) * unit * slope, unit * sd / typical, left, relative)


def size_of(together: Together, found: FamilyPosterior, quantity: FamilyQuantity) -> tuple[Any, bool]:
    """What the change of a level is over: its own size at the middle of the settings, or the range of the rewards."""
    y = np.concatenate([t.y for t in together.tables])
    low, high = np.quantile(y, [0.05, 0.95])
    own = together.scale.origin + together.scale.unit * found.draws.mean[..., quantity.trait]
    sure = y.min() >= 0.0 and np.quantile(own, 0.01) > POSITIVE_SHARE * (high - low)
    return (own, True) if sure else (float(high - low), False)


def exponent_of(effect: Effect, name: str, members: Sequence[FamilyMember], rope: float) -> Exponent:
    """An exponent as it is reported.

    Args:
        effect: Its draws.
        name: Name of the setting.
        members: The runs.
        rope: Half width of the region of practical equivalence.
    """
    theory, x = theory_of(effect.quantity.name, name, members), effect.draws
    expected = not math.isnan(theory.finite)
    return Exponent(
        quantity=effect.quantity.name,
        setting=name,
        words=effect.quantity.words,
        posterior=interval(x),
        prior=normal_interval(effect.prior_sd),
        doubling=interval(effect.doubling),
        predicted=theory.value,
        finite=theory.finite,
        p_predicted=float(np.mean(np.abs(x - theory.finite) < rope)) if expected else math.nan,
        p_zero=float(np.mean(np.abs(x) < rope)),
        p_positive=float(np.mean(x > 0)),
        rope=rope,
        contraction=1.0 - min(effect.left, 1.0),
        relative=effect.relative,
    )


def normal_interval(sd: float) -> Interval:
    """Interval of a normal prior about 0."""
    reach = float(norm.ppf(0.5 + LEVEL / 2.0)) * sd
    return Interval(0.0, -reach, reach, LEVEL)


def spread_effect(together: Together, found: FamilyPosterior, quantity: FamilyQuantity) -> Spread:
    """What sets replicates apart: of the logarithm of a quantity, or of a level in reward."""
    factor = together.scale.unit if quantity.level else abs(quantity.power)
    scale = float(together.priors.spread[quantity.trait])
    low, median, high = (
        math.hypot(FLOOR, scale * float(norm.isf(0.5 * (1.0 - share))))
        for share in (0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2)
    )
    return Spread(
        quantity=quantity.name,
        words=quantity.words,
        posterior=interval(factor * found.draws.spread[..., quantity.trait]),
        prior=Interval(factor * median, factor * low, factor * high, LEVEL),
    )
