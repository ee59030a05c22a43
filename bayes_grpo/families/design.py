"""What a family's settings may move, what theory expects of it, and the weak priors of it all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.dynamics.groups import group_drift_factor
from bayes_grpo.families.evidence import Scale
from bayes_grpo.families.members import FamilyMember
from bayes_grpo.families.model import FamilyPriors
from bayes_grpo.families.posterior import Together
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Parameter
from bayes_grpo.rows.table import RowTable

TIMES = ("response_time", "relaxation_time", "half_time", "midpoint")
"""Times whose inverse is the response rate of a law, by name; else its first time."""
SAME_START = ("group_size", "learning_rate", "prompts_per_step", "refresh_interval")
"""Settings that cannot move the reward before the first update."""
_SLOPE_SD: Mapping[str, float] = {"time": 1.0, "noise": 0.5, "number": 0.0, "level": 1.0}
"""Prior standard deviations of slopes by kind of trait: e-folds per e-fold of a setting; levels in units of the pooled
standard deviation of the rows. A slope of .5 on a noise is an exponent of 1 on its variance."""
SPREAD: Mapping[str, float] = {"time": 0.5, "noise": 0.4, "number": 0.4, "level": 0.5}
"""Scales of the half-normal spreads between runs of the same settings, likewise."""
BETWEEN = 1.0
"""Scale of the spread between studies, over that between runs."""


@dataclass(frozen=True)
class FamilyQuantity:
    """A quantity whose dependence on the settings is reported.

    Attributes:
        name: Its name in results.
        trait: Place of its trait.
        power: Its exponent over the slope of the trait: −1 for a rate (the trait is a time's logarithm), 2 for a
            variance, 1 for a level.
        level: Whether it is a level, whose slope is divided by its own size.
        words: What it is called in sentences.
    """

    name: str
    trait: int
    power: float
    level: bool
    words: str


class Theory(NamedTuple):
    """What the reduced model expects of an exponent.

    Attributes:
        value: To leading order; NaN where it expects nothing.
        finite: With the factor of finite groups; the same where that plays no part.
    """

    value: float
    finite: float


def quantities_of(regime: Regime) -> list[FamilyQuantity]:
    """Quantities of a law: response rate, variances of fluctuation and measurement, plateau, start."""
    names = [p.name for p in regime.parameters]
    times = [p.name for p in regime.sampled if kind_of(p) == "time"]
    time = next((t for t in TIMES if t in times), times[0] if times else None)
    out = []
    if time is not None and regime.has_trend:
        out.append(FamilyQuantity("rate", names.index(time), -1.0, False, "response rate"))
    for noise, name, words in (
        ("fluctuation_sd", "fluctuation_variance", "fluctuation variance"),
        ("observation_sd", "observation_variance", "measurement variance"),
    ):
        if noise in names:
            out.append(FamilyQuantity(name, names.index(noise), 2.0, False, words))
    out.append(FamilyQuantity("plateau", names.index("fixed_point"), 1.0, True, "plateau"))
    if regime.has_trend:
        out.append(FamilyQuantity("initial_reward", names.index("initial_reward"), 1.0, True, "initial reward"))
    return out


def together_of(regime: Regime, members: Sequence[FamilyMember], vary: Sequence[str]) -> Together:
    """The runs as the model sees them.

    Args:
        regime: The law.
        members: The runs.
        vary: Names of the varied settings.
    """
    tables = [m.table for m in members]
    y = np.concatenate([t.y for t in tables])
    scale = Scale(float(y.mean()), float(y.std()))
    x = np.log([[m.settings[name] for name in vary] for m in members])
    studies = sorted({m.study for m in members})
    return Together(
        regime=regime,
        tables=tables,
        scale=scale,
        priors=priors_of(regime, tables, vary),
        x=x - x.mean(axis=0),
        offset=offset_of(regime, tables),
        study=np.array([studies.index(m.study) for m in members]),
    )


def priors_of(regime: Regime, tables: Sequence[RowTable], vary: Sequence[str]) -> FamilyPriors:
    """Weak priors from the scale and the length of the logs alone.

    Args:
        regime: The law.
        tables: Rows of each run.
        vary: Names of the varied settings.
    """
    kinds = [kind_of(p) for p in regime.parameters]
    weak = [[p.default(t) for t in tables] for p in regime.sampled]
    centre = [
        float(np.mean([p.transform.inverse(q.median) for q in known]))
        for p, known in zip(regime.sampled, weak, strict=True)
    ]
    width = [
        max([q.spread for q in known] + ([1.0] if kind_of(p) == "time" else []))
        for p, known in zip(regime.sampled, weak, strict=True)
    ]
    levels = len(regime.linear)
    slope = np.array([[_SLOPE_SD[kind] for kind in kinds] for _ in vary])
    for i, name in enumerate(vary):
        for q, p in enumerate(regime.parameters):
            if p.name == "initial_reward" and name in SAME_START:
                slope[i, q] = 0.0
    spread = np.array([SPREAD[kind] for kind in kinds])
    return FamilyPriors(
        centre=np.array(centre + [0.0] * levels),
        width=np.array(width + [3.0] * levels),
        slope=slope,
        spread=spread,
        between=BETWEEN * spread,
    )


def offset_of(regime: Regime, tables: Sequence[RowTable]) -> np.ndarray:
    """What is known to move traits: a row that is a mean over more steps has less measurement noise, shape (n, P)."""
    offset = np.zeros((len(tables), len(regime.parameters)))
    windows = np.array([np.median(t.window) for t in tables])
    if np.all(windows > 0):
        place = [p.name for p in regime.parameters].index("observation_sd")
        offset[:, place] = -0.5 * np.log(windows / np.exp(np.log(windows).mean()))
    return offset


def theory_of(quantity: str, setting: str, members: Sequence[FamilyMember]) -> Theory:
    """What the reduced model expects of an exponent; see `Theory`.

    Stiffness is the learning rate times the curvature; the stationary variance is the step's noise over stiffness and
    damping, so it falls with completions and rises with the learning rate; nothing but the model moves the plateau.
    Under advantages over the group's standard deviation a finite group drifts more slowly, by a factor that depends on
    the success rate: its exponent over the sizes in the family, at the mean success of all rows.

    Args:
        quantity: Name of a quantity.
        setting: Name of a setting.
        members: The runs.
    """
    known = {
        ("rate", "learning_rate"): 1.0,
        ("rate", "group_size"): 0.0,
        ("rate", "prompts_per_step"): 0.0,
        ("rate", "refresh_interval"): 0.0,
        ("fluctuation_variance", "learning_rate"): 1.0,
        ("fluctuation_variance", "group_size"): -1.0,
        ("fluctuation_variance", "prompts_per_step"): -1.0,
        ("observation_variance", "learning_rate"): 0.0,
        ("observation_variance", "prompts_per_step"): -1.0,
        **{("plateau", name): 0.0 for name in SAME_START},
    }
    value = known.get((quantity, setting), math.nan)
    if (quantity, setting) != ("rate", "group_size"):
        return Theory(value, value)
    success = float(np.mean([m.table.y.mean() for m in members]))
    sizes = np.array([m.settings[setting] for m in members])
    if not (all(m.table.is_share for m in members) and 0.0 < success < 1.0 and sizes.min() >= 2):
        return Theory(value, value)
    factor = [math.log(float(group_drift_factor(success, round(g), 1))) for g in sizes]
    return Theory(value, float(np.polyfit(np.log(sizes), factor, 1)[0]))


def kind_of(parameter: Parameter) -> str:
    """Kind of a parameter: "time", "noise", "level" or "number"."""
    if parameter.unit == "reward":
        return "noise" if parameter.transform.positive else "level"
    return "time" if parameter.unit in ("step", "1/step") else "number"
