"""The seam between a law and everything that fits, compares or forecasts it.

A regime is one file: its parameters in physical words with weak priors, and how they become a state space on the
rows of a log. Every prior is a normal distribution in a transformed coordinate and is given by two numbers, its
median and its spread, so that an override changes numbers and never the compiled program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp
from jax import Array

from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.errors import PriorError
from bayes_grpo.regimes.rows import Rows, RowTable


@dataclass(frozen=True)
class Transform:
    """A monotone map from the real line to the values of a parameter.

    Attributes:
        name: What the prior is called in this coordinate.
        forward: Real line → value, in JAX.
        inverse: Value → real line, on Python numbers.
        spread_unit: What the spread of a prior means, for tables and messages.
        positive: Whether values are positive.
    """

    name: str
    forward: Callable[[Any], Any]
    inverse: Callable[[float], float]
    spread_unit: str
    positive: bool = False


POSITIVE = Transform("log-normal", jnp.exp, math.log, "e-folds", positive=True)
UNIT = Transform("logit-normal", lambda u: 1.0 / (1.0 + jnp.exp(-u)), lambda v: math.log(v / (1.0 - v)), "logits")
REAL = Transform("normal", lambda u: u, lambda v: v, "its unit")
SIGNED = Transform("asinh-normal", jnp.sinh, math.asinh, "asinh units")
"""Like the log-normal for large values, and smooth through zero to negative ones."""


@dataclass(frozen=True)
class Prior:
    """A prior by its median and its spread.

    Attributes:
        median: Median, in the parameter's unit.
        spread: Standard deviation in the transformed coordinate: e-folds for a positive parameter, the
            parameter's own unit for a real one.
    """

    median: float
    spread: float


@dataclass(frozen=True)
class Parameter:
    """One parameter of a regime.

    Attributes:
        name: Name in results and in overrides.
        unit: "reward", "step", "1/step" or "" for a pure number.
        meaning: One clause for tables.
        transform: Coordinate in which its prior is normal.
        default: Weak prior from the scale and the length of the rows alone.
        linear: Whether the rows are linear in it, so that it lives in the state and is integrated out exactly
            while sampling, and drawn afterwards. Such a parameter has the transform `REAL`.
    """

    name: str
    unit: str
    meaning: str
    transform: Transform
    default: Callable[[RowTable], Prior]
    linear: bool = False


class Regime(Protocol):
    """A law of the reward curve. Adding one is adding one file that satisfies this protocol.

    Attributes:
        name: Name on the command line.
        title: What it is, in a clause.
        parameters: All parameters, sampled ones first.
        forecasts: Whether the law says what comes after the last row from steps and learning rates alone. One that
            needs another logged signal does not.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def parameters(self) -> tuple[Parameter, ...]: ...  # noqa: D102
    @property
    def forecasts(self) -> bool: ...  # noqa: D102

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Last step from the sampler's coordinates to physical values, for parameters that depend on each other."""
        ...

    def state_space(self, values: Mapping[str, Array], linear: Mapping[str, Any], rows: Rows) -> StateSpace:
        """The law on the rows.

        Args:
            values: Sampled parameters by name, scalars in their units.
            linear: Priors of the linear parameters by name, as (mean, sd) scalars.
            rows: Rows of the log, padded.

        Returns:
            The state space of the rows.
        """
        ...

    def check(self, table: RowTable) -> None:
        """Raises `FitError` where the law cannot be put on these rows."""
        ...

    def linear_values(self, initial_state: Array) -> dict[str, Array]:
        """The linear parameters, read off a state before the first row of shape (..., n)."""
        ...

    def derived(self, values: Mapping[str, Any], table: RowTable) -> dict[str, Any]:
        """Derived quantities of each draw, NumPy arrays of one shape.

        Args:
            values: Every parameter by name, arrays of one shape.
            table: Rows of the log, for the run's optimizer settings.

        Returns:
            Derived quantities by name.
        """
        ...


def sampled(regime: Regime) -> tuple[Parameter, ...]:
    """Parameters in which the sampler moves."""
    return tuple(p for p in regime.parameters if not p.linear)


def linear(regime: Regime) -> tuple[Parameter, ...]:
    """Parameters that are integrated out."""
    return tuple(p for p in regime.parameters if p.linear)


def resolve_priors(regime: Regime, table: RowTable, overrides: Mapping[str, Any] | None = None) -> dict[str, Prior]:
    """Default priors of a regime for a log, with the user's overrides in their place.

    Args:
        regime: The law.
        table: Rows of the log, for their scale and length.
        overrides: Parameter name → `Prior`, or a pair (median, spread), or a mapping with these keys.

    Returns:
        Parameter name → prior, in the order of the regime's parameters.

    Raises:
        PriorError: An override names no parameter of the regime or has impossible numbers.
    """
    known = {p.name: p for p in regime.parameters}
    priors = {p.name: p.default(table) for p in regime.parameters}
    for name, given in (overrides or {}).items():
        if name not in known:
            raise PriorError(
                f"prior for {name!r}: regime {regime.name!r} has no such parameter; it has {', '.join(known)}"
            )
        priors[name] = _checked(known[name], given)
    return priors


def _checked(parameter: Parameter, given: Any) -> Prior:
    where = f"prior for {parameter.name!r}"
    try:
        if isinstance(given, Prior):
            median, spread = given.median, given.spread
        elif isinstance(given, Mapping):
            median, spread = given["median"], given["spread"]
        else:
            median, spread = given
        prior = Prior(float(median), float(spread))
    except (KeyError, TypeError, ValueError) as error:
        raise PriorError(f"{where}: expected a median and a spread (two numbers), found {given!r}") from error
    if not (math.isfinite(prior.median) and math.isfinite(prior.spread) and prior.spread > 0):
        raise PriorError(f"{where}: expected a finite median and a spread above 0, found {given!r}")
    if parameter.transform is UNIT and not 0 < prior.median < 1:
        raise PriorError(f"{where}: {parameter.name} lies between 0 and 1; its median must too, found {given!r}")
    if parameter.transform.positive and prior.median <= 0:
        raise PriorError(f"{where}: {parameter.name} is positive; its median must be too, found {given!r}")
    return prior
