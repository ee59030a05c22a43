"""Importance sampling about posterior draws: the marginal likelihood, and draws where a sampler mixed badly.

The proposal is a mixture: a t distribution with the draws' mean and covariance, narrower ones about some of the draws
(a posterior with two modes has both), and the prior, so that no region that matters is without points. How well it
fits is told by the effective size of the weights (https://en.wikipedia.org/wiki/Effective_sample_size#Weighted_samples).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from bayes_grpo.common.densities import log_student_t
from bayes_grpo.common.seeds import seed_of, spawn
from bayes_grpo.fitting.sampling.nuts import SCOUTS, log_likelihoods, summarise
from bayes_grpo.fitting.sampling.posterior import PriorNumbers, prior_numbers, values_of
from bayes_grpo.fitting.sampling.result import Posterior
from bayes_grpo.regimes.base import Regime
from bayes_grpo.rows.padding import Rows

LEAST_EFFECTIVE = 400.0
"""Effective size of the weights from which draws are taken, as for the ESS of chains."""
_ROUNDS = 4
_KERNELS = 32
_DEGREES = 5.0


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Points with importance weights.

    Attributes:
        z: Points in the sampler's coordinates, where the prior is standard normal, shape (n, p).
        log_weight: Log of likelihood times prior over proposal, shape (n,).
    """

    z: np.ndarray
    log_weight: np.ndarray

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood of the rows, with an error of a few hundredths to tenths."""
        return float(np.logaddexp.reduce(self.log_weight) - math.log(len(self.log_weight)))

    @property
    def weight(self) -> np.ndarray:
        """Normalised weights, shape (n,); equal ones where no point has any likelihood."""
        top = self.log_weight.max()
        if not np.isfinite(top):
            return np.full(len(self.z), 1.0 / len(self.z))
        weight = np.exp(self.log_weight - top)
        return weight / weight.sum()

    @property
    def effective(self) -> float:
        """Effective number of points, 0 where none has any likelihood."""
        return float(1.0 / np.sum(self.weight**2)) if np.isfinite(self.log_weight).any() else 0.0

    def resampled(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Points drawn by their weights, systematically, shape (size, p) in random order."""
        edges = np.cumsum(self.weight)
        picks = np.searchsorted(edges, (np.arange(size) + rng.uniform()) / size * edges[-1])
        return self.z[rng.permutation(np.minimum(picks, len(self.z) - 1))]


def importance_sample(
    regime: Regime, z: np.ndarray, prior: PriorNumbers, rows: Rows, seed: int, times: int = 1
) -> WeightedDraws:
    """Points about draws, weighted by likelihood and prior.

    Args:
        regime: The law.
        z: Draws in the sampler's coordinates, where the prior is standard normal, shape (..., p).
        prior: Priors as numbers.
        rows: Rows, as they were sampled.
        seed: Seed.
        times: How many times `SCOUTS` points each part of the proposal gets.

    Returns:
        The points.
    """
    rng = np.random.default_rng(seed)
    flat = np.reshape(z, (-1, np.shape(z)[-1]))
    p, size = flat.shape[1], times * SCOUTS
    centre, cov = flat.mean(axis=0), np.atleast_2d(np.cov(flat.T)) + 1e-4 * np.eye(p)
    wide, narrow = np.linalg.cholesky(1.3 * cov), np.linalg.cholesky(0.35 * cov)
    kernels = flat[rng.choice(len(flat), _KERNELS)]
    about = np.concatenate([np.tile(centre, (size, 1)), kernels[rng.integers(0, _KERNELS, size)]])
    step = rng.standard_normal((2 * size, p)) / np.sqrt(rng.chisquare(_DEGREES, 2 * size) / _DEGREES)[:, None]
    moved = np.concatenate([step[:size] @ wide.T, step[size:] @ narrow.T])
    points = np.concatenate([about + moved, rng.standard_normal((size, p))])
    normal = -0.5 * np.sum(points**2, axis=1) - 0.5 * p * math.log(2.0 * math.pi)
    near = _log_mean([log_student_t(points, k, narrow, _DEGREES) for k in kernels])
    proposal = _log_mean([log_student_t(points, centre, wide, _DEGREES), near, normal])
    with jax.enable_x64(True):
        likelihood = log_likelihoods(regime, points, prior, rows)
    return WeightedDraws(points, np.where(np.isfinite(likelihood), likelihood + normal - proposal, -np.inf))


def resampled(regime: Regime, found: Posterior, rows: Rows, seed: int) -> Posterior:
    """The posterior with draws resampled by importance about its own.

    Args:
        regime: The regime.
        found: A posterior whose sampler mixed badly.
        rows: Its rows.
        seed: Seed.

    Returns:
        The same number of draws with `Posterior.effective`; the posterior as it was where the effective size stayed
        below `LEAST_EFFECTIVE`.
    """
    prior, z = prior_numbers(regime, found.priors), np.asarray(found.chain.z)
    rng, shape = np.random.default_rng(seed_of(seed, "resampled")), (-1, *z.shape[1:])
    size = z.size // z.shape[-1]
    for part in spawn(seed, _ROUNDS):
        weighted = importance_sample(regime, z, prior, rows, part, times=8)
        if weighted.effective >= LEAST_EFFECTIVE:
            break
        z = weighted.resampled(size, rng).reshape(shape)  # where the next round looks
    else:
        return found
    z = weighted.resampled(size, rng).reshape(shape)
    with jax.enable_x64(True):
        summary = summarise(regime, jax.random.key(seed), z, prior, rows)
        draws = {name: np.asarray(x) for name, x in values_of(regime, z, prior, rows).items()}
    return found._replace(draws=draws, chain=found.chain._replace(z=z), summary=summary, effective=weighted.effective)


def _log_mean(parts: list[Any]) -> np.ndarray:
    return np.logaddexp.reduce(parts, axis=0) - math.log(len(parts))
