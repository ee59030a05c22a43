"""Parameters of a regime: coordinates in which their priors are normal, and the priors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.rows.series import Series


def namespace(values: Any) -> Any:
    """`jax.numpy` for JAX arrays, so that what is derived from them can be traced; NumPy for all others."""
    return jnp if isinstance(values, Array) else np


@dataclass(frozen=True)
class Transform:
    """A monotone map from the real line to the values of a parameter.

    Attributes:
        name: What the prior is called in this coordinate.
        forward: Real line → value, in JAX.
        inverse: Value → real line, on Python numbers.
        positive: Whether values are positive.
    """

    name: str
    forward: Callable[[Any], Any]
    inverse: Callable[[float], float]
    positive: bool = False


POSITIVE = Transform("log-normal", jnp.exp, math.log, positive=True)


UNIT = Transform("logit-normal", lambda u: 1.0 / (1.0 + jnp.exp(-u)), lambda v: math.log(v / (1.0 - v)))


REAL = Transform("normal", lambda u: u, lambda v: v)


SIGNED = Transform("asinh-normal", jnp.sinh, math.asinh)
"""Like the log-normal for large values, and smooth through zero to negative ones."""


@dataclass(frozen=True)
class Prior:
    """A prior by its median and its spread, normal in the parameter's coordinate, or by its quantiles.

    Attributes:
        median: Median, in the parameter's unit.
        spread: Standard deviation in the transformed coordinate: e-folds for a positive parameter, the
            parameter's own unit for a real one.
        quantiles: Values of the coordinate at the standard normal numbers `bayes_grpo.regimes.priors.GRID`, for a
            prior that is not normal there; then the spread is half of the way between those at -1 and 1.
        name: Name of its distribution; "" for a normal one.
    """

    median: float
    spread: float
    quantiles: tuple[float, ...] | None = None
    name: str = ""


class Quantity(NamedTuple):
    """What a table says of a quantity.

    Attributes:
        unit: "reward", "step", "1/step" or "" for a pure number.
        meaning: One clause.
    """

    unit: str
    meaning: str


@dataclass(frozen=True)
class Parameter:
    """One parameter of a regime.

    Attributes:
        name: Name in results and in overrides.
        unit: "reward", "step", "1/step" or "" for a pure number.
        meaning: One clause for tables.
        transform: Coordinate in which its prior is normal.
        default: Weak prior from the scale and the length of the rows alone.
        marginalized: Whether the rows are linear in it, so that it lives in the state and is integrated out exactly
            while sampling, and drawn afterwards. Such a parameter has the transform `REAL`.
    """

    name: str
    unit: str
    meaning: str
    transform: Transform
    default: Callable[[Series], Prior]
    marginalized: bool = False
