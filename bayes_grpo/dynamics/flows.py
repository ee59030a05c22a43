"""Exact flows of a Bernoulli policy's success rate under GRPO, without momentum and with many completions a group.

The logit z of a success rate p follows the mean of the group-relative policy gradient. With advantages divided by the
group's standard deviation (arXiv 2402.03300) dz/dt = r sqrt(p (1 - p)); with advantages only centred (Dr. GRPO,
arXiv 2503.20783) dz/dt = r p (1 - p), where r holds learning rate and group size. Each has a coordinate that moves at
constant speed, which solves it in closed form:

    normalised    y = (2p - 1)/sqrt(p (1 - p)) = 2 sinh(z/2)    dy/dt = r/2    1 - p ~ 4/(r t)²
    centred       c = z + sinh z                                dc/dt = r/2    1 - p ~ 1/(r t)

Neither tail is exponential: the drift dies where groups have no spread left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Flow(NamedTuple):
    """A flow of the success rate p with rate 1, through the coordinate that moves at constant speed 1/2.

    Attributes:
        coordinate: Logit of p → coordinate.
        failure: Coordinate → 1 - p, without cancellation as p → 1.
        slope: Coordinate → derivative of dp/dt with respect to p; divides fluctuations about the path where negative.
    """

    coordinate: Callable[[Array], Array]
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
    failure=_normalised_failure,
    slope=lambda y: -1.5 * y / (y * y + 4.0),
)
"""Advantages divided by the group's standard deviation: dp/dt = (p (1 - p))^(3/2)."""


@jax.custom_jvp
def centred_logit(c: Array) -> Array:
    """Solution z of z + sinh z = c, by Halley's method from above; any derivative is right."""
    size = jnp.abs(c)
    z = jnp.arcsinh(size)
    for _ in range(4):
        grown = jnp.expm1(z)  # digits near 0
        sinh = 0.5 * (grown + grown / (1.0 + grown))
        cosh = 1.0 + 0.5 * grown * (grown / (1.0 + grown))
        error, first, second = z + sinh - size, 1.0 + cosh, sinh
        z = z - error * first / (first * first - 0.5 * error * second)
    return jnp.sign(c) * z


@centred_logit.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    z = centred_logit(*primals)
    return z, tangents[0] / (1.0 + jnp.cosh(z))


def _centred_slope(c: Array) -> Array:
    z = centred_logit(c)
    # 2 p (1 - p) (1 - 2p)
    return -jnp.tanh(0.5 * z) / (1.0 + jnp.cosh(z))


CENTRED = Flow(
    coordinate=lambda z: z + jnp.sinh(z),
    failure=lambda c: jax.nn.sigmoid(-centred_logit(c)),
    slope=_centred_slope,
)
"""Advantages only centred: dp/dt = (p (1 - p))²."""
