"""The symmetric operator whose largest eigenvalue decides whether an update is stable, and that eigenvalue.

An optimizer moves the parameters by η D u(θ): u is the mean direction of the update, minus the gradient of the loss,
and D what the optimizer multiplies each parameter's update by: 1 for SGD and heavy ball, 1/(√v̂ + ε) for Adam. Small
departures decay with the eigenvalues of −D J, J the Jacobian of u. In coordinates θ = D^½ y these are those of
D^½ (−J) D^½, which is symmetric where J is. A *stiffness* K is one of its eigenvalues, per unit learning rate and step.

It is found by Lanczos with full orthogonalisation (Parlett 1980, *The Symmetric Eigenvalue Problem*). Where the
matrix is only nearly symmetric, as the Jacobian of an update with a penalty is, what comes out is that of its symmetric
part within the space that was built. SciPy's `eigsh` does the same for NumPy's arrays, and the tests compare the two.

A vector is anything one-dimensional with +, −, * and @: a NumPy or JAX array, a torch tensor, `BlockVector` of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import SettingError

MOST_PRODUCTS = 30
FEWEST_PRODUCTS = 6
"""Products that are taken at least: a start that has little of the first vector can look as if it had found another."""
TOLERANCE = 1e-2
"""Residual over eigenvalue at which it is found: the eigenvalue's own error is of second order in it."""


class Eigenpair(NamedTuple):
    """The largest eigenvalue of a symmetric matrix and its vector, of length 1.

    ``residual`` is the length of what a product has besides the vector, over the value; ``products`` were taken.
    """

    value: float
    vector: AnyVector
    residual: float
    products: int


def lanczos(product: Product, start: AnyVector, steps: int = MOST_PRODUCTS, tolerance: float = TOLERANCE) -> Eigenpair:
    """Largest eigenvalue, by algebraic size, and its vector.

    Args:
        product: The matrix.
        start: Start vector; near the first eigenvector the search ends sooner.
        steps: Largest number of products, and of vectors in memory; at least 1.
        tolerance: See `TOLERANCE`.

    Raises:
        SettingError: The start has no length.
    """
    basis = [unit(start, "the start of the search")]
    inside = np.zeros((steps, steps))
    while True:
        size = len(basis)
        new = product(basis[-1])
        for _ in range(2):  # once leaves rounding in
            for j, vector in enumerate(basis):
                part = inner(vector, new)
                inside[j, size - 1] += part
                new = new - vector * part
        values, weights = np.linalg.eigh(0.5 * (inside[:size, :size] + inside[:size, :size].T))
        remaining = math.sqrt(max(inner(new, new), 0.0))
        residual = float(remaining * abs(weights[-1, -1]) / max(abs(values[-1]), np.finfo(float).tiny))
        exhausted = remaining <= 1e-7 * np.abs(inside).max()
        if exhausted or size == steps or (size >= FEWEST_PRODUCTS and residual < tolerance):
            direction = sum(vector * float(weight) for vector, weight in zip(basis, weights[:, -1], strict=True))
            return Eigenpair(float(values[-1]), unit(direction), residual, size)
        inside[size, size - 1] = remaining
        basis.append(new * (1.0 / remaining))


AnyVector = Any
"""One-dimensional, with +, −, * by a number or elementwise, and @ for the dot product."""
UpdateAt = Callable[[Any], AnyVector]
"""Mean direction of the update at parameters shifted by a vector; called with the number 0 for no shift."""
Product = Callable[[AnyVector], AnyVector]
"""A matrix, as what it makes of a direction."""
STEP = 1e-3
"""Length of a shift of the parameters: short against what changes a policy, long against rounding."""


class BlockVector:
    """A vector in pieces, such as the tensors of a network: what a vector does, piece by piece."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        self.pieces = list(pieces)

    def _with(self, other: Any, do: Callable[[Any, Any], Any]) -> BlockVector:
        others = other.pieces if isinstance(other, BlockVector) else [other] * len(self.pieces)
        return BlockVector(do(a, b) for a, b in zip(self.pieces, others, strict=True))

    def __add__(self, other: Any) -> BlockVector:
        return self._with(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> BlockVector:
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> BlockVector:
        return self._with(other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __pow__(self, power: float) -> BlockVector:
        return BlockVector(piece**power for piece in self.pieces)

    def __matmul__(self, other: BlockVector) -> float:
        """Sum over the pieces of their products, each of any shape."""
        return sum(float((a * b).sum()) for a, b in zip(self.pieces, other.pieces, strict=True))


def inner(a: AnyVector, b: AnyVector) -> float:
    """Dot product as a number of Python."""
    return float(a @ b)


def unit(direction: AnyVector, what: str = "a direction") -> AnyVector:
    """A direction of length 1.

    Raises:
        SettingError: It has no length, or one that is not finite.
    """
    length = math.sqrt(max(inner(direction, direction), 0.0))
    if not (0.0 < length < math.inf):
        raise SettingError(f"{what}: expected a finite vector that is not zero, found length {length:g}; give another")
    return direction * (1.0 / length)


def mean_of(vectors: Sequence[AnyVector]) -> AnyVector:
    """Mean of vectors."""
    return sum(vectors) * (1.0 / len(vectors))


def adam_scale(second_moment: AnyVector, steps: int, beta2: float = 0.999, epsilon: float = 1e-8) -> AnyVector:
    """Adam's D = 1/(√v̂ + ε) as it stands after some steps.

    Args:
        second_moment: v, its running mean of squared gradients, shape (parameters,).
        steps: Steps behind it, from which the correction of its bias follows.
        beta2: β₂.
        epsilon: ε.

    Raises:
        SettingError: No step was made, so that there is no second moment yet.
    """
    if steps < 1 or not 0.0 <= beta2 < 1.0:
        raise SettingError(f"adam_scale: expected at least 1 step and β₂ in [0, 1), found {steps!r} and {beta2!r}")
    return ((second_moment * (1.0 / (1.0 - beta2**steps))) ** 0.5 + epsilon) ** -1.0


def product_of(update: UpdateAt, scale: Any = 1.0, step: float = STEP) -> Product:
    """D^½ (−J) D^½ times a direction, by the update at two shifted points.

    Args:
        update: See `UpdateAt`; the same batch at every call.
        scale: D, a number or shape (parameters,).
        step: Length of the shifts. The error is of second order in it.
    """
    root = scale**0.5

    def product(direction: AnyVector) -> AnyVector:
        shift = root * direction
        reach = step / math.sqrt(inner(shift, shift))
        return root * (update(shift * -reach) - update(shift * reach)) * (0.5 / reach)

    return product
