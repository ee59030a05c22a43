"""What many draws at once imply on the rows: likelihoods without a gradient, compiled in a second, and smoothed rows.

For likelihoods all draws advance together through the plain filter: a row costs a draw a few nanoseconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.programs import over_draws
from bayes_grpo.dynamics.kalman import log_likelihood_without_gradient, mean_path, smooth
from bayes_grpo.dynamics.state_space import dot, square_root
from bayes_grpo.fitting.sampling.target import FARTHEST, PriorNumbers, Target, state_space
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows

_CHUNK = 512
"""Draws a call of a program; threads share the chunks."""
SMOOTHED = 500
"""Draws a call of the program that smooths the rows."""


def log_likelihoods(target: Target, z: np.ndarray) -> np.ndarray:
    """Log density of the logged rows at coordinates of shape (..., p), the linear parameters integrated out."""
    flat = np.reshape(z, (-1, z.shape[-1]))
    with jax.enable_x64(True):
        found = over_draws(_likelihood_program, (target.regime,), _CHUNK, flat, *target.arguments)
    return found.reshape(z.shape[:-1])


def level_draws(target: Target, z: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Linear parameter → draws given the rows and each draw of the others, shape (n,), for coordinates of (n, p).

    With prior mean m and covariance S of the linear parameters, the log likelihood is a quadratic in m of slope g and
    second derivative -A, and given the rows they are normal with mean m + S g and covariance S - S A S (Tweedie's
    formula). Differences of a quadratic are exact, so that the likelihood's own program is all that is needed.
    """
    prior = target.numbers
    centre, sd = np.asarray(prior.linear_mean, float), np.asarray(prior.linear_sd, float)
    size = len(centre)

    def at(*moved: tuple[int, float]) -> np.ndarray:
        mean = centre.copy()
        for i, step in moved:
            mean[i] += step * sd[i]
        return log_likelihoods(replace(target, numbers=prior._replace(linear_mean=mean)), z)

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
    return {p.name: drawn[:, i] for i, p in enumerate(target.regime.linear)}


def summarize_draws(target: Target, z: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """What coordinates of shape (chains, draws, p) imply on the rows.

    Returns:
        Linear parameters drawn given the rows, in the order of the regime's; and the fields of
        `bayes_grpo.fitting.draws.SmoothedDraws` after the first. All with leading axes (chains, draws).
    """
    chains, draws, p = z.shape
    each = (random_keys(seed, chains * draws), z.reshape(-1, p))
    with jax.enable_x64(True):
        out = over_draws(summary_program, (target.regime,), SMOOTHED, each, *target.arguments)
    return tuple(x.reshape(chains, draws, *x.shape[1:]) for x in out)


def random_keys(seed: int, size: int) -> np.ndarray:
    """Random keys as numbers, shape (size, 2); JAX would compile a program for each way to split one."""
    return np.random.default_rng(seed).integers(0, 2**32, (size, 2), dtype=np.uint32)


def _likelihood_program(regime: Regime) -> Any:
    def one(z: Array, prior: PriorNumbers, rows: Rows) -> Array:
        space = state_space(regime, jnp.clip(z, -FARTHEST, FARTHEST), prior, rows)
        return log_likelihood_without_gradient(space, jnp.asarray(rows.y))

    return jax.vmap(one, in_axes=(0, None, None))


def summary_program(regime: Regime) -> Any:
    """Program that smooths the rows for draws, each with a key."""

    def one(draw: tuple[Array, Array], prior: PriorNumbers, rows: Rows) -> tuple[Array, ...]:
        space = state_space(regime, draw[1], prior, rows)
        smoothed = smooth(space, jnp.asarray(rows.y))
        n = space.size
        root = square_root(tuple(tuple(smoothed.initial_cov[i, j] for j in range(n)) for i in range(n)))
        noise = jax.random.normal(jax.random.wrap_key_data(draw[0]), (n,))
        state = smoothed.initial_mean + jnp.stack([dot(row, tuple(noise)) for row in root])
        levels = regime.linear_values(state)
        return (
            jnp.asarray([levels[p.name] for p in regime.linear]),
            mean_path(space, state, rows.y.shape[0]),
            smoothed.latent_mean,
            smoothed.latent_var,
            smoothed.loo_log_density,
            smoothed.loo_mean,
            smoothed.loo_var,
        )

    def run(draws: tuple[Array, Array], prior: PriorNumbers, rows: Rows) -> tuple[Array, ...]:
        return jax.lax.map(lambda draw: one(draw, prior, rows), draws, batch_size=50)

    return run
