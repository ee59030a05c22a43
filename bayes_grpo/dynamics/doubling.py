"""Exact integrals over a time step by Taylor series and step doubling.

A linear equation is advanced over a step ``t`` by series at ``t / 2**j``, where they converge to rounding error, and
``j`` exact doublings. Nothing but sums and products is used, so the result is an entire function of its
coefficients: no case is singular, neither critical damping, nor zero stiffness, nor zero or negative damping,
and every derivative is right everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

SERIES_RADIUS = 0.06
"""Largest |rate| × step at which the base series (nine terms) is exact to rounding in float64."""
MAX_DOUBLINGS = 40
"""Beyond 2**40 × SERIES_RADIUS decay times a step holds nothing of the fast mode at any precision."""


def doublings(largest_rate_times_step: Array) -> Array:
    """Number of doublings that brings ``rate * step`` under the series' radius, an int32 scalar."""
    ratio = jnp.maximum(largest_rate_times_step / SERIES_RADIUS, 1.0)
    return jnp.ceil(jnp.log2(jnp.minimum(ratio, 2.0**MAX_DOUBLINGS))).astype(jnp.int32)


def double(count: Array, moments: Any, step: Callable[[Any], Any]) -> Any:
    """Applies ``step``, which maps moments over ``h`` to moments over ``2h``, ``count`` times."""
    return lax.fori_loop(0, count, lambda _, m: step(m), moments)


def differentiable(moments: Callable[..., tuple[Array, ...]]) -> Callable[..., tuple[Array, ...]]:
    """Makes ``moments(*coefficients, t)`` differentiable in reverse mode; ``t`` counts as data.

    The number of doublings depends on the coefficients, and JAX cannot reverse such a loop. Each output is
    elementwise in the coefficients, so its derivatives are found forwards (one tangent a coefficient) and reverse
    mode needs only to multiply by them. Higher derivatives work through forward-over-reverse (``jax.hessian``).

    Args:
        moments: Elementwise function of the coefficients and the step, all of one shape.

    Returns:
        The same function with a custom derivative rule.
    """

    @jax.custom_jvp
    def wrapped(*args: Array) -> tuple[Array, ...]:
        return moments(*args)

    @wrapped.defjvp
    def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Any, Any]:
        *coefficients, t = primals
        at_step = partial(_with_step, moments, t)
        units: list[Any] = [np.eye(len(coefficients))[:, i] for i in range(len(coefficients))]

        def along(*unit: Array) -> tuple[Any, Any]:
            directions = tuple(jnp.full_like(c, u) for c, u in zip(coefficients, unit, strict=True))
            return jax.jvp(at_step, tuple(coefficients), directions)

        # All directions at once: the values are then computed once for all of them.
        out, slopes = jax.vmap(along, out_axes=(None, 0))(*units)
        return out, tuple(sum(s[i] * tangent for i, tangent in enumerate(tangents[:-1])) for s in slopes)

    return wrapped


def _with_step(moments: Callable[..., tuple[Array, ...]], t: Array, *coefficients: Array) -> tuple[Array, ...]:
    return moments(*coefficients, t)


def square_series(terms: list[Array]) -> list[Array]:
    """Coefficients of the square of a power series, truncated to the same number of terms."""
    n = len(terms)
    return [sum((terms[i] * terms[k - i] for i in range(k + 1)), jnp.zeros_like(terms[0])) for k in range(n)]
