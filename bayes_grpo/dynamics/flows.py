"""Exact flows of a Bernoulli policy's success rate under GRPO, without momentum and with many completions a group.

The logit z of a success rate p follows the mean of the group-relative policy gradient. With advantages divided by the
group's standard deviation (arXiv 2402.03300) dz/dt = r sqrt(p (1 - p)); with advantages only centered (Dr. GRPO,
arXiv 2503.20783) dz/dt = r p (1 - p), where r holds learning rate and group size. Each has a coordinate that moves at
constant speed, which solves it in closed form:

    normalized    y = (2p - 1)/sqrt(p (1 - p)) = 2 sinh(z/2)    dy/dt = r/2    1 - p ~ 4/(r t)²
    centered       c = z + sinh z                                dc/dt = r/2    1 - p ~ 1/(r t)

Neither tail is exponential: the drift dies where groups have no spread left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Flow(NamedTuple):
    """A flow of the success rate p with rate 1, through the coordinate that moves at constant speed 1/2.

    Attributes:
        coordinate: Logit of p → coordinate.
        position: Coordinate → position, whatever failure and slope are cheap functions of.
        failure: Position → 1 - p, without cancellation as p → 1.
        slope: Position → derivative of dp/dt with respect to p; divides fluctuations about the path where negative.
    """

    coordinate: Callable[[Array], Array]
    position: Callable[[Array], Array]
    failure: Callable[[Array], Array]
    slope: Callable[[Array], Array]


def half_logit(logit: Array) -> Array:
    """Logit at which half of the failures that were left at ``logit`` are left."""
    return jnp.log1p(2.0 * jnp.exp(logit))


def _normalised_failure(y: Array) -> Array:
    root = jnp.sqrt(y * y + 4.0)
    above = 2.0 / (root * (root + jnp.maximum(y, 0.0)))
    below = 0.5 * (root - jnp.minimum(y, 0.0)) / root
    return jnp.where(y > 0, above, below)


NORMALISED = Flow(
    coordinate=lambda z: 2.0 * jnp.sinh(0.5 * z),
    position=lambda y: y,
    failure=_normalised_failure,
    slope=lambda y: -1.5 * y / (y * y + 4.0),
)
"""Advantages divided by the group's standard deviation: dp/dt = (p (1 - p))^(3/2)."""


@jax.custom_jvp
def centred_logit(c: Array) -> Array:
    """Solution z of z + sinh z = c, by Halley's method, to 1e-15; any derivative is right."""
    size = jnp.abs(c)
    near = jnp.log(0.5 * size + jnp.sqrt(0.25 * size * size + 1.0))  # z at 0, z - log 2 where far away
    z = near + math.log(2.0) * (1.0 - 1.0 / (1.0 + near**3 / 8.3))  # nowhere 0.05 off, which two steps make 1e-16
    for _ in range(2):
        grown = jnp.expm1(z)  # digits near 0
        fallen = grown / (1.0 + grown)
        sinh = 0.5 * (grown + fallen)
        first = 2.0 + 0.5 * grown * fallen
        error = z + sinh - size
        z = z - error * first / (first * first - 0.5 * error * sinh)
    return jax.lax.optimization_barrier(jnp.sign(c) * z)


@centred_logit.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    z = centred_logit(*primals)
    return z, tangents[0] / (1.0 + jnp.cosh(z))


CENTRED = Flow(
    coordinate=lambda z: z + jnp.sinh(z),
    position=centred_logit,
    failure=lambda z: jax.nn.sigmoid(-z),
    slope=lambda z: -jnp.tanh(0.5 * z) / (1.0 + jnp.cosh(z)),  # 2 p (1 - p) (1 - 2p)
)
"""Advantages only centered: dp/dt = (p (1 - p))²."""
