"""What one draw of all parameters says of whole runs: a run drawn from it, and the likelihood of the logged one.

Here the levels are known, as every other parameter is; only the path of the latent reward is integrated out. So rows
drawn at a draw of the posterior (or prior) are its predictive, and the likelihood is the one that belongs to a prior of
all parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.programs import over_draws
from bayes_grpo.dynamics.kalman import draw_rows
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows, padded
from bayes_grpo.rows.table import RowTable

CHUNK = 500
"""Draws a call of the compiled program."""


class Replicates(NamedTuple):
    """Runs drawn from the law, and the two parts of the logged run's log likelihood.

    Attributes:
        rows: Rows of a new run with the same steps at every draw, shape (..., n).
        normalisation: −½ log |2πC| of the logged rows' covariance C at every draw, shape (...).
        misfit: −½ rᵀC⁻¹r of their distances r from the law's mean, shape (...). The sum of the two is
            log p(rows | all parameters).
    """

    rows: np.ndarray
    normalisation: np.ndarray
    misfit: np.ndarray


def replicate(
    regime: Regime, table: RowTable, values: Mapping[str, np.ndarray], rng: np.random.Generator
) -> Replicates:
    """Draws a run at every draw of the parameters.

    Args:
        regime: The law.
        table: Rows that were logged.
        values: Every parameter of the law, the levels included, in its unit; arrays of one shape (...).
        rng: Randomness of the rows.

    Returns:
        The runs and the likelihood of the logged one.
    """
    names = [p.name for p in regime.parameters]
    draws = np.stack([np.asarray(values[name], float) for name in names], axis=-1)
    shape, n = draws.shape[:-1], len(table.y)
    with jax.enable_x64(True):
        rows = padded(table)
        noise = np.zeros((int(np.prod(shape)), len(rows.y)))
        noise[:, :n] = rng.standard_normal((len(noise), n))
        each = (draws.reshape(-1, len(names)), noise)
        shown, normalisation, misfit = over_draws(_replicate_program, (regime,), CHUNK, each, rows)
    return Replicates(shown[:, :n].reshape(*shape, n), normalisation.reshape(shape), misfit.reshape(shape))


def _replicate_program(regime: Regime) -> Any:
    names, levels = [p.name for p in regime.sampled], [p.name for p in regime.linear]
    places = {p.name: i for i, p in enumerate(regime.parameters)}

    def one(draw: Array, noise: Array, rows: Rows) -> tuple[Array, Array, Array]:
        values = {name: draw[places[name]] for name in names}
        known = {name: (draw[places[name]], 0.0) for name in levels}
        return draw_rows(regime.state_space(values, known, rows), jnp.asarray(rows.y), noise)

    def run(draws: tuple[Array, Array], rows: Rows) -> tuple[Array, Array, Array]:
        return jax.vmap(one, in_axes=(0, 0, None))(*draws, rows)

    return run


def measured_again(
    mean: np.ndarray, var: np.ndarray, noise: np.ndarray, weight: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The logged run itself, measured again: its latent reward and rows about it.

    Args:
        mean: Mean of the latent reward given all rows at every draw, shape (draws, n).
        var: Its variance, shape (draws, n).
        noise: Observation noise of a row of weight 1, shape (draws,).
        weight: Weights of the rows, shape (n,).
        rng: Randomness.

    Returns:
        Latent reward and rows, shape (draws, n) each.
    """
    latent = mean + np.sqrt(np.maximum(var, 0.0)) * rng.standard_normal(mean.shape)
    return latent, latent + noise[:, None] / np.sqrt(weight) * rng.standard_normal(mean.shape)
