"""Densities that several rooms need."""

from __future__ import annotations

import math

import numpy as np


def log_student_t(x: np.ndarray, centre: np.ndarray, root: np.ndarray, freedom: float) -> np.ndarray:
    """Log density of a multivariate t distribution.

    Args:
        x: Points, shape (n, p), or one of shape (p,).
        centre: Centre, shape (p,).
        root: Lower triangular root of the scale matrix, ``root @ root.T``, shape (p, p). Above 2 degrees of freedom
            the scale matrix is the covariance times (freedom − 2) / freedom.
        freedom: Degrees of freedom, above 0.

    Returns:
        Shape (n,), or a scalar for one point.
    """
    p = len(centre)
    distance = np.sum(np.linalg.solve(root, (x - centre).T) ** 2, axis=0)
    constant = math.lgamma((freedom + p) / 2) - math.lgamma(freedom / 2) - 0.5 * p * math.log(freedom * math.pi)
    return constant - np.sum(np.log(np.diag(root))) - 0.5 * (freedom + p) * np.log1p(distance / freedom)
