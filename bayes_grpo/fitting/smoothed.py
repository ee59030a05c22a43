"""What draws say of every row: the curve, the latent reward, each row given all others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayes_grpo.common.draws import spread
from bayes_grpo.fitting.draws import Draws
from bayes_grpo.fitting.sampling.batch import DrawSummary, summarise

TRAJECTORIES = 400
"""Draws of the curves that are kept or drawn, spread evenly over all draws."""


@dataclass(frozen=True, eq=False)
class SmoothedDraws:
    """Draws with what they say of every row, arrays of shape (chains, draws, n).

    Attributes:
        draws: The draws, the linear parameters among them.
        curve: The unforced law.
        latent: Mean of the latent reward given all rows.
        latent_var: Its variance.
        left_out: Log density of every row given all others.
        left_out_mean: Mean of every row given all others.
        left_out_var: Its variance.
    """

    draws: Draws
    curve: np.ndarray
    latent: np.ndarray
    latent_var: np.ndarray
    left_out: np.ndarray
    left_out_mean: np.ndarray
    left_out_var: np.ndarray

    @property
    def curve_mean(self) -> np.ndarray:
        """Posterior mean of the unforced law, shape (n,)."""
        return self.curve.mean((0, 1))

    @property
    def latent_mean(self) -> np.ndarray:
        """Posterior mean of the latent reward, shape (n,)."""
        return self.latent.mean((0, 1))

    @property
    def kept(self) -> np.ndarray:
        """Draws of each chain whose curves are kept, evenly spread; `TRAJECTORIES` of all chains together at most."""
        chains, draws = self.curve.shape[:2]
        return spread(draws, max(1, TRAJECTORIES // chains))

    def curves(self) -> np.ndarray:
        """Evenly spread draws of the unforced law, shape (chains, kept, n)."""
        return self._spread(self.curve)

    def measured_again(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The logged run itself, measured again: evenly spread draws of its latent reward, and rows about it.

        Args:
            rng: Randomness.

        Returns:
            Latent reward and rows, shape (chains, kept, n) each.
        """
        mean, var = self._spread(self.latent), self._spread(self.latent_var)
        noise = self._spread(self.draws.values["observation_sd"][..., None])
        latent = mean + np.sqrt(np.maximum(var, 0.0)) * rng.standard_normal(mean.shape)
        precision = self.draws.rows.table.precision
        return latent, latent + noise / np.sqrt(precision) * rng.standard_normal(mean.shape)

    def _spread(self, x: np.ndarray) -> np.ndarray:
        return x[:, self.kept]


def smoothed_at(draws: Draws, seed: int) -> SmoothedDraws:
    """Smooths the rows at draws, and draws the linear parameters given the rows and each draw of the others.

    Args:
        draws: Draws in the sampler's coordinates.
        seed: Seed.

    Returns:
        The draws with what they say of every row.
    """
    return smoothed_by(draws, summarise(draws.target, draws.z, seed))


def smoothed_by(draws: Draws, found: DrawSummary) -> SmoothedDraws:
    """The same out of a summary that is there already."""
    n, linear = len(draws.rows.table.y), np.asarray(found.linear)
    levels = {p.name: linear[..., i] for i, p in enumerate(draws.regime.linear)}
    logged = (np.asarray(x)[..., :n] for x in found[1:])
    return SmoothedDraws(replace(draws, values=dict(draws.values) | levels), *logged)
