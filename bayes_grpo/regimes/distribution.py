"""A regime on the rows of a log as a NumPyro distribution, to compose with other models, and as a model of one log.

    with numpyro.plate("logs", n):
        time = numpyro.sample("relaxation_time", dist.LogNormal(location, spread))
        ...
        numpyro.sample("y", regime.distribution({"relaxation_time": time, ...}, rows), obs=rows.y)

Any prior serves on any parameter. A marginalized parameter (fixed point, initial reward) may be a pair (mean, sd)
instead of a value: the filter then integrates it out exactly under that normal prior.

    mcmc = MCMC(NUTS(regime.model, dense_mass=True), num_warmup=1000, num_samples=1000)
    mcmc.run(jax.random.key(0), rows_of(run))

Use 64-bit numbers (`numpyro.enable_x64()`): a filter over hundreds of rows loses digits in 32 bits.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.core import Tracer
from numpyro import primitives
from numpyro.distributions import constraints

from bayes_grpo.common.errors import BayesGrpoWarning, PriorError, SettingError
from bayes_grpo.dynamics.kalman import log_likelihood
from bayes_grpo.dynamics.sampling import draw_rows
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import UNIT, Regime
from bayes_grpo.regimes.priors import is_distribution, point_value, resolve_priors
from bayes_grpo.rows.padding import Rows, padded
from bayes_grpo.rows.series import Series


class _RealOrMissing(constraints.ParameterFreeConstraint):
    """Any vector; NaN is a missing value."""

    event_dim = 1

    def __call__(self, x: Any) -> Any:
        return jnp.all(~jnp.isinf(x), axis=-1)


class RowsDistribution(dist.Distribution):
    """The logged values of rows under a regime.

    Attributes:
        regime: The regime.
        values: Parameters whose values are known, by name; leading batch axes.
        levels: (mean, sd) of the marginalized parameters by name; an sd of 0 is a known value. Leading batch axes.
        rows: The rows; leading batch axes are those of ``rows.y`` but its last.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012  (NumPyro's own convention)
    pytree_data_fields = ("values", "levels", "rows")
    pytree_aux_fields = ("regime",)

    def __init__(
        self, regime: Regime, values: Mapping[str, Any], rows: Rows | Series, *, validate_args: bool | None = None
    ) -> None:
        """See `bayes_grpo.regimes.base.Regime.distribution`."""
        if not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
            words = "JAX computes in 32 bits, which costs a filter over many rows its digits; call numpyro.enable_x64()"
            warnings.warn(words, BayesGrpoWarning, stacklevel=3)
        names = [p.name for p in regime.parameters]
        unknown = [k for k in values if k not in names]
        lacking = [k for k in names if k not in values]
        if unknown or lacking:
            found = f"without {', '.join(lacking)}" if lacking else f"{unknown[0]!r}"
            raise SettingError(f"distribution of {regime.name}: expected values of {', '.join(names)}, found {found}")
        levels = {p.name: values[p.name] for p in regime.marginalized}
        levels = {k: v if isinstance(v, tuple) else (v, 0.0) for k, v in levels.items()}
        self.regime = regime
        self.values = {p.name: jnp.asarray(values[p.name], float) for p in regime.sampled}
        self.levels = {k: (jnp.asarray(m, float), jnp.asarray(s, float)) for k, (m, s) in levels.items()}
        self.rows = jax.tree.map(jnp.asarray, padded(rows, len(rows.y)) if isinstance(rows, Series) else rows)
        super().__init__(self._batch(), self.rows.y.shape[-1:], validate_args=validate_args)
        if self._validate_args:
            self._check_values()

    def _check_values(self) -> None:
        """Raises `SettingError` where a known value lies outside of its parameter's range."""
        for p in self.regime.sampled:
            value = self.values[p.name]
            if isinstance(value, Tracer):
                continue
            inside = jnp.isfinite(value)
            if p.transform.positive:
                inside &= value > 0
            elif p.transform is UNIT:
                inside &= (value > 0) & (value < 1)
            if not jnp.all(inside):
                values = "values above 0" if p.transform.positive else "values inside its range"
                raise SettingError(f"distribution of {self.regime.name}: expected {values} of {p.name}, found {value}")

    @property
    def support(self) -> constraints.Constraint:
        """Real vectors; NaN is a missing value."""
        return _RealOrMissing()

    def log_prob(self, value: Any, intermediates: list[Any] | None = None) -> Array:
        """Log density of logged values of shape (..., T), NaN = missing; batch shape.

        Raises:
            SettingError: The values have another length than the rows, or one of them is infinite. Values that are
                traced are not known yet: an infinite one has the density 0.
        """
        y = jnp.asarray(value, float)
        length = self.rows.y.shape[-1]
        where = f"distribution of {self.regime.name}"
        if y.shape[-1:] != (length,):
            raise SettingError(
                f"{where}: expected values of event shape ({length},), one for each row, found shape {y.shape}; "
                "mark a row that is missing by NaN"
            )
        if not isinstance(y, Tracer) and jnp.any(jnp.isinf(y)):
            row = int(jnp.argmax(jnp.any(jnp.isinf(y).reshape(-1, length), axis=0)))
            raise SettingError(
                f"{where}: expected finite values of event shape ({length},), or NaN where a row is missing, found an "
                f"infinite one in row {row}; replace it by NaN or drop the run"
            )
        found = self._over_batch(log_likelihood, y, y.shape[:-1], 1)
        return jnp.where(jnp.any(jnp.isinf(y), axis=-1), -jnp.inf, found)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of the logged values of all rows, padded ones included: sample_shape + batch shape + (T,)."""
        shape = (*sample_shape, *self._batch())
        length = self.rows.y.shape[-1:]

        def one(space: StateSpace, key: Array) -> Array:
            return draw_rows(space, jnp.zeros(length), jax.random.normal(key, length))[0]

        return self._over_batch(one, _keys(key, shape), shape, 0)

    def _batch(self) -> tuple[int, ...]:
        """Batch shape of the leaves as they are now; inside a `vmap` they have fewer axes than when they were made."""
        shapes = [jnp.shape(x) for x in jax.tree.leaves((self.values, self.levels))]
        return jnp.broadcast_shapes(*shapes, jnp.shape(self.rows.y)[:-1])

    def _over_batch(
        self, function: Callable[[StateSpace, Array], Any], last: Array, last_batch: tuple[int, ...], own: int
    ) -> Any:
        """Applies a function of (state space, last) to every point of the batch.

        The last argument has leading batch axes of a shape, and so many axes of its own.
        """

        def one(values: Any, levels: Any, rows: Rows, last: Array) -> Any:
            return function(self.regime.on_rows(values, levels, rows), last)

        shape = jnp.broadcast_shapes(self._batch(), last_batch)
        if not shape:
            return one(self.values, self.levels, self.rows, last)
        batched = jnp.ndim(self.rows.y) - 1  # leading axes of every field of the rows

        def flat(x: Array, event: int) -> Array:
            axes = jnp.shape(x)[jnp.ndim(x) - event :]
            return jnp.broadcast_to(x, (*shape, *axes)).reshape(-1, *axes)

        values, levels = jax.tree.map(lambda x: flat(x, 0), (self.values, self.levels))
        rows = jax.tree.map(lambda x: flat(x, jnp.ndim(x) - batched), self.rows)
        found = jax.vmap(one)(values, levels, rows, flat(last, own))
        return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), found)


def _keys(key: Any, shape: tuple[int, ...]) -> Array:
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return jax.random.split(jax.random.wrap_key_data(data), math.prod(shape)).reshape(shape)


def _check_handlers(derived: Sequence[str], integrated: Sequence[str]) -> None:
    """Raises `SettingError` where a handler sets a parameter that is no sample site: NumPyro would ignore it.

    ``derived`` parameters have a deterministic site: `substitute` sets those, and a handler that sets their normal
    coordinates too is right. ``integrated`` ones have none.
    """
    for handler in primitives._PYRO_STACK:
        if isinstance(handler, numpyro.handlers.condition | numpyro.handlers.do):
            ignored = [*derived, *integrated]
        elif isinstance(handler, numpyro.handlers.substitute):
            ignored = integrated
        else:
            continue
        given = handler.data or {}
        for name in ignored:
            if name in given and f"{name}_free" not in given:
                instead = f" or set its normal coordinate {name}_free" if name in derived else ""
                raise SettingError(
                    f"{type(handler).__name__}: expected names of sample sites, found {name!r}, which is none in this "
                    f"model; give it a NumPyro distribution as its prior{instead}"
                )


def model(
    regime: Regime, table: Series, priors: Mapping[str, Any] | None = None, marginalize: bool = False
) -> dict[str, Any]:
    """The model of one log; see `bayes_grpo.regimes.base.Regime.model`."""
    regime.check(table)
    own = {k: v for k, v in (priors or {}).items() if is_distribution(v) and point_value(v) is None}
    known = resolve_priors(regime, table, {k: v for k, v in (priors or {}).items() if k not in own})
    fixed = {name for name, prior in known.items() if prior.fixed}
    for name, prior in known.items():
        if prior.quantiles is not None and name not in fixed:
            raise PriorError(
                f"prior for {name!r}: expected a NumPyro distribution or a median and a spread, found the quantiles of "
                f"{prior.name}; give the distribution itself"
            )
    rows = padded(table, len(table.y))
    free = {}
    values = {}
    integrated = [p.name for p in regime.marginalized if marginalize and p.name not in own]
    _check_handlers([p.name for p in regime.sampled if p.name not in own], integrated)
    for p in regime.sampled:
        prior = known[p.name]
        if p.name in own:
            free[p.name] = numpyro.sample(p.name, own[p.name])
        elif p.name in fixed:
            free[p.name] = jnp.asarray(prior.median)
        else:
            u = numpyro.sample(f"{p.name}_free", dist.Normal(p.transform.inverse(prior.median), prior.spread))
            free[p.name] = p.transform.forward(u)
    bound = regime.physical(free, rows)
    for name, value in free.items():
        values[name] = value if name in own or name in fixed else numpyro.deterministic(name, bound[name])
    for p in regime.marginalized:
        normal = known[p.name].median, known[p.name].spread
        if p.name in integrated:
            values[p.name] = normal
        elif p.name in fixed:
            values[p.name] = known[p.name].median
        else:
            values[p.name] = numpyro.sample(p.name, own.get(p.name, dist.Normal(*normal)))
    numpyro.sample("y", regime.distribution(values, rows), obs=rows.y)
    return values
