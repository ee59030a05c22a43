"""Coordinates in which logs of any length, scale and unit can be compared.

* A time is measured in lengths of the log, as log(time / length);
* a noise in standard deviations of the rows, as log(sd / scale);
* the fixed point by how far it lies above the last rows, (R* - level) / reach, where the reach is the scale, or a sixth
  of the way up to 1 where that is more and all rows lie in [0, 1]: the spread of rows that have not moved yet says
  nothing of what is to come;
* the initial reward by how far it lies above the first rows, (R₀ - first) / scale;
* pure numbers as they are, in the coordinate in which their prior is normal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayes_grpo.learning.table import COVARIATES
from bayes_grpo.regimes.parameters import Parameter
from bayes_grpo.rows.table import RowTable

_LAST, _FIRST = 10, 5


class Features(NamedTuple):
    """What the coordinates of a population know of the rows of a log.

    Attributes:
        length: Steps from the start of the first row to the end of the last.
        scale: Standard deviation of the rows.
        level: Mean of the last rows.
        first: Mean of the first rows.
        reach: Unit of the fixed point.
        covariates: Values of `COVARIATES`; NaN where not logged.
    """

    length: float
    scale: float
    level: float
    first: float
    reach: float
    covariates: np.ndarray


def features_of(table: RowTable) -> Features:
    """Features of the rows of a log."""
    n = len(table.y)
    last, first = min(_LAST, max(1, n // 5)), min(_FIRST, max(1, n // 10))
    rate = table.reference_rate
    known = math.isfinite(rate) and rate > 0
    logged = {"rate": math.log(rate) if known else math.nan, "length": math.log(table.length)}
    level = float(table.y[-last:].mean())
    return Features(
        length=table.length,
        scale=table.scale,
        level=level,
        first=float(table.y[:first].mean()),
        reach=max(table.scale, (1.0 - level) / 6.0) if table.is_share else table.scale,
        covariates=np.array([logged[c] for c in COVARIATES]),
    )


def unit_of(parameter: Parameter, features: Features) -> tuple[float, float]:
    """Origin and unit of a parameter's scale-free coordinate phi = (u - origin) / unit.

    u is the coordinate in which the parameter's prior is normal.
    """
    if parameter.unit == "reward" and parameter.transform.positive:
        return math.log(features.scale), 1.0
    if parameter.unit == "reward":
        starts = parameter.name == "initial_reward"
        return (features.first, features.scale) if starts else (features.level, features.reach)
    if parameter.unit == "step" and parameter.transform.positive:
        return math.log(features.length), 1.0
    if parameter.unit == "1/step" and parameter.transform.positive:
        return -math.log(features.length), 1.0
    return 0.0, 1.0


def kind_of(parameter: Parameter) -> str:
    """Kind of a parameter: "time", "noise", "level" or "number"."""
    if parameter.unit == "reward":
        return "noise" if parameter.transform.positive else "level"
    return "time" if parameter.unit in ("step", "1/step") else "number"
