"""Second opinions, written plainly: matrix exponentials and a dense multivariate normal, no recursion shared."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import expm
from scipy.stats import multivariate_normal

from bayes_grpo.rows.series import Series

Level = tuple[float, float]
"""Mean and standard deviation of a level."""
Matrix = Callable[[float], np.ndarray]
Stretches = Sequence[tuple[tuple[float, float], tuple[float, float]]]
"""Of every row the gap before its window and the window, each with its rate."""


def stretches(table: Series, row_rate: np.ndarray | None = None, gap_rate: np.ndarray | None = None) -> Stretches:
    """Gaps and windows of rows, at the rows' own rates where no others are given."""
    rate, before = (table.rate if x is None else x for x in (row_rate, gap_rate))
    return list(zip(zip(table.gap(), before, strict=True), zip(table.window, rate, strict=True), strict=True))


def over(drift: np.ndarray, noise: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Transition and noise covariance over a time, by Van Loan's block exponential.

    It is taken over a piece that is short against the fastest rate and doubled: the block holds exp(-drift t), which
    overflows for stiff laws.
    """
    n = len(drift)
    count = max(0, int(np.ceil(np.log2(max(np.abs(drift).sum(axis=1).max() * t / 0.5, 1e-12)))))
    block = expm(np.block([[-drift, noise], [np.zeros((n, n)), drift.T]]) * (t / 2**count))
    transition = block[n:, n:].T
    cov = transition @ block[:n, n:]
    for _ in range(count):
        transition, cov = transition @ transition, cov + transition @ cov @ transition.T
    return transition, cov


def rows_moments(
    mean: np.ndarray, cov: np.ndarray, drift: Matrix, noise: Matrix, stretches: Stretches
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of window means of the first of the state; its last component is the integral of the first.

    Args:
        mean: Of the state at the start, shape (n,).
        cov: Its covariance.
        drift: Rate of the row → drift matrix.
        noise: Rate of the row → noise matrix.
        stretches: The rows.
    """
    n, rows = len(mean), len(stretches)
    # Covariance of the state and of all rows so far.
    found, joint = np.zeros(rows), np.zeros((n + rows, n + rows))
    joint[:n, :n] = cov
    keep = np.diag([1.0] * (n - 1) + [0.0])  # the integral starts at 0
    for i, row in enumerate(stretches):
        window = row[1][0]
        for t, rate in row:
            f, q = over(drift(rate), noise(rate), t)
            step = np.eye(n + rows)
            step[:n, :n] = f @ keep
            mean, joint = f @ keep @ mean, step @ joint @ step.T
            joint[:n, :n] += q
        see = np.eye(n + rows)
        see[n + i, :n] = np.eye(n)[0] if window == 0 else np.eye(n)[-1] / window
        see[n + i, n + i] = 0.0
        found[i], joint = see[n + i, :n] @ mean, see @ joint @ see.T
    return found, joint[n:, n:]


def oscillator_moments(
    zeta: float, omega: float, fluctuation: float, stretches: Stretches, fixed: Level, first: Level
) -> tuple[np.ndarray, np.ndarray]:
    """The same of an oscillator, whose state is reward, speed, fixed point and integral."""
    a, b, power = 2 * zeta * omega, omega**2, 2 * fluctuation**2 * omega**3 * np.sqrt(1 + 4 * zeta**2)
    return rows_moments(
        np.array([first[0], 0.0, fixed[0], 0.0]),
        np.diag([first[1] ** 2, 0.0, fixed[1] ** 2, 0.0]),
        lambda u: np.array([[0.0, 1, 0, 0], [-b * u, -a, b * u, 0], [0, 0, 0, 0], [1, 0, 0, 0]]),
        lambda u: np.diag([0.0, power * u**2, 0.0, 0.0]),
        stretches,
    )


def exponential_moments(
    time: float, fluctuation: float, stretches: Stretches, fixed: Level, first: Level
) -> tuple[np.ndarray, np.ndarray]:
    """The same of an exponential approach, whose state is reward, fixed point and integral."""
    power = 2 * fluctuation**2 / time
    return rows_moments(
        np.array([first[0], fixed[0], 0.0]),
        np.diag([first[1] ** 2, fixed[1] ** 2, 0.0]),
        lambda u: np.array([[-u / time, u / time, 0.0], [0, 0, 0], [1, 0, 0]]),
        lambda u: np.diag([power * u**2, 0.0, 0.0]),
        stretches,
    )


def dense_log_density(y: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> float:
    """Log density of the rows that are there."""
    present = np.isfinite(y)
    # SciPy's inline default of 1 makes a type checker take the covariance for a number.
    return float(multivariate_normal.logpdf(y[present], mean[present], cov[np.ix_(present, present)]))  # pyright: ignore[reportArgumentType]


def dense_moments(full):
    """Mean and covariance of all rows, without any filter."""
    n, size = len(full.offset), len(full.initial_mean)
    values, vectors = np.linalg.eigh(full.initial_cov)
    state = np.zeros((size, size + n * (size + 2)))
    state[:, :size] = vectors * np.sqrt(np.maximum(values, 0.0))
    mean, rows, means = full.initial_mean, np.zeros((n, state.shape[1])), np.zeros(n)
    for i in range(n):
        at = size + i * (size + 2)
        rows[i], means[i] = full.observation[i] @ state, full.observation[i] @ mean + full.offset[i]
        state, mean = full.transition[i] @ state, full.transition[i] @ mean
        joint = np.block([[full.noise_cov[i], full.cross_cov[i][:, None]],
                          [full.cross_cov[i][None], np.array([[full.observation_var[i]]])]])  # fmt: skip
        values, vectors = np.linalg.eigh(joint)
        noise = vectors * np.sqrt(np.maximum(values, 0.0))
        state[:, at : at + size + 1], rows[i, at : at + size + 1] = noise[:size], noise[size]
        rows[i, at + size + 1] = np.sqrt(full.measurement_var[i])
    return means, rows @ rows.T
