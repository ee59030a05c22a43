"""Weights of the laws of a forecast, from how well each predicted every row before it was there.

The log marginal likelihood of a law is the sum of its leave-future-out scores, one row ahead, from the first row on:
log p(y₁…yₙ) = Σ log p(yₜ | y₁…yₜ₋₁). It is computed by importance sampling about the posterior draws, so that no law
is fitted a second time. Weights go with prior weight times marginal likelihood (Kass and Raftery 1995,
https://doi.org/10.1080/01621459.1995.10476572). A share is then kept for the laws with a trend, by their prior weights:
rows can refute "no trend" for good, but never that a trend is still to come, and the law that described the past best
need not be the one for what comes (none of them is true).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from bayes_grpo.inference.posterior import PriorNumbers
from bayes_grpo.inference.sampler import SCOUTS, log_likelihoods
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.rows import Rows

FLAT_SHARE = 0.4
"""Prior weight of "no trend"; the laws with one share the rest."""
SHRINKAGE = 0.2
"""Share of the final weights that stays with the laws that have a trend, whatever the rows say."""
_KERNELS = 32
_DEGREES = 5.0


def has_trend(regime: Regime) -> bool:
    """Whether a law has a start apart from its fixed point."""
    return any(p.name == "initial_reward" for p in regime.parameters)


def prior_weights(regimes: Sequence[Regime]) -> dict[str, float]:
    """Weights before any row: `FLAT_SHARE` for laws without a trend, equal weights among each kind."""
    trend = {r.name: has_trend(r) for r in regimes}
    moving, still = sum(trend.values()), len(trend) - sum(trend.values())
    share = FLAT_SHARE if moving and still else float(still > 0)
    return {name: (1.0 - share) / moving if moves else share / still for name, moves in trend.items()}


def forecast_weights(
    log_evidence: Mapping[str, float],
    prior: Mapping[str, float],
    trending: Mapping[str, bool],
    shrinkage: float = SHRINKAGE,
) -> dict[str, float]:
    """Weights of the laws.

    Args:
        log_evidence: Log marginal likelihood of each law on the same rows.
        prior: Prior weight of each law.
        trending: Whether the law has a trend.
        shrinkage: Share that stays with the laws that have one, by their prior weights.

    Returns:
        Weights that sum to 1, in the order of ``log_evidence``.
    """
    names = list(log_evidence)
    start = np.array([prior[name] for name in names])
    start = start / start.sum()
    score = np.array([log_evidence[name] for name in names]) + np.log(start)
    score = np.where(np.isfinite(score), score, -np.inf)
    if not np.isfinite(score).any():
        return dict(zip(names, start.tolist(), strict=True))
    weight = np.exp(score - score.max())
    weight = weight / weight.sum()
    kept = start * np.array([trending[name] for name in names])
    if kept.sum() > 0:
        weight = (1.0 - shrinkage) * weight + shrinkage * kept / kept.sum()
    return dict(zip(names, weight.tolist(), strict=True))


def log_marginal_likelihood(regime: Regime, z: np.ndarray, prior: PriorNumbers, rows: Rows, seed: int) -> float:
    """Log density of all rows under a law with its priors, by importance sampling.

    The proposal is a mixture: a t distribution with the draws' mean and covariance, narrower ones about some of the
    draws (a posterior with two modes has both), and the prior.

    Args:
        regime: The law.
        z: Posterior draws in the sampler's coordinates, where the prior is standard normal, shape (..., p).
        prior: Priors as numbers.
        rows: Rows, as they were sampled.
        seed: Seed.

    Returns:
        The log marginal likelihood, with an error of a few hundredths to tenths.
    """
    rng = np.random.default_rng(seed)
    flat = np.reshape(z, (-1, np.shape(z)[-1]))
    p, size = flat.shape[1], SCOUTS
    centre, cov = flat.mean(axis=0), np.atleast_2d(np.cov(flat.T)) + 1e-4 * np.eye(p)
    wide, narrow = np.linalg.cholesky(1.3 * cov), np.linalg.cholesky(0.35 * cov)
    kernels = flat[rng.choice(len(flat), _KERNELS)]
    about = np.concatenate([np.tile(centre, (size, 1)), kernels[rng.integers(0, _KERNELS, size)]])
    step = rng.standard_normal((2 * size, p)) / np.sqrt(rng.chisquare(_DEGREES, 2 * size) / _DEGREES)[:, None]
    moved = np.concatenate([step[:size] @ wide.T, step[size:] @ narrow.T])
    points = np.concatenate([about + moved, rng.standard_normal((size, p))])
    normal = -0.5 * np.sum(points**2, axis=1) - 0.5 * p * math.log(2.0 * math.pi)
    near = _log_mean([_log_t(points, k, narrow) for k in kernels])
    proposal = _log_mean([_log_t(points, centre, wide), near, normal])
    with jax.enable_x64(True):
        likelihood = log_likelihoods(regime, points, prior, rows)
    term = np.where(np.isfinite(likelihood), likelihood + normal - proposal, -np.inf)
    return float(np.logaddexp.reduce(term) - math.log(len(term)))


def _log_mean(parts: list[Any]) -> np.ndarray:
    return np.logaddexp.reduce(parts, axis=0) - math.log(len(parts))


def _log_t(points: np.ndarray, centre: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Log density of a multivariate t distribution with scale matrix ``root @ root.T``."""
    p = len(centre)
    distance = np.sum(np.linalg.solve(root, (points - centre).T) ** 2, axis=0)
    constant = math.lgamma((_DEGREES + p) / 2) - math.lgamma(_DEGREES / 2) - 0.5 * p * math.log(_DEGREES * math.pi)
    return constant - np.sum(np.log(np.diag(root))) - 0.5 * (_DEGREES + p) * np.log1p(distance / _DEGREES)
