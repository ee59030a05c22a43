"""Points with importance weights, before they are resampled to draws, and what says whether they can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.pareto import smoothed_weights

LEAST_EFFECTIVE = 400.0
"""Effective size of the weights from which draws are taken, as for the ESS of chains."""
PARETO_K = 0.7
"""Above this sums of weights cannot be trusted (Vehtari et al. 2024, https://jmlr.org/papers/v25/19-556.html)."""
_APART = 0.25
"""Posterior standard deviations by which the means of two halves of the points may differ."""


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points with importance weights.

    Attributes:
        z: Points in the sampler's coordinates, where the prior is standard normal, shape (n, p).
        log_weight: Log of likelihood times prior over proposal, shape (n,).
    """

    z: np.ndarray
    log_weight: np.ndarray

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood of the rows; its standard error is about ``1 / sqrt(effective)``."""
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
        return effective_size(self.log_weight)

    @property
    def pareto_k(self) -> float:
        """Shape of the weights' upper tail."""
        return pareto_shape(self.log_weight)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean, shape (p,), and covariance, shape (p, p), of the weighted points."""
        weight = self.weight
        centre = weight @ self.z
        away = self.z - centre
        return centre, away.T @ (weight[:, None] * away)

    def half(self, which: int) -> WeightedPoints:
        """Every second point, from the first or from the second on."""
        return WeightedPoints(self.z[which::2], self.log_weight[which::2])

    def resampled(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Points drawn by their weights, systematically, shape (size, p) in random order."""
        edges = np.cumsum(self.weight)
        picks = np.searchsorted(edges, (np.arange(size) + rng.uniform()) / size * edges[-1])
        return self.z[rng.permutation(np.minimum(picks, len(self.z) - 1))]


@dataclass(frozen=True)
class WeightDiagnostics:
    """Whether weighted points can be used.

    Attributes:
        effective: Effective size of the weights.
        pareto_k: Shape of their upper tail.
        apart: Largest distance between the means of two halves of the points, in posterior standard deviations.
        power: Power of the likelihood that was reached; 1 for the posterior.
        rounds: Batches of points.
    """

    effective: float
    pareto_k: float
    apart: float
    power: float
    rounds: int

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the points cannot be used, one clause each; empty where they can."""
        out = []
        if self.power < 1.0:
            out.append(f"{self.rounds} batches of points did not reach the posterior")
        if not self.effective >= LEAST_EFFECTIVE:
            out.append(f"the effective size of the weights is {self.effective:.0f} (limit {LEAST_EFFECTIVE:.0f})")
        if not self.pareto_k <= PARETO_K:
            out.append(f"their Pareto k is {self.pareto_k:.2f} (limit {PARETO_K})")
        if not self.apart <= _APART:
            out.append(f"the means of two halves lie {self.apart:.2f} posterior sd apart (limit {_APART})")
        return tuple(out)

    @property
    def passed(self) -> bool:
        """Whether the points can be used."""
        return not self.reasons

    @property
    def sentence(self) -> str:
        """The same in a sentence; empty where they can."""
        why = "; ".join(self.reasons)
        return f"{why[0].upper()}{why[1:]}." if why else ""


def effective_size(log_weight: np.ndarray) -> float:
    """Effective number of weighted points, 0 where every weight is 0.

    See https://en.wikipedia.org/wiki/Effective_sample_size#Weighted_samples; logarithms up to a constant, shape (n,).
    """
    top = log_weight.max(initial=-np.inf)
    if not np.isfinite(top):
        return 0.0
    weight = np.exp(log_weight - top)
    return float(weight.sum() ** 2 / (weight**2).sum())


def pareto_shape(log_weight: np.ndarray) -> float:
    """Pareto k-hat of importance weights, shape (n,): above .7 their sums cannot be trusted.

    Infinity where every weight is 0 or one point has all of it; minus infinity where all weights are alike.
    """
    if not np.isfinite(log_weight.max()):
        return math.inf
    shape = float(smoothed_weights(log_weight, 1.0)[1])
    if math.isnan(shape):
        return -math.inf if effective_size(log_weight) > 0.5 * len(log_weight) else math.inf
    return shape
