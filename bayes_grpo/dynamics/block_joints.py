"""How blocks of rows are joined: a sequential run over what each of them says, and the constant integrated out."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.block_elements import Elements, Start, full, product, symmetric, upper
from bayes_grpo.dynamics.state_space import Matrix, Vector, dot, matvec


class Joints(NamedTuple):
    """The filter at the beginning of every block, arrays of shape (B,).

    Attributes:
        mean: Predicted state where the constant is at its prior mean, d.
        slope: How it changes with the constant, d.
        cov: Its covariance, d × d.
        shrink: (1 + covariance × bend)⁻¹, d × d.
        pull: Derivative of the block's log density at the predicted state, d.
        pull_slope: How that changes with the constant, d.
    """

    mean: Vector
    slope: Vector
    cov: Matrix
    shrink: Matrix
    pull: Vector
    pull_slope: Vector


class Joined(NamedTuple):
    """Log density of all rows where the constant is at its prior mean, its derivative and minus its second one."""

    value: Array
    slope: Array
    bend: Array


def joined(elements: Elements, start: Start) -> tuple[Joined, Joints]:
    """Runs over the blocks: each updates the state before it by its quadratic and moves it on.

    Args:
        elements: What the blocks say.
        start: The state before the first row.

    Returns:
        The log density as a quadratic in the constant, and the filter at the beginning of every block.
    """

    def step(carry: Any, block: Elements) -> tuple[Any, Joints]:
        mean, slope, cov, value, constant_slope, constant_bend = carry
        d = len(mean)
        shrink, determinant = _shrink(cov, block.bend)
        away = tuple(m - r for m, r in zip(mean, block.reference, strict=True))
        bent, bent_slope = matvec(block.bend, away), matvec(block.bend, slope)
        pull = tuple(s - b for s, b in zip(block.slope, bent, strict=True))
        pull_slope = tuple(-m - b for m, b in zip(block.mixed_bend, bent_slope, strict=True))
        narrowed = product(shrink, cov)
        moved, moved_slope = matvec(narrowed, pull), matvec(narrowed, pull_slope)
        value = value + block.value + dot(block.slope, away) - 0.5 * dot(away, bent)
        value = value + 0.5 * dot(pull, moved) - 0.5 * jnp.log(determinant)
        constant_slope = constant_slope + block.constant_slope - dot(block.mixed_bend, away)
        constant_slope = constant_slope + dot(pull, slope) + dot(pull_slope, moved)
        constant_bend = constant_bend + block.constant_bend + 2.0 * dot(block.mixed_bend, slope)
        constant_bend = constant_bend + dot(slope, bent_slope) - dot(pull_slope, moved_slope)
        after = matvec(block.way, tuple(x + y for x, y in zip(away, moved, strict=True)))
        after_slope = matvec(block.way, tuple(x + y for x, y in zip(slope, moved_slope, strict=True)))
        spread = product(block.way, narrowed)
        carry = (
            tuple(x + y for x, y in zip(after, block.mean, strict=True)),
            tuple(x + y for x, y in zip(after_slope, block.from_constant, strict=True)),
            symmetric({(i, k): dot(spread[i], block.way[k]) + block.cov[i][k] for i, k in upper(d)}, d),
            value,
            constant_slope,
            constant_bend,
        )
        return full(carry, value), Joints(mean, slope, cov, shrink, pull, pull_slope)

    zero = jnp.zeros(())
    carry = (*full((start.mean, start.slope, start.cov), zero), zero, zero, zero)
    (*_, value, slope, bend), joints = lax.scan(step, carry, elements)
    return Joined(value, slope, bend), joints


def integrated(found: Joined, level_var: Array) -> Array:
    """Log density of all rows with the constant integrated out under its normal prior, a scalar."""
    share = 1.0 / (1.0 + found.bend * level_var)
    return found.value + 0.5 * found.slope**2 * level_var * share + 0.5 * jnp.log(share)


def _shrink(cov: Matrix, bend: Matrix) -> tuple[Matrix, Array]:
    """(1 + covariance × bend)⁻¹ and the determinant of what is inverted, one or two components."""
    m = product(cov, bend)
    if len(cov) == 1:
        determinant = 1.0 + jnp.asarray(m[0][0])
        return ((1.0 / determinant,),), determinant
    a, b, c, d = 1.0 + jnp.asarray(m[0][0]), m[0][1], m[1][0], 1.0 + jnp.asarray(m[1][1])
    determinant = a * d - b * c
    inverse = 1.0 / determinant
    return ((d * inverse, -b * inverse), (-c * inverse, a * inverse)), determinant
