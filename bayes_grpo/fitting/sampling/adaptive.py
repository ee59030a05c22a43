"""Tempered adaptive importance sampling: a posterior of few coordinates from batches of likelihoods, no gradient.

The prior is standard normal in the sampler's coordinates. The first batch is drawn from it. Then, round by round, the
likelihood is raised to the largest power ≤ 1 at which all points so far keep an effective size, a proposal is built
about the points with these weights, and a batch is drawn from it: where the posterior is far narrower than the prior
the power climbs over some rounds, and a second mode keeps its kernels on the way. Every point of every round counts,
weighted by prior times likelihood over the mixture of all proposals (adaptive multiple importance sampling, Cornuet et
al. 2012, https://doi.org/10.1111/j.1467-9469.2011.00756.x); the prior in that mixture bounds the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.sampling import smoothed_weights
from bayes_grpo.fitting.sampling.target import Target, log_likelihoods

LEAST_EFFECTIVE = 400.0
"""Effective size of the weights from which draws are taken, as for the ESS of chains."""
PARETO_K = 0.7
"""Above this sums of weights cannot be trusted (Vehtari et al. 2024, https://jmlr.org/papers/v25/19-556.html)."""
_HALF_DISTANCE = 0.25
"""Posterior standard deviations by which the means of two halves of the points may differ."""


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points in the sampler's coordinates, shape (n, p), where the prior is standard normal, with importance weights.

    ``log_weight`` is the log of likelihood times prior over proposal, shape (n,).
    """

    z: np.ndarray
    log_weight: np.ndarray

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood of the rows; its standard error is about ``1 / sqrt(effective)``."""
        return float(np.logaddexp.reduce(self.log_weight) - math.log(len(self.log_weight)))

    @property
    def weight(self) -> np.ndarray:
        """Normalized weights, shape (n,); equal ones where no point has any likelihood."""
        top = self.log_weight.max()
        if not np.isfinite(top):
            return np.full(len(self.z), 1.0 / len(self.z))
        weight = np.exp(self.log_weight - top)
        return weight / weight.sum()

    @property
    def effective(self) -> float:
        """Effective number of points, 0 where none has any likelihood.

        See https://en.wikipedia.org/wiki/Effective_sample_size#Weighted_samples.
        """
        known = np.isfinite(self.log_weight.max(initial=-np.inf))
        return float(1.0 / np.sum(self.weight**2)) if known else 0.0

    @property
    def pareto_k(self) -> float:
        """Shape of the weights' upper tail (Pareto k-hat): above .7 their sums cannot be trusted.

        Infinity where every weight is 0 or one point has all of it; minus infinity where all weights are alike.
        """
        if not np.isfinite(self.log_weight.max()):
            return math.inf
        shape = float(smoothed_weights(self.log_weight, 1.0)[1])
        if math.isnan(shape):
            return -math.inf if self.effective > 0.5 * len(self.log_weight) else math.inf
        return shape

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean, shape (p,), and covariance, shape (p, p), of the weighted points."""
        weight = self.weight
        centre = weight @ self.z
        away = self.z - centre
        return centre, away.T @ (weight[:, None] * away)

    def resampled(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Points drawn by their weights, systematically, shape (size, p) in random order."""
        edges = np.cumsum(self.weight)
        picks = np.searchsorted(edges, (np.arange(size) + rng.uniform()) / size * edges[-1])
        return self.z[rng.permutation(np.minimum(picks, len(self.z) - 1))]


@dataclass(frozen=True)
class WeightDiagnostics:
    """Diagnostics of importance sampling.

    ``half_distance`` is the largest distance between the means of two halves of the points, in posterior standard
    deviations; ``power`` the final one of the tempered likelihood, 1 for the posterior; ``rounds`` are batches of
    points.
    """

    effective: float
    pareto_k: float
    half_distance: float
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
        if not self.half_distance <= _HALF_DISTANCE:
            out.append(
                f"the means of two halves differ by {self.half_distance:.2f} posterior sd (limit {_HALF_DISTANCE})"
            )
        return tuple(out)

    @property
    def passed(self) -> bool:
        """True where the points can be used."""
        return not self.reasons

    @property
    def sentence(self) -> str:
        """The same in a sentence; empty where they can."""
        why = "; ".join(self.reasons)
        return f"{why[0].upper()}{why[1:]}." if why else ""


_DEGREES = 5
_KERNELS = 96
_WIDE_SHARE = 0.35
_WIDE = 3.0  # times the covariance: thin corners of a posterior keep some points
_ADAPTED = 150.0


@dataclass(frozen=True)
class ImportanceSettings:
    """How many points an adaptive sampler spends.

    It stops at an ``effective`` size and a ``pareto_k``, or after so many ``rounds`` of a ``batch`` of points; equally
    weighted ``draws`` stand for the points in the end.
    """

    effective: float = 3000.0
    batch: int = 1024
    rounds: int = 24
    pareto_k: float = 0.6
    draws: int = 1000


@dataclass(frozen=True, eq=False)
class Proposal:
    """A wide Student t about the mean, and narrow ones about some of the points: two modes keep both.

    ``wide`` and ``narrow`` are Cholesky factors of the scales, shape (p, p); ``kernels`` are the narrow ones' centres,
    shape (k, p).
    """

    centre: np.ndarray
    wide: np.ndarray
    kernels: np.ndarray
    narrow: np.ndarray

    @classmethod
    def about(cls, points: WeightedPoints, rng: np.random.Generator) -> Proposal:
        """The proposal about weighted points."""
        centre, cov = points.moments()
        p = len(centre)
        cov = cov + 1e-8 * np.eye(p)
        # Silverman's rule for the kernels' width.
        narrow = (4.0 / (p + 2.0) / _KERNELS) ** (2.0 / (p + 4.0))
        kernels = points.resampled(_KERNELS, rng)
        return cls(centre, np.linalg.cholesky(_WIDE * cov), kernels, np.linalg.cholesky(narrow * cov))

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Points, shape (size, p); the first ones from the wide t."""
        p = len(self.centre)
        step = rng.standard_normal((size, p)) / np.sqrt(rng.chisquare(_DEGREES, size) / _DEGREES)[:, None]
        wide = round(_WIDE_SHARE * size)
        near = self.kernels[rng.integers(0, len(self.kernels), size - wide)] + step[wide:] @ self.narrow.T
        return np.concatenate([self.centre + step[:wide] @ self.wide.T, near])

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Log density at points of shape (n, p), shape (n,)."""
        wide = log_student_t(z, self.centre, self.wide, _DEGREES)
        # All kernels have one scale: their densities differ by the distance alone.
        whiten = np.linalg.inv(self.narrow).T
        a = (z - self.centre) @ whiten
        b = (self.kernels - self.centre) @ whiten
        # In place: a round has a million distances.
        base = (a @ b.T) * (-2.0 / _DEGREES)
        base += 1.0 + (a**2).sum(axis=1)[:, None] / _DEGREES
        base += (b**2).sum(axis=1) / _DEGREES
        np.maximum(base, 1.0, out=base)
        near = (1.0 / _integer_power(np.sqrt(base, out=base), _DEGREES + z.shape[1])).mean(axis=1)
        top = log_student_t(self.centre, self.centre, self.narrow, _DEGREES)
        return np.logaddexp(math.log(_WIDE_SHARE) + wide, math.log1p(-_WIDE_SHARE) + top + np.log(near + 1e-300))


def adaptive_points(
    log_likelihood: Callable[[np.ndarray], np.ndarray],
    size: int,
    seed: int,
    settings: ImportanceSettings | None = None,
    start: np.ndarray | None = None,
) -> tuple[WeightedPoints, WeightDiagnostics]:
    """Weighted points of a posterior with a standard normal prior of p coordinates, and whether they can be used.

    ``log_likelihood`` takes points of shape (n, p) and returns shape (n,); a value that is not finite has no weight.
    ``start`` are draws of a posterior that is expected to be close, shape (n, p): a proposal about them replaces the
    climb from the prior, from which a quarter of the first batch still comes.
    """
    settings = settings or ImportanceSettings()
    rng = np.random.default_rng(seed)
    if start is None:
        proposals, counts = [], [settings.batch]
        z = rng.standard_normal((settings.batch, size))
    else:
        proposals = [Proposal.about(WeightedPoints(start, np.zeros(len(start))), rng)]
        counts = [settings.batch // 4, settings.batch - settings.batch // 4]
        z = np.concatenate([rng.standard_normal((counts[0], size)), proposals[0].draw(counts[1], rng)])
    likelihood = _finite(log_likelihood(z))
    densities = [f(z) for f in (_log_normal, *(x.log_density for x in proposals))]  # of each proposal at all points
    rounds = 1
    while True:
        parts = [d + math.log(n / len(z)) for d, n in zip(densities, counts, strict=True)]
        base = densities[0] - np.logaddexp.reduce(parts, axis=0)  # log of the prior over the mixture of proposals
        power = _largest_power(z, base, likelihood)
        points = WeightedPoints(z, base + likelihood)
        # A heavy tail of weights lies where no kernel is yet: the next ones are drawn there.
        enough = power == 1.0 and points.effective >= settings.effective and points.pareto_k <= settings.pareto_k
        if enough or rounds >= settings.rounds:
            return points, _diagnosed(points, power, rounds)
        tempered = WeightedPoints(z, base + power * likelihood if power > 0.0 else base)
        proposals.append(Proposal.about(tempered, rng))
        counts.append(settings.batch)
        new = proposals[-1].draw(settings.batch, rng)
        z = np.concatenate([z, new])
        likelihood = np.concatenate([likelihood, _finite(log_likelihood(new))])
        known = [_log_normal, *(x.log_density for x in proposals[:-1])]
        densities = [np.concatenate([d, f(new)]) for d, f in zip(densities, known, strict=True)]
        densities.append(proposals[-1].log_density(z))
        rounds += 1


def weighted_points(
    target: Target, seed: int, settings: ImportanceSettings | None = None, start: np.ndarray | None = None
) -> tuple[WeightedPoints, WeightDiagnostics]:
    """Weighted points of a regime's posterior on rows; arguments and result as in `adaptive_points`."""
    return adaptive_points(lambda z: log_likelihoods(target, z), len(target.regime.sampled), seed, settings, start)


def _finite(log_likelihood: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(log_likelihood), log_likelihood, -np.inf)


def _largest_power(z: np.ndarray, base: np.ndarray, likelihood: np.ndarray) -> float:
    """The largest power ≤ 1 of the likelihood at which the points keep an effective size."""

    def enough(power: float) -> bool:
        return WeightedPoints(z, base + power * likelihood).effective >= _ADAPTED

    if enough(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def _diagnosed(points: WeightedPoints, power: float, rounds: int) -> WeightDiagnostics:
    means = [WeightedPoints(points.z[i::2], points.log_weight[i::2]).moments()[0] for i in (0, 1)]
    spread = np.sqrt(np.diag(points.moments()[1]))
    half_distance = float(np.max(np.abs(means[0] - means[1]) / np.maximum(spread, 1e-12)))
    return WeightDiagnostics(points.effective, points.pareto_k, half_distance, power, rounds)


def _integer_power(x: np.ndarray, n: int) -> np.ndarray:
    """``x**n`` for a whole n of at least 1 by squaring, a third of the time of NumPy's; x is overwritten."""
    out = None
    while True:
        if n % 2:
            out = x.copy() if out is None else np.multiply(out, x, out=out)
        n //= 2
        if n == 0:
            return x if out is None else out
        np.multiply(x, x, out=x)


def _log_normal(z: np.ndarray) -> np.ndarray:
    return -0.5 * np.sum(z**2, axis=1) - 0.5 * z.shape[1] * math.log(2.0 * math.pi)


def log_student_t(x: np.ndarray, centre: np.ndarray, root: np.ndarray, freedom: float) -> np.ndarray:
    """Log density of a multivariate t distribution at points of shape (n, p), or at one of shape (p,).

    ``root`` is the lower triangular root of its scale matrix, shape (p, p).
    """
    p = len(centre)
    distance = np.sum(np.linalg.solve(root, (x - centre).T) ** 2, axis=0)
    constant = math.lgamma((freedom + p) / 2) - math.lgamma(freedom / 2) - 0.5 * p * math.log(freedom * math.pi)
    return constant - np.sum(np.log(np.diag(root))) - 0.5 * (freedom + p) * np.log1p(distance / freedom)
