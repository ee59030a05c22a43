"""A regime on the rows of a log as a NumPyro distribution, to compose with other models, and as a model of one log.

    with numpyro.plate("logs", n):
        time = numpyro.sample("relaxation_time", dist.LogNormal(location, spread))
        ...
        numpyro.sample("y", regime.distribution({"relaxation_time": time, ...}, rows), obs=rows.y)

Any prior serves on any parameter. A linear parameter (fixed point, initial reward) may be a pair (mean, sd) instead of
a value: the rows are linear in it, and the filter integrates it out exactly under that normal prior.

    mcmc = MCMC(NUTS(regime.model, dense_mass=True), num_warmup=1000, num_samples=1000)
    mcmc.run(jax.random.key(0), rows_of(run))

The model has the priors of `bayes_grpo.fit` and the same posterior. `fit` is faster, because it integrates the linear
parameters out and keeps its compiled programs; here they are sites of their own, so that they can have any prior.

Use 64-bit numbers (`numpyro.enable_x64()`): a filter over hundreds of rows loses digits in 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import constraints

from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics.kalman import draw_rows
from bayes_grpo.dynamics.likelihood import log_likelihood
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.priors import is_distribution, resolve_priors
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
        regime: The law.
        values: Parameters whose values are known, by name; leading batch axes.
        levels: (mean, sd) of the linear parameters by name; an sd of 0 is a known value. Leading batch axes.
        rows: The rows; leading batch axes are those of ``rows.y`` but its last.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012  (NumPyro's own convention)
    pytree_data_fields = ("values", "levels", "rows")
    pytree_aux_fields = ("regime",)

    def __init__(
        self,
        regime: Regime,
        values: Mapping[str, Any],
        levels: Mapping[str, tuple[Any, Any]],
        rows: Rows,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.regime = regime
        self.values = {k: jnp.asarray(v, float) for k, v in values.items()}
        self.levels = {k: (jnp.asarray(m, float), jnp.asarray(s, float)) for k, (m, s) in levels.items()}
        self.rows = jax.tree.map(jnp.asarray, rows)
        super().__init__(self._batch(), self.rows.y.shape[-1:], validate_args=validate_args)

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
        data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        keys = jax.random.split(jax.random.wrap_key_data(data), math.prod(shape)).reshape(shape)

        def one(values: Any, levels: Any, rows: Rows, key: Array) -> Array:
            space: StateSpace = self.regime.state_space(values, levels, rows)
            length = rows.y.shape[-1:]
            return draw_rows(space, jnp.zeros(length), jax.random.normal(key, length))[0]

        return self._over_batch(one, keys, shape, 0)

    def _batch(self) -> tuple[int, ...]:
        """Batch shape of the leaves as they are now; inside a `vmap` they have fewer axes than when they were made."""
        shapes = [jnp.shape(x) for x in jax.tree.leaves((self.values, self.levels))]
        return jnp.broadcast_shapes(*shapes, jnp.shape(self.rows.y)[:-1])

    def _over_batch(self, one: Callable[..., Array], last: Array, last_batch: tuple[int, ...], own: int) -> Array:
        """Applies a function of (values, levels, rows, last) to every point of the batch.

        The last argument has leading batch axes of a shape, and so many axes of its own.
        """
        shape = jnp.broadcast_shapes(self._batch(), last_batch)
        batched = jnp.ndim(self.rows.y) - 1  # leading axes of every field of the rows
        parts = (
            jax.tree.map(lambda x: (x, 0), (self.values, self.levels)),
            jax.tree.map(lambda x: (x, jnp.ndim(x) - batched), self.rows),
            (last, own),
        )
        leaves, tree = jax.tree.flatten(parts, is_leaf=lambda x: isinstance(x, tuple) and _is_pair(x))
        flat, axes = [], []
        for x, event in leaves:
            lead = jnp.ndim(x) - event
            if lead == 0:  # the same at every point
                flat.append(x)
                axes.append(None)
            else:
                whole = jnp.broadcast_to(x, shape + jnp.shape(x)[lead:])
                flat.append(whole.reshape(-1, *jnp.shape(x)[lead:]))
                axes.append(0)

        def at(*leaves: Array) -> Array:
            (values, levels), rows, argument = jax.tree.unflatten(tree, leaves)
            return one(values, levels, rows, argument)

        if all(a is None for a in axes):
            found = at(*flat)
            return jnp.broadcast_to(found, (*shape, *found.shape))
        found = jax.vmap(at, in_axes=tuple(axes))(*flat)
        return found.reshape(*shape, *found.shape[1:])


def _is_pair(x: tuple[Any, ...]) -> bool:
    return len(x) == 2 and isinstance(x[1], int)


def rows_distribution(regime: Regime, values: Mapping[str, Any], rows: Rows) -> RowsDistribution:
    """The distribution of a regime on rows; see `bayes_grpo.regimes.base.Regime.distribution`.

    Raises:
        SettingError: A parameter is missing or unknown.
    """
    names = [p.name for p in regime.parameters]
    unknown, lacking = [k for k in values if k not in names], [k for k in names if k not in values]
    if unknown or lacking:
        found = f"without {', '.join(lacking)}" if lacking else f"{unknown[0]!r}"
        raise SettingError(f"distribution of {regime.name}: expected values of {', '.join(names)}, found {found}")
    levels = {
        p.name: values[p.name] if isinstance(values[p.name], tuple) else (values[p.name], 0.0) for p in regime.linear
    }
    return RowsDistribution(regime, {p.name: values[p.name] for p in regime.sampled}, levels, rows)


def model(regime: Regime, table: RowTable, priors: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The model.

    Sites: every linear parameter, and every one with a NumPyro distribution of your own as its prior, under its name;
    ``<name>_free`` for every other one, its normal coordinate, and ``<name>`` as a deterministic site, after
    `Regime.physical` has bound it to the rows (no response faster than they are, say); ``y``, the logged values. To
    condition on a parameter by its name, give it a distribution of your own.

    Args:
        regime: The law.
        table: Rows of the log.
        priors: Overrides, parameter → NumPyro distribution over its values, or (median, spread).

    Returns:
        Every parameter by name.

    Raises:
        FitError: The law cannot be put on these rows.
        PriorError: An override is impossible.
    """
    regime.check(table)
    own = {k: v for k, v in (priors or {}).items() if is_distribution(v)}
    known = resolve_priors(regime, table, {k: v for k, v in (priors or {}).items() if k not in own})
    rows = padded(table, len(table.y))
    free = {}
    for p in regime.sampled:
        prior = known[p.name]
        if p.name in own:
            free[p.name] = numpyro.sample(p.name, own[p.name])
        else:
            u = numpyro.sample(f"{p.name}_free", dist.Normal(p.transform.inverse(prior.median), prior.spread))
            free[p.name] = p.transform.forward(u)
    bound = regime.physical(free, rows)
    values = {k: v if k in own else numpyro.deterministic(k, bound[k]) for k, v in free.items()}
    for p in regime.linear:
        prior = known[p.name]
        values[p.name] = numpyro.sample(p.name, own.get(p.name, dist.Normal(prior.median, prior.spread)))
    numpyro.sample("y", rows_distribution(regime, values, rows), obs=rows.y)
    return values
