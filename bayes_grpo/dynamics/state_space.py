"""The one form into which every regime is put: a linear Gaussian state space, one row of the log after another.

Row ``i`` observes the way from the state ``s[i-1]`` to ``s[i]``, because a logged reward is a mean over a window:

    s[i] = F[i] s[i-1] + w[i]
    latent reward of the row = H[i] s[i-1] + d[i] + e[i]
    logged reward = latent reward + measurement noise

with ``Cov(w, w) = Q``, ``Cov(w, e) = S``, ``Var(e) = R``. An instantaneous observation is the special case in
which ``e`` is a component of ``w``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

LOG_2PI = 1.8378770664093453
"""Of every normal log density."""

Entry = Array | float
"""An entry over all rows: an array of shape (T,), or a plain number that holds for every row.

The plain numbers 0 and 1 are structural: they cost nothing in the filter.
"""
Vector = tuple[Entry, ...]
Matrix = tuple[Vector, ...]


class StateSpace(NamedTuple):
    """A regime on the rows of one log. ``n`` is the size of the state, ``T`` the number of rows.

    Attributes:
        initial_mean: Mean of ``s[0]``, n scalars.
        initial_cov: Covariance of ``s[0]``, n × n scalars.
        transition: ``F``, n × n entries.
        noise_cov: ``Q``, n × n entries.
        observation: ``H``, n entries, acting on the state before the row.
        cross_cov: ``S``, n entries.
        observation_var: ``R``, one entry.
        offset: ``d``, one entry.
        measurement_var: Variance of the measurement noise of each row, one entry.
    """

    initial_mean: Vector
    initial_cov: Matrix
    transition: Matrix
    noise_cov: Matrix
    observation: Vector
    cross_cov: Vector
    observation_var: Entry
    offset: Entry
    measurement_var: Entry

    @property
    def size(self) -> int:
        """Number of components of the state."""
        return len(self.initial_mean)


def dense(space: StateSpace, rows: int) -> Any:
    """The same with arrays of shapes (n,), (n, n), (T, n, n), (T, n) and (T,), T rows."""

    def array(entries: Any, shape: tuple[int, ...]) -> Array:
        if isinstance(entries, tuple):
            return jnp.stack([array(x, shape) for x in entries], axis=len(shape))
        return jnp.broadcast_to(jnp.asarray(entries, float), shape)

    return StateSpace(*(array(x, ()) for x in space[:2]), *(array(x, (rows,)) for x in space[2:]))  # pyright: ignore[reportArgumentType]


def plus(a: Entry, b: Entry) -> Entry:
    """Sum that drops structural zeros."""
    if isinstance(a, float | int) and a == 0:
        return b
    if isinstance(b, float | int) and b == 0:
        return a
    return a + b


def times(a: Entry, b: Entry) -> Entry:
    """Product that drops structural zeros and ones."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, float | int):
            if x == 0:
                return 0.0
            if x == 1:
                return y
    return a * b


def dot(a: Vector, b: Vector) -> Entry:
    """Inner product of two vectors of entries."""
    total: Entry = 0.0
    for x, y in zip(a, b, strict=True):
        total = plus(total, times(x, y))
    return total


def matvec(m: Matrix, v: Vector) -> Vector:
    """Product of a matrix and a vector of entries."""
    return tuple(dot(row, v) for row in m)


def transpose(m: Matrix) -> Matrix:
    """Transpose of a matrix of entries."""
    return tuple(zip(*m, strict=True))


def product(m: Matrix, k: Matrix) -> Matrix:
    """Product of two matrices of entries."""
    return tuple(tuple(dot(row, column) for column in transpose(k)) for row in m)


def upper(m: Matrix) -> Vector:
    """Entries of a symmetric matrix on and above its diagonal, row by row: all that a loop has to carry of it."""
    return tuple(m[i][j] for i in range(len(m)) for j in range(i, len(m)))


def symmetric_matrix(entries: Vector, n: int) -> Matrix:
    """The symmetric n × n matrix with these entries on and above its diagonal."""
    rest = iter(entries)
    above = {(i, j): next(rest) for i in range(n) for j in range(i, n)}
    return tuple(tuple(above[min(i, j), max(i, j)] for j in range(n)) for i in range(n))


def symmetric_product(f: Matrix, p: Matrix) -> Matrix:
    """``F P Fᵀ`` for symmetric ``P``; each pair of mirrored entries is computed once."""
    fp = tuple(matvec(p, row) for row in f)
    n = len(f)
    return symmetric_matrix(tuple(dot(f[i], fp[j]) for i in range(n) for j in range(i, n)), n)


def square_root(cov: Matrix) -> Matrix:
    """A lower triangular root of a covariance that may be singular (a state that starts at rest has no variance).

    Of n × n entries; structural zeros stay zeros.
    """
    n = len(cov)
    largest = jnp.max(jnp.stack([jnp.abs(jnp.asarray(cov[i][i], float)) for i in range(n)]))
    root: list[list[Entry]] = [[0.0] * n for _ in range(n)]
    for j in range(n):
        if all(_is_zero(cov[i][j]) for i in range(n)):
            continue
        rest = cov[j][j]
        for k in range(j):
            rest = plus(rest, -times(root[j][k], root[j][k]))
        positive = rest > 1e-14 * largest
        diagonal = jnp.sqrt(jnp.where(positive, rest, 1.0))
        root[j][j] = jnp.where(positive, diagonal, 0.0)
        for i in range(j + 1, n):
            left = cov[i][j]
            for k in range(j):
                left = plus(left, -times(root[i][k], root[j][k]))
            root[i][j] = 0.0 if _is_zero(left) else jnp.where(positive, left / diagonal, 0.0)
    return tuple(tuple(row) for row in root)


def _is_zero(entry: Entry) -> bool:
    return isinstance(entry, float | int) and entry == 0
