"""Paths of a state space: from a state before some rows, over these rows, with their noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bayes_grpo.dynamics.state_space import DenseStateSpace


class Path(NamedTuple):
    """One path over the rows.

    Attributes:
        latent: Latent reward of each row, shape (T,).
        trend: What the law expects of it from the same first state, without the noise to come, shape (T,).
        shown: What a logged row would show, shape (T,).
    """

    latent: Array
    trend: Array
    shown: Array


def carried(rows: DenseStateSpace, start: Array, noise_key: Array, error_key: Array) -> Path:
    """Carries a state over rows with their noise.

    Args:
        rows: The rows, leading axis T.
        start: State before the first of them, shape (n,).
        noise_key: Random key of the law's noise.
        error_key: Random key of the measurement noise.

    Returns:
        The path.
    """
    length, n = rows.observation.shape
    noise = jax.random.normal(noise_key, (length, n + 1))
    error = jax.random.normal(error_key, (length,))

    def step(carry: tuple[Array, Array], row: Any) -> tuple[tuple[Array, Array], Path]:
        state, expected = carry
        (F, Q, H, S, R, d, measurement), z, e = row
        joint = jnp.block([[Q, S[:, None]], [S[None, :], R[None, None]]])
        kick = square_root(joint) @ z
        latent = H @ state + d + kick[n]
        out = Path(latent, H @ expected + d, latent + jnp.sqrt(measurement) * e)
        return (F @ state + kick[:n], F @ expected), out

    return lax.scan(step, (start, start), (tuple(rows[2:]), noise, error))[1]


def square_root(cov: Array) -> Array:
    """A square root of a covariance that may be singular (a state that starts at rest has no variance)."""
    n = cov.shape[-1]
    root: list[list[Any]] = [[jnp.zeros(()) for _ in range(n)] for _ in range(n)]
    for j in range(n):
        rest = cov[j, j] - sum((root[j][k] ** 2 for k in range(j)), jnp.zeros(()))
        positive = rest > 1e-14 * jnp.max(jnp.abs(cov))
        diagonal = jnp.sqrt(jnp.where(positive, rest, 1.0))
        root[j][j] = jnp.where(positive, diagonal, 0.0)
        for i in range(j + 1, n):
            left = cov[i, j] - sum((root[i][k] * root[j][k] for k in range(j)), jnp.zeros(()))
            root[i][j] = jnp.where(positive, left / diagonal, 0.0)
    return jnp.stack([jnp.stack(row) for row in root])
