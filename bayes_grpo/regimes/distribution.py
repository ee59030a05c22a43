"""A regime on the rows of a log as a NumPyro distribution, to compose with other models.

    with numpyro.plate("logs", n):
        time = numpyro.sample("relaxation_time", dist.LogNormal(location, spread))
        ...
        numpyro.sample("y", regime.distribution({"relaxation_time": time, ...}, rows), obs=rows.y)

Any prior serves on any parameter. A linear parameter (fixed point, initial reward) may be a pair (mean, sd) instead of
a value: the filter then integrates it out exactly under that normal prior.

Use 64-bit numbers (`numpyro.enable_x64()`): a filter over hundreds of rows loses digits in 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array
from jax.core import Tracer
from numpyro.distributions import constraints

from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics.kalman import draw_rows, log_likelihood
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import UNIT
from bayes_grpo.rows.padding import Rows, padded
from bayes_grpo.rows.table import RowTable


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
        levels: (mean, sd) of the linear parameters by name; an sd of 0 is a known value. Leading batch axes.
        rows: The rows; leading batch axes are those of ``rows.y`` but its last.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012  (NumPyro's own convention)
    pytree_data_fields = ("values", "levels", "rows")
    pytree_aux_fields = ("regime",)

    def __init__(
        self, regime: Regime, values: Mapping[str, Any], rows: Rows | RowTable, *, validate_args: bool | None = None
    ) -> None:
        """See `bayes_grpo.regimes.base.Regime.distribution`."""
        names = [p.name for p in regime.parameters]
        unknown, lacking = [k for k in values if k not in names], [k for k in names if k not in values]
        if unknown or lacking:
            found = f"without {', '.join(lacking)}" if lacking else f"{unknown[0]!r}"
            raise SettingError(f"distribution of {regime.name}: expected values of {', '.join(names)}, found {found}")
        levels = {p.name: values[p.name] for p in regime.linear}
        levels = {k: v if isinstance(v, tuple) else (v, 0.0) for k, v in levels.items()}
        self.regime = regime
        self.values = {p.name: jnp.asarray(values[p.name], float) for p in regime.sampled}
        self.levels = {k: (jnp.asarray(m, float), jnp.asarray(s, float)) for k, (m, s) in levels.items()}
        self.rows = jax.tree.map(jnp.asarray, padded(rows, len(rows.y)) if isinstance(rows, RowTable) else rows)
        super().__init__(self._batch(), self.rows.y.shape[-1:], validate_args=validate_args)
        if self._validate_args:
            self._check_values()

    def _check_values(self) -> None:
        """Raises `SettingError` where a known value lies outside of its parameter's range."""
        for p in self.regime.sampled:
            value = self.values[p.name]
            if isinstance(value, Tracer):
                continue
            inside = value > 0 if p.transform.positive else (value > 0) & (value < 1) if p.transform is UNIT else True
            if not jnp.all(jnp.isfinite(value) & inside):
                values = "values above 0" if p.transform.positive else "values inside its range"
                raise SettingError(f"distribution of {self.regime.name}: expected {values} of {p.name}, found {value}")

    @property
    def support(self) -> constraints.Constraint:
        """Real vectors; NaN is a missing value."""
        return _RealOrMissing()

    def log_prob(self, value: Any, intermediates: list[Any] | None = None) -> Array:
        """Log density of logged values of shape (..., T), NaN = missing; batch shape."""
        y = jnp.asarray(value, float)

        def one(values: Any, levels: Any, rows: Rows, y: Array) -> Array:
            return log_likelihood(self.regime.state_space(values, levels, rows), y)

        return self._over_batch(one, y, y.shape[:-1], 1)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Array:
        """Draws of the logged values of all rows, padded ones included: sample_shape + batch shape + (T,)."""
        shape = (*sample_shape, *self._batch())

        def one(values: Any, levels: Any, rows: Rows, key: Array) -> Array:
            space = self.regime.state_space(values, levels, rows)
            length = rows.y.shape[-1:]
            return draw_rows(space, jnp.zeros(length), jax.random.normal(key, length))[0]

        return self._over_batch(one, _keys(key, shape), shape, 0)

    def _batch(self) -> tuple[int, ...]:
        """Batch shape of the leaves as they are now; inside a `vmap` they have fewer axes than when they were made."""
        shapes = [jnp.shape(x) for x in jax.tree.leaves((self.values, self.levels))]
        return jnp.broadcast_shapes(*shapes, jnp.shape(self.rows.y)[:-1])

    def _over_batch(self, one: Callable[..., Any], last: Array, last_batch: tuple[int, ...], own: int) -> Any:
        """Applies a function of (values, levels, rows, last) to every point of the batch.

        The last argument has leading batch axes of a shape, and so many axes of its own.
        """
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
