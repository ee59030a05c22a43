"""How blocks of rows are joined: a sequential run over what each of them says, and the constant integrated out."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.block_elements import Elements, InitialState, full, product, symmetric, upper
from bayes_grpo.dynamics.state_space import Matrix, Vector, dot, matvec


class Predictions(NamedTuple):
    """The filter's prediction of the state x before every block, given the constant c; arrays of shape (B,).

    Attributes:
        mean: m, predicted state where the constant is at its prior mean, d.
        mean_c: Its derivative in the constant, d.
        cov: P, its covariance, d × d.
        update: (I + P J)⁻¹, by which the block's rows narrow it, d × d.
        score: η − J (m − reference), the gradient of the block's log density at m, d.
        score_c: Its derivative in the constant, d.
    """

    mean: Vector
    mean_c: Vector
    cov: Matrix
    update: Matrix
    score: Vector
    score_c: Vector


class ConstantLikelihood(NamedTuple):
    """Log density of all rows as a quadratic in the constant c from its prior mean: log_density + score c − ½ J c².

    Attributes:
        log_density: Where the constant is at its prior mean.
        score: Its derivative there.
        J: Minus its second derivative, the information about the constant.
    """

    log_density: Array
    score: Array
    J: Array


def filter_blocks(elements: Elements, start: InitialState) -> tuple[ConstantLikelihood, Predictions]:
    """Runs over the blocks: each updates the state before it by its quadratic and moves it on.

    Args:
        elements: What the blocks say.
        start: The state before the first row.

    Returns:
        The log density as a quadratic in the constant, and the filter at the beginning of every block.
    """

    def step(carry: Any, block: Elements) -> tuple[Any, Predictions]:
        mean, mean_c, cov, value, score_of_c, information = carry
        d = len(mean)
        update, determinant = _update(cov, block.J)
        away = tuple(m - r for m, r in zip(mean, block.reference, strict=True))
        weighed, weighed_c = matvec(block.J, away), matvec(block.J, mean_c)
        score = tuple(e - w for e, w in zip(block.eta, weighed, strict=True))
        score_c = tuple(-j - w for j, w in zip(block.J_xc, weighed_c, strict=True))
        narrowed = product(update, cov)
        moved, moved_c = matvec(narrowed, score), matvec(narrowed, score_c)
        value = value + block.log_density + dot(block.eta, away) - 0.5 * dot(away, weighed)
        value = value + 0.5 * dot(score, moved) - 0.5 * jnp.log(determinant)
        score_of_c = score_of_c + block.eta_c - dot(block.J_xc, away)
        score_of_c = score_of_c + dot(score, mean_c) + dot(score_c, moved)
        information = information + block.J_cc + 2.0 * dot(block.J_xc, mean_c)
        information = information + dot(mean_c, weighed_c) - dot(score_c, moved_c)
        after = matvec(block.A, tuple(x + y for x, y in zip(away, moved, strict=True)))
        after_c = matvec(block.A, tuple(x + y for x, y in zip(mean_c, moved_c, strict=True)))
        spread = product(block.A, narrowed)
        carry = (
            tuple(x + y for x, y in zip(after, block.b, strict=True)),
            tuple(x + y for x, y in zip(after_c, block.A_c, strict=True)),
            symmetric({(i, k): dot(spread[i], block.A[k]) + block.C[i][k] for i, k in upper(d)}, d),
            value,
            score_of_c,
            information,
        )
        return full(carry, value), Predictions(mean, mean_c, cov, update, score, score_c)

    zero = jnp.zeros(())
    carry = (*full((start.mean, start.slope, start.cov), zero), zero, zero, zero)
    (*_, value, score, information), predictions = lax.scan(step, carry, elements)
    return ConstantLikelihood(value, score, information), predictions


def integrate_constant(found: ConstantLikelihood, level_var: Array) -> Array:
    """Log density of all rows with the constant integrated out under its normal prior, a scalar."""
    share = 1.0 / (1.0 + found.J * level_var)
    return found.log_density + 0.5 * found.score**2 * level_var * share + 0.5 * jnp.log(share)


def _update(cov: Matrix, information: Matrix) -> tuple[Matrix, Array]:
    """(I + P J)⁻¹ and the determinant of what is inverted, one or two components."""
    m = product(cov, information)
    if len(cov) == 1:
        determinant = 1.0 + jnp.asarray(m[0][0])
        return ((1.0 / determinant,),), determinant
    a, b, c, d = 1.0 + jnp.asarray(m[0][0]), m[0][1], m[1][0], 1.0 + jnp.asarray(m[1][1])
    determinant = a * d - b * c
    inverse = 1.0 / determinant
    return ((d * inverse, -b * inverse), (-c * inverse, a * inverse)), determinant
