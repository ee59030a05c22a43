"""The largest eigenvalues of a symmetric matrix that is known by its products alone.

Lanczos with full orthogonalisation (Parlett 1980, *The Symmetric Eigenvalue Problem*), over any kind of vector. Where
the matrix is only nearly symmetric, as the Jacobian of an update with a penalty is, what comes out is that of its
symmetric part within the space that was built. SciPy's `eigsh` does the same for NumPy's arrays, and the tests compare
the two.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.probing.operator import AnyVector, Product, inner, unit

MOST_PRODUCTS = 30
FEWEST_PRODUCTS = 6
"""Products that are taken at least: a start that has little of the first vector can look as if it had found another."""
TOLERANCE = 1e-2
"""Residual over eigenvalue at which it is found: the eigenvalue's own error is of second order in it."""


class Leading(NamedTuple):
    """Largest eigenvalues of a symmetric matrix.

    Attributes:
        values: The largest first, shape (count,).
        vectors: Of length 1, one each.
        residual: Length of what a product has besides the first vector, over the first value.
        products: How many products were taken.
    """

    values: np.ndarray
    vectors: list[AnyVector]
    residual: float
    products: int


def lanczos(
    product: Product, start: AnyVector, count: int = 1, steps: int = MOST_PRODUCTS, tolerance: float = TOLERANCE
) -> Leading:
    """Largest eigenvalues, by algebraic size, and their vectors.

    Args:
        product: The matrix.
        start: Start vector; near the first eigenvector the search ends sooner.
        count: Number of eigenvalues.
        steps: Largest number of products, and of vectors in memory.
        tolerance: See `TOLERANCE`.

    Raises:
        SettingError: The start has no length, or no step is allowed.
    """
    if steps < 1:
        raise SettingError(f"lanczos: expected at least 1 step, found {steps!r}")
    basis, inside = [unit(start, "the start of the search")], np.zeros((steps, steps))
    size, residual, values, weights = 0, math.inf, np.zeros(0), np.zeros((0, 0))
    for i in range(steps):
        new = product(basis[i])
        for _ in range(2):  # once leaves rounding in
            for j, vector in enumerate(basis):
                part = inner(vector, new)
                inside[j, i] += part
                new = new - vector * part
        size = i + 1
        values, weights = np.linalg.eigh(0.5 * (inside[:size, :size] + inside[:size, :size].T))
        left = math.sqrt(max(inner(new, new), 0.0))
        largest = max(abs(values[-1]), np.finfo(float).tiny)
        residual = left * abs(weights[-1, -1]) / largest
        exhausted = left <= 1e-7 * np.abs(inside).max()
        if exhausted or size == steps or (size >= count + FEWEST_PRODUCTS - 1 and residual < tolerance):
            break
        inside[size, i] = left
        basis.append(new * (1.0 / left))
    order = np.arange(size)[::-1][:count]
    vectors = []
    for k in order:
        way = basis[0] * float(weights[0, k])
        for vector, weight in zip(basis[1:], weights[1:, k], strict=False):
            way = way + vector * float(weight)
        vectors.append(unit(way))
    return Leading(values[order], vectors, float(residual), size)
