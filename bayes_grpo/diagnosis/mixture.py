"""Densities of feature vectors: mixtures of multivariate Student-t laws that know how to leave a feature out.

The marginal of a multivariate t over some of its features is a t again, so that a missing signal is integrated out
exactly. Components are fitted as normals (EM, shrunk towards the pooled covariance) and used with `FREEDOM` degrees of
freedom, because the step from simulated to real logs makes moderate outliers common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_grpo.common.densities import log_student_t

FREEDOM = 6.0
_ROUNDS = 200
_RUNS_A_COMPONENT = 50


@dataclass(frozen=True, eq=False)
class Mixture:
    """A density over d features.

    Attributes:
        weight: Shape (k,), sum 1.
        mean: Shape (k, d).
        cov: Covariances, shape (k, d, d).
        freedom: Degrees of freedom of each component, above 2.
    """

    weight: np.ndarray
    mean: np.ndarray
    cov: np.ndarray
    freedom: float = FREEDOM

    def log_density(self, x: np.ndarray) -> float:
        """Log density of the features that are there; 0 where none is.

        Args:
            x: Features, shape (d,), NaN where missing.
        """
        there = np.flatnonzero(np.isfinite(x))
        if not len(there):
            return 0.0
        terms = [
            np.log(w) + _log_t(x[there], m[there], c[np.ix_(there, there)], self.freedom)
            for w, m, c in zip(self.weight, self.mean, self.cov, strict=True)
        ]
        return float(np.logaddexp.reduce(terms))

    def to_dict(self) -> dict[str, Any]:
        """Numbers of four digits; covariances as their lower triangle."""
        d = self.mean.shape[1]
        low = np.tril_indices(d)
        return {
            "weight": _short(self.weight),
            "mean": _short(self.mean),
            "cov": _short(self.cov[:, low[0], low[1]]),
            "freedom": self.freedom,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Mixture:
        """The inverse of `to_dict`."""
        mean = np.array(content["mean"], dtype=float)
        k, d = mean.shape
        low = np.tril_indices(d)
        cov = np.zeros((k, d, d))
        cov[:, low[0], low[1]] = content["cov"]
        cov = cov + np.swapaxes(np.tril(cov, -1), 1, 2)
        return cls(np.array(content["weight"], dtype=float), mean, cov, float(content["freedom"]))


def fit_mixture(x: np.ndarray, floor: np.ndarray, largest: int = 8, seed: int = 0) -> Mixture:
    """Fits a mixture of normals by EM, a component for every `_RUNS_A_COMPONENT` runs.

    Args:
        x: Features, shape (n, d), finite.
        floor: Variance added to each feature, its resolution, shape (d,).
        largest: Largest number of components.
        seed: Of the starting points.

    Raises:
        ValueError: Too few runs.
    """
    if len(x) < 10:
        raise ValueError(f"expected at least 10 runs of a class, found {len(x)}; simulate more")
    k = int(np.clip(len(x) // _RUNS_A_COMPONENT, 1, largest))
    return _em(x, floor, k, np.random.default_rng(seed))[0]


def _em(x: np.ndarray, floor: np.ndarray, k: int, rng: np.random.Generator) -> tuple[Mixture, float]:
    n = len(x)
    pooled = np.cov(x.T) + np.diag(floor)
    target = np.diag(np.diag(pooled))
    mean = x[rng.choice(n, k, replace=False)]
    scale = np.sqrt(np.diag(pooled))
    nearest = (((x[:, None] - mean) / scale) ** 2).sum(axis=2).argmin(axis=1)
    share = np.eye(k)[nearest] * 0.9 + 0.1 / k
    found, log_lik = _maximised(x, share, target, floor), -np.inf
    for _ in range(_ROUNDS):
        log_joint = np.stack(
            [np.log(found.weight[j]) + _log_normal(x, found.mean[j], found.cov[j]) for j in range(k)], axis=1
        )
        total = np.logaddexp.reduce(log_joint, axis=1)
        before, log_lik = log_lik, float(total.sum())
        if log_lik - before < 1e-4 * n:
            break
        found = _maximised(x, np.exp(log_joint - total[:, None]), target, floor)
    return found, log_lik


def _maximised(x: np.ndarray, share: np.ndarray, target: np.ndarray, floor: np.ndarray) -> Mixture:
    """The mixture that suits the runs' shares in the components; shape (n, k)."""
    n, k = share.shape
    size = share.sum(axis=0) + 1e-9
    mean = (share.T @ x) / size[:, None]
    away = x[None] - mean[:, None]
    cov = np.einsum("nk,kni,knj->kij", share, away, away)
    # A component with few runs leans on the class's variances.
    lean = x.shape[1] / 2.0
    cov = (cov + lean * target) / (size + lean)[:, None, None] + np.diag(floor)
    return Mixture((size + 1.0) / (n + k), mean, cov)


def _log_normal(x: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    factor = np.linalg.cholesky(cov)
    white = np.linalg.solve(factor, (x - mean).T)
    return -0.5 * ((white**2).sum(axis=0) + len(mean) * np.log(2 * np.pi)) - np.log(np.diag(factor)).sum()


def _log_t(x: np.ndarray, mean: np.ndarray, cov: np.ndarray, freedom: float) -> float:
    """Student-t of the given covariance (not scale matrix)."""
    return float(log_student_t(x, mean, np.linalg.cholesky(cov * ((freedom - 2.0) / freedom)), freedom))


def _short(values: np.ndarray) -> list[Any]:
    return [_short(v) if np.ndim(v) else float(f"{float(v):.4g}") for v in values]
