"""The seam between a regime and everything that fits, compares or forecasts it: `Regime` and its `Parameter`s.

A regime is a model of the reward curve: its parameters in physical words with weak priors, and how they become a state
space on the rows of a log. What nearly every regime has in common is a default here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.errors import FitError
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.series import Series

if TYPE_CHECKING:
    from bayes_grpo.regimes.distribution import RowsDistribution


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
            parameter's own unit for a real one; 0 for a point prior, which fixes the parameter at the median.
        quantiles: Values of the coordinate at the standard normal numbers `bayes_grpo.regimes.priors.GRID`, for a
            prior that is not normal there; then the spread is half of the way between those at -1 and 1.
        name: Name of its distribution; "" for a normal one.
    """

    median: float
    spread: float
    quantiles: tuple[float, ...] | None = None
    name: str = ""

    @property
    def fixed(self) -> bool:
        """True if the parameter is fixed at the median."""
        return self.spread == 0.0


class Quantity(NamedTuple):
    """Unit ("reward", "step", "1/step" or "" for a pure number) and meaning, in a clause, of a quantity."""

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


@dataclass(frozen=True)
class Regime(ABC):
    """A model of the reward curve.

    A subclass states `name`, `title`, `parameters` and `state_space`; the rest has defaults. Without fields of its own
    it needs no decorator; with fields (options of the regime) it is a frozen dataclass. Instances are hashable, because
    compiled programs are kept by them.

    Attributes:
        name: Name on the command line and in files.
        title: What it is, in a clause.
        requires_settings: Whether it means nothing without a known momentum and refresh interval.
        on_request: Whether comparisons leave it out unless it is named: slow, or close to another.
        quantities: Derived quantities by name, with units and meanings.
        sampled_levels: Marginalized parameters that are sampled instead of integrated out, as a prior needs that is not
            normal; by `dataclasses.replace`.
    """

    sampled_levels: tuple[str, ...] = field(default=(), kw_only=True)

    name: ClassVar[str]
    title: ClassVar[str]
    requires_settings: ClassVar[bool] = False
    on_request: ClassVar[bool] = False
    quantities: ClassVar[Mapping[str, Quantity]] = {}

    @property
    @abstractmethod
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters, sampled ones first."""

    @abstractmethod
    def state_space(self, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows) -> StateSpace:
        """The regime on the rows.

        Args:
            values: Sampled parameters by name, scalars in their units.
            marginalized: Priors of the marginalized parameters by name, as (mean, sd) scalars.
            rows: Rows of the log, padded.

        Returns:
            The state space of the rows. Its state ends with the fixed point and, in a regime with a trend, begins with
            the distance to it, unless `marginalized_values` says otherwise.
        """

    def physical(self, values: dict[str, Array], rows: Rows) -> dict[str, Array]:
        """Last step from the sampler's coordinates to physical values, for parameters that depend on each other."""
        return values

    def check(self, table: Series) -> None:
        """Tests if there are enough rows for the regime: as many as it has parameters, and two more.

        Raises:
            FitError: It cannot.
        """
        count = len(self.parameters)
        if len(table.y) < count + 2:
            raise FitError(
                f"regime {self.name}: needs at least {count + 2} rows (its {count} parameters and two more), found "
                f"{len(table.y)}; log more often, wait for more steps, or fit the regime flat"
            )

    def marginalized_values(self, initial_state: Array) -> dict[str, Array]:
        """The marginalized parameters, read off a state before the first row of shape (..., n)."""
        fixed = initial_state[..., -1]
        if not self.has_trend:
            return {"fixed_point": fixed}
        return {"fixed_point": fixed, "initial_reward": initial_state[..., 0] + fixed}

    def derived(self, values: Mapping[str, Any], table: Series) -> dict[str, Any]:
        """Derived quantities of each draw by name, from every parameter by name, NumPy or JAX arrays of one shape."""
        return {}

    @property
    def has_trend(self) -> bool:
        """True where the regime has a start and a fixed point."""
        return any(p.name == "initial_reward" for p in self.parameters)

    @property
    def sampled(self) -> tuple[Parameter, ...]:
        """Parameters in which the sampler moves."""
        levels = (replace(p, marginalized=False) for p in self.parameters if p.name in self.sampled_levels)
        return (*(p for p in self.parameters if not p.marginalized), *levels)

    @property
    def marginalized(self) -> tuple[Parameter, ...]:
        """Parameters in which the rows are linear: they are integrated out."""
        return tuple(p for p in self.parameters if p.marginalized and p.name not in self.sampled_levels)

    def on_rows(self, values: Mapping[str, Array], marginalized: Mapping[str, Any], rows: Rows) -> StateSpace:
        """`state_space` from the values of `sampled` and the priors of `marginalized`."""
        known = {name: (values[name], 0.0) for name in self.sampled_levels}
        return self.state_space(values, {**marginalized, **known}, rows)

    def described(self, name: str) -> Quantity:
        """Unit and meaning of a parameter or derived quantity."""
        known = {p.name: Quantity(p.unit, p.meaning) for p in self.parameters}
        return known.get(name) or self.quantities.get(name, Quantity("", ""))

    def distribution(
        self, values: Mapping[str, Any], rows: Rows | Series, *, validate_args: bool | None = None
    ) -> RowsDistribution:
        """The regime on rows as a NumPyro distribution.

        Args:
            values: Every parameter by name, in its unit; batch shapes broadcast. A marginalized parameter may be a pair
                (mean, sd) instead: it is then integrated out under that normal prior.
            rows: Rows of one log, from `bayes_grpo.rows_of`; of several, from `bayes_grpo.stacked`.
            validate_args: Whether values outside of a parameter's range are errors.

        Returns:
            A distribution over the logged values, event shape (T,); NaN is a missing value.

        Raises:
            SettingError: A parameter is missing or unknown, or outside of its range where values are validated.
        """
        # NumPyro takes a second to import.
        from bayes_grpo.regimes.distribution import RowsDistribution

        return RowsDistribution(self, values, rows, validate_args=validate_args)

    def model(self, rows: Series, priors: Mapping[str, Any] | None = None, marginalize: bool = False) -> dict[str, Any]:
        """The regime with its priors as a NumPyro model that `numpyro.infer.MCMC` takes.

        It has the posterior of `bayes_grpo.fit`. Sites: both levels, and every one with a NumPyro
        distribution as its prior, under its name; ``<name>_free`` for every other one, its normal coordinate, and
        ``<name>`` as a deterministic site, after `physical` has bound it to the rows; ``y``, the logged values. To
        condition on a parameter by its name, give it a distribution: `condition` cannot set a deterministic site.

        Args:
            rows: Rows of a log, from `bayes_grpo.rows_of`.
            priors: Overrides, parameter → NumPyro distribution over its values, or (median, spread), or a number that
                fixes it, which leaves no site.
            marginalize: Whether both levels are integrated out under their normal default priors, as `fit` does.

        Returns:
            Every parameter by name; an integrated one as its (mean, sd).

        Raises:
            FitError: The regime cannot be put on these rows.
            PriorError: An override is impossible.
            SettingError: A handler sets a parameter that is no sample site.
        """
        from bayes_grpo.regimes.distribution import model

        return model(self, rows, priors, marginalize)
