"""What many draws at once imply on the rows: programs without a gradient, compiled in a second.

All draws advance together through the plain filter: a row costs a draw a few nanoseconds.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.programs import over_draws
from bayes_grpo.dynamics import kalman
from bayes_grpo.fitting.sampling.posterior import FARTHEST, PriorNumbers, state_space
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows

CHUNK = 512
"""Draws a call of a program; threads share the chunks."""


def log_likelihoods(regime: Regime, z: np.ndarray, prior: PriorNumbers, rows: Rows) -> np.ndarray:
    """Log density of the logged rows with the linear parameters integrated out.

    Args:
        regime: The law.
        z: Draws in the sampler's coordinates, shape (..., p).
        prior: Priors as numbers.
        rows: Padded rows.

    Returns:
        Shape (...).
    """
    flat = np.reshape(z, (-1, z.shape[-1]))
    with jax.enable_x64(True):
        return over_draws(_likelihood_program, (regime,), CHUNK, flat, prior, rows).reshape(z.shape[:-1])


def row_densities(regime: Regime, z: np.ndarray, prior: PriorNumbers, rows: Rows, y: np.ndarray) -> np.ndarray:
    """Log density of every row given the rows before it that ``rows`` has.

    Where ``rows`` has no value from some row on, these are the densities of rows some way ahead, each by itself, the
    rows in between unseen.

    Args:
        regime: The law.
        z: Draws in the sampler's coordinates, shape (n, p).
        prior: Priors as numbers.
        rows: Padded rows: what is known.
        y: Values whose densities are wanted, shape (T,); NaN = none.

    Returns:
        Shape (n, T); 0 where ``y`` has no value.
    """
    with jax.enable_x64(True):
        return over_draws(_densities_program, (regime,), CHUNK, z, prior, rows, np.asarray(y, float))


def level_draws(
    regime: Regime, z: np.ndarray, prior: PriorNumbers, rows: Rows, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """The linear parameters drawn given the rows and each draw of the others.

    With prior mean m and covariance S of the linear parameters, the log likelihood is a quadratic in m of slope g and
    second derivative -A, and given the rows they are normal with mean m + S g and covariance S - S A S (Tweedie's
    formula). Differences of a quadratic are exact, so that the likelihood's own program is all that is needed.

    Args:
        regime: The law.
        z: Draws in the sampler's coordinates, shape (n, p).
        prior: Priors as numbers.
        rows: Padded rows.
        rng: Source of randomness.

    Returns:
        Linear parameter → shape (n,).
    """
    centre, sd = np.asarray(prior.linear_mean, float), np.asarray(prior.linear_sd, float)
    size = len(centre)

    def at(*moved: tuple[int, float]) -> np.ndarray:
        mean = centre.copy()
        for i, step in moved:
            mean[i] += step * sd[i]
        return log_likelihoods(regime, z, prior._replace(linear_mean=mean), rows)

    here = at()
    up, down = (np.stack([at((i, step)) for i in range(size)], axis=-1) for step in (1.0, -1.0))
    slope = 0.5 * (up - down)  # per prior standard deviation
    curved = np.zeros((len(z), size, size))
    for i in range(size):
        curved[:, i, i] = up[:, i] + down[:, i] - 2.0 * here
        for j in range(i):
            both = at((i, 1.0), (j, 1.0))
            curved[:, i, j] = curved[:, j, i] = both - up[:, i] - up[:, j] + here
    # Rounding of large log likelihoods may leave a variance a little below 0.
    values, vectors = np.linalg.eigh(np.eye(size) + curved)
    noise = vectors @ (np.sqrt(np.maximum(values, 0.0))[..., None] * rng.standard_normal((len(z), size, 1)))
    drawn = centre + sd * (slope + noise[..., 0])
    return {p.name: drawn[:, i] for i, p in enumerate(regime.linear)}


def _likelihood_program(regime: Regime) -> Any:
    def one(z: Array, prior: PriorNumbers, rows: Rows) -> Array:
        space = state_space(regime, jnp.clip(z, -FARTHEST, FARTHEST), prior, rows)
        return kalman.log_likelihood_of_logged(space, jnp.asarray(rows.y))

    return jax.vmap(one, in_axes=(0, None, None))


def _densities_program(regime: Regime) -> Any:
    def one(z: Array, prior: PriorNumbers, rows: Rows, y: Array) -> Array:
        return kalman.row_densities(state_space(regime, z, prior, rows), jnp.asarray(rows.y), y)

    return jax.vmap(one, in_axes=(0, None, None, None))
