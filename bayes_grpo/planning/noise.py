"""Noise of a row by group size and prompts per step.

A row is the mean of P groups of G completions. With intraclass correlation ρ of completions of one prompt and variance
v of one completion its variance is

    v ρ / P  +  v (1 − ρ) / (P G),

the part between prompts and the part within groups, which alone falls as 1/G (`bayes_grpo.rows.known_noise`). At equal
cost P G is constant: larger groups leave the second part as it is and make the first one larger.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from bayes_grpo.common.errors import SettingError
from bayes_grpo.rows.known_noise import BY_GROUPS, BY_LEVEL
from bayes_grpo.rows.series import NoiseLevel

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Group sizes over the present one that are compared at equal cost."""


class RowNoise(NamedTuple):
    """Noise of a row at a group size and a number of prompts per step.

    Attributes:
        group_size: G, completions per prompt.
        prompts_per_step: P.
        cost: Completions per step over the present number.
        sd: Standard deviation of a row, reward; NaN where the log does not show it.
        ratio: This standard deviation over the present one.
        within: Share of the variance that is within groups.
        planned: Whether these are the planned settings.
    """

    group_size: float
    prompts_per_step: float
    cost: float
    sd: float
    ratio: float
    within: float
    planned: bool


class GroupSettings(NamedTuple):
    """Group size and prompts per step; None where unknown."""

    group_size: float | None
    prompts_per_step: float | None

    @property
    def complete(self) -> bool:
        """True if both are known."""
        return self.group_size is not None and self.prompts_per_step is not None


def correlation_of(level: NoiseLevel | None, group_size: float) -> tuple[float, bool]:
    """Intraclass correlation of completions of one prompt in groups of such a size; whether it comes from the log."""
    if level is None or group_size < 2 or level.evidence != BY_GROUPS.name:
        return BY_LEVEL.correlation, False
    return (level.design - 1.0) / (group_size - 1.0), True


def row_noises(present: GroupSettings, planned: GroupSettings, correlation: float, sd: float) -> tuple[RowNoise, ...]:
    """Noise of a row at the present settings, at other group sizes of equal cost and at the planned settings.

    A planned setting that is None stays as it is. ``correlation`` is ρ; ``sd`` is that of a row at present, NaN where
    it is unknown.
    """
    group = float(present.group_size or 0.0)
    prompts = float(present.prompts_per_step or 0.0)
    wanted = (float(planned.group_size or group), float(planned.prompts_per_step or prompts))
    for name, value in (("group_size", min(group, wanted[0])), ("prompts_per_step", min(prompts, wanted[1]))):
        if not (value >= 1.0 and math.isfinite(value)):
            raise SettingError(f"expected a number of at least 1, found {value:g}", parameter=name)
    equal = [(factor * group, prompts / factor) for factor in FACTORS]
    chosen = [x for x in equal if min(x) >= 1.0 and x[0].is_integer() and x[1].is_integer()]
    chosen = list(dict.fromkeys([(group, prompts), *chosen, wanted]))

    def parts(size: float, count: float) -> tuple[float, float]:
        return correlation / count, (1.0 - correlation) / (count * size)

    now = sum(parts(group, prompts))
    rows = []
    for size, count in sorted(chosen):
        between, within = parts(size, count)
        ratio = math.sqrt((between + within) / now)
        rows.append(
            RowNoise(
                group_size=size,
                prompts_per_step=count,
                cost=size * count / (group * prompts),
                sd=sd * ratio,
                ratio=ratio,
                within=within / (between + within),
                planned=(size, count) == wanted,
            )
        )
    return tuple(rows)
