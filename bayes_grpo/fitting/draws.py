"""Draws of a posterior, however it was sampled, which every room downstream takes; and what they say of every row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayes_grpo.common.intervals import spread
from bayes_grpo.fitting.sampling.adaptive import WeightDiagnostics
from bayes_grpo.fitting.sampling.batch import level_draws, summarize_draws
from bayes_grpo.fitting.sampling.convergence import Convergence
from bayes_grpo.fitting.sampling.nuts import Chain
from bayes_grpo.fitting.sampling.target import Target
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.series import Series


@dataclass(frozen=True, eq=False)
class Draws:
    """Equally weighted draws of a posterior; those of importance sampling are one chain.

    Attributes:
        target: Regime, priors and rows.
        values: Parameters in their units, shape (chains, draws) each; the linear ones once they are drawn.
        z: The same in the sampler's coordinates, shape (chains, draws, p); p is 0 for draws of a fit, which keeps their
            values alone.
        diagnostics: Checks of the chains, or of the weights that the draws were taken by.
        chains: What NUTS reports of every draw; None for importance sampling.
        log_evidence: Log marginal likelihood of the rows; NaN for chains, which do not tell it.
        usable: Whether the draws can be used.
        note: Why they should not be used, or what was done to get them; empty where all went well.
    """

    target: Target
    values: Mapping[str, np.ndarray]
    z: np.ndarray
    diagnostics: Convergence | WeightDiagnostics
    chains: Chain | None = None
    log_evidence: float = float("nan")
    usable: bool = True
    note: str = ""

    @property
    def regime(self) -> Regime:
        """The regime."""
        return self.target.regime

    @property
    def rows(self) -> Series:
        """Rows of the log."""
        return self.target.rows

    @property
    def priors(self) -> Mapping[str, Prior]:
        """Priors that were used, by parameter."""
        return self.target.priors

    @property
    def size(self) -> int:
        """Number of draws, of all chains together."""
        return next(iter(self.values.values())).size

    @property
    def points(self) -> np.ndarray:
        """Draws of all chains in the sampler's coordinates, shape (size, p)."""
        return self.z.reshape(-1, self.z.shape[-1])

    def flat(self, name: str) -> np.ndarray:
        """Draws of a parameter, of all chains one after another, shape (size,)."""
        return self.values[name].ravel()

    def sampled(self, picks: np.ndarray | None = None) -> np.ndarray:
        """Sampled parameters as a compiled program takes them, shape (picks, p); of all draws without picks."""
        whole = np.stack([self.flat(p.name) for p in self.regime.sampled], axis=-1)
        return whole if picks is None else whole[picks]

    def with_levels(self, seed: int) -> Draws:
        """The same with the linear parameters drawn given the rows and each draw of the others."""
        drawn = level_draws(self.target, self.points, np.random.default_rng(seed))
        return replace(self, values=dict(self.values) | {k: v.reshape(self.z.shape[:-1]) for k, v in drawn.items()})


TRAJECTORIES = 400
"""Draws of the curves that are kept or drawn, spread evenly over all draws."""


@dataclass(frozen=True, eq=False)
class SmoothedDraws:
    """Draws with what they say of every row, arrays of shape (chains, draws, n).

    Attributes:
        draws: The draws, the linear parameters among them.
        curve: The unforced regime.
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
        """Posterior mean of the unforced regime, shape (n,)."""
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
        """Evenly spread draws of the unforced regime, shape (chains, kept, n)."""
        return self.curve[:, self.kept]

    def measured_again(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The logged run itself, measured again, shape (chains, kept, n) each.

        Evenly spread draws of its latent reward, and rows about it.
        """
        mean, var = self.latent[:, self.kept], self.latent_var[:, self.kept]
        noise = self.draws.values["observation_sd"][:, self.kept, None]
        latent = mean + np.sqrt(np.maximum(var, 0.0)) * rng.standard_normal(mean.shape)
        precision = self.draws.rows.precision
        return latent, latent + noise / np.sqrt(precision) * rng.standard_normal(mean.shape)


def smoothed_at(draws: Draws, seed: int) -> SmoothedDraws:
    """Smooths the rows at draws, and draws the linear parameters given the rows and each draw of the others."""
    return smoothed_by(draws, summarize_draws(draws.target, draws.z, seed))


def smoothed_by(draws: Draws, found: tuple[np.ndarray, ...]) -> SmoothedDraws:
    """The same out of a summary that is there already."""
    n, linear = len(draws.rows.y), found[0]
    levels = {p.name: linear[..., i] for i, p in enumerate(draws.regime.linear)}
    logged = (x[..., :n] for x in found[1:])
    return SmoothedDraws(replace(draws, values=dict(draws.values) | levels), *logged)
