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
from bayes_grpo.fitting.sampling.target import Target, state_space_at
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows

_CHUNK = 500
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


def replicate(target: Target, values: Mapping[str, np.ndarray], rng: np.random.Generator) -> Replicates:
    """Draws a run at every draw of the parameters.

    Args:
        target: Regime and rows; the priors play no part.
        values: Every parameter of the law, the levels included, in its unit; arrays of one shape (...).
        rng: Randomness of the rows.

    Returns:
        The runs and the likelihood of the logged one.
    """
    regime, rows, n = target.regime, target.rows.arrays, len(target.rows.table.y)
    sampled, levels = (
        np.stack([np.asarray(values[p.name], float) for p in part], axis=-1) for part in (regime.sampled, regime.linear)
    )
    shape = sampled.shape[:-1]
    noise = np.zeros((int(np.prod(shape)), len(rows.y)))
    noise[:, :n] = rng.standard_normal((len(noise), n))
    each = (sampled.reshape(len(noise), -1), levels.reshape(len(noise), -1), noise)
    with jax.enable_x64(True):
        shown, normalisation, misfit = over_draws(_replicate_program, (regime,), _CHUNK, each, rows)
    return Replicates(shown[:, :n].reshape(*shape, n), normalisation.reshape(shape), misfit.reshape(shape))


def _replicate_program(regime: Regime) -> Any:
    def one(values: Array, levels: Array, noise: Array, rows: Rows) -> tuple[Array, Array, Array]:
        space = state_space_at(regime, values, levels, jnp.zeros_like(levels), rows)
        return draw_rows(space, jnp.asarray(rows.y), noise)

    def run(draws: tuple[Array, Array, Array], rows: Rows) -> tuple[Array, Array, Array]:
        return jax.vmap(one, in_axes=(0, 0, 0, None))(*draws, rows)

    return run
