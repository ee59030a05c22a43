"""Integrals over a step at many rows from a few nodes, where the rows differ by one coefficient alone.

With windows of one length a falling learning rate leaves one coefficient to vary, the stiffness. Over a step short
against its time scale the integrals are polynomials in it to rounding, so eight Chebyshev nodes say all of them. Longer
steps are divided first and doubled for every row afterwards, exactly, as in `bayes_grpo.dynamics.doubling`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

NODES = 8
_POINTS = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
_POWERS = np.linalg.inv(np.vander(_POINTS, increasing=True))
"""Values at the nodes → coefficients of powers; eight of them lose two digits of what is below rounding anyway."""
_ALONG = np.eye(2)

Moments = tuple[Array, ...]


def interpolated(
    moments: Callable[[Array, Array, Array], Moments],
    doubled: Callable[[Array, Array, Moments], Moments],
    speed: Callable[[Array], Array],
    radius: float,
) -> Callable[[Array, Array, Array], Moments]:
    """Makes ``moments(same, varying, t)`` a function of scalars ``same`` and ``t`` and of rows ``varying``.

    Args:
        moments: Elementwise function of two coefficients and the step.
        doubled: What it is over twice the step, from the coefficients and what it is over the step; elementwise.
        speed: Rate in 1/step that belongs to a value of ``varying``.
        radius: Largest speed × step at which the polynomials are exact to rounding.

    Returns:
        The function, with values of shape (T,). Differentiable in both coefficients, in any mode; ``t`` counts as data.
    """

    def divided(varying: Array, t: Array) -> tuple[Array, Array, Array, Array]:
        """Nodes, the rows between them in [-1, 1], the divided step, and how often it is doubled."""
        low, high = jnp.min(varying), jnp.max(varying)
        middle, half = 0.5 * (low + high), jnp.maximum(0.5 * (high - low), jnp.finfo(float).tiny)
        fastest = speed(jnp.maximum(jnp.abs(low), jnp.abs(high)))
        count = jnp.ceil(jnp.log2(jnp.maximum(fastest * t / radius, 1.0))).astype(jnp.int32)
        return middle + half * _POINTS, (varying - middle) / half, t * 2.0 ** (-count), count

    @jax.custom_jvp
    def over_rows(same: Array, varying: Array, t: Array) -> Moments:
        nodes, place, step, count = divided(varying, t)
        at_nodes = jnp.stack(moments(jnp.full(NODES, same), nodes, jnp.full(NODES, step)))
        rows = tuple(_polynomials(at_nodes, place))
        return lax.fori_loop(0, count, lambda _, m: tuple(doubled(same, varying, m)), rows)

    @over_rows.defjvp
    def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Moments, Moments]:
        same, varying, t = primals
        nodes, place, step, count = divided(varying, t)

        def at(same: Array, varying: Array) -> Array:
            return jnp.stack(moments(same, varying, jnp.full(NODES, step)))

        def slopes(function: Callable[..., Any], at: tuple[Any, ...], *along: Any) -> tuple[Any, Any]:
            """Value, and derivatives along both coefficients."""
            return jax.vmap(lambda *d: jax.jvp(function, at, d), out_axes=(None, 0))(*along)

        one = jnp.ones(NODES)
        value, slope = slopes(at, (jnp.full(NODES, same), nodes), *(u[:, None] * one for u in _ALONG))
        found = _polynomials(jnp.concatenate([value, *slope]), place)
        n = len(value)
        rows = tuple(tuple(found[i : i + n]) for i in range(0, 3 * n, n))

        def twice(_: int, rows: Any) -> Any:
            carried = jax.tree.map(lambda *x: jnp.stack(x), *rows[1:])
            along = (_ALONG[0], _ALONG[1][:, None] * jnp.ones_like(varying), carried)
            value, slope = slopes(lambda *x: tuple(doubled(*x)), (same, varying, rows[0]), *along)
            return value, *(tuple(s[i] for s in slope) for i in range(2))

        value, by_same, by_varying = lax.fori_loop(0, count, twice, rows)
        return value, tuple(a * tangents[0] + b * tangents[1] for a, b in zip(by_same, by_varying, strict=True))

    return over_rows


def _polynomials(at_nodes: Array, place: Array) -> list[Array]:
    """Polynomials through values at the nodes, shape (m, NODES), at places of shape (T,): m arrays (T,)."""
    out = []
    for powers in at_nodes @ _POWERS.T:
        total = powers[-1]
        for i in range(NODES - 2, -1, -1):
            total = total * place + powers[i]
        out.append(total)
    return out
