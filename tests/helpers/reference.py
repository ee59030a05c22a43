"""Second opinions, written plainly: matrix exponentials and a dense multivariate normal, no recursion shared."""

import numpy as np
from scipy.linalg import expm
from scipy.stats import multivariate_normal


def oscillator_moments(
    a: float,
    b: float,
    diffusion: float,
    step: np.ndarray,
    window: np.ndarray,
    rate: np.ndarray,
    start: float,
    linear: tuple[tuple[float, float], tuple[float, float]],
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the rows of a first-order or oscillating law, from block matrix exponentials.

    The state is (x, v, z, R*) with z the integral of x over the row's window. Every state is written as a linear
    map of independent pieces (initial levels and the noise of each stretch), so that the covariance of the rows is
    one product and no filter is involved.
    """
    (fixed, fixed_sd), (first, first_sd) = linear
    n = len(step)
    # Columns: R*, R0, then four noise components for each of the 2n stretches.
    columns = 2 + 4 * 2 * n
    state = np.zeros((4, columns))
    state[0, 0], state[0, 1], state[3, 0] = -fixed_sd, first_sd, fixed_sd
    mean = np.array([first - fixed, 0.0, 0.0, fixed])
    rows, means = np.zeros((n, columns)), np.zeros(n)
    before = start
    for i in range(n):
        for part, length in enumerate((step[i] - window[i] - before, window[i])):
            if part == 1:
                state[2], mean[2] = 0.0, 0.0
            if length > 0:
                f, q = van_loan(a, b * rate[i], diffusion * rate[i] ** 2, length)
                state, mean = f @ state, f @ mean
                values, vectors = np.linalg.eigh(q)
                at = 2 + 4 * (2 * i + part)
                state[:, at : at + 4] += vectors * np.sqrt(np.maximum(values, 0.0))
        x = np.array([0.0, 0.0, 1.0 / window[i], 1.0]) if window[i] > 0 else np.array([1.0, 0.0, 0.0, 1.0])
        rows[i], means[i] = x @ state, x @ mean
        before = step[i]
    return means, rows @ rows.T


def van_loan(a: float, b: float, diffusion: float, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Transition and noise covariance of (x, v, z, R*) over ``t``, by Van Loan's block exponential."""
    drift = np.array([[0.0, 1, 0, 0], [-b, -a, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    noise = np.zeros((4, 4))
    noise[1, 1] = diffusion
    # Short against the fastest rate: Van Loan's block holds exp(-A t), which overflows for stiff laws.
    count = max(0, int(np.ceil(np.log2(max(abs(a), np.sqrt(abs(b)), 1e-12) * t / 0.5))))
    block = expm(np.block([[-drift, noise], [np.zeros((4, 4)), drift.T]]) * (t / 2**count))
    f = block[4:, 4:].T
    q = f @ block[:4, 4:]
    for _ in range(count):
        q, f = f @ q @ f.T + q, f @ f
    return f, 0.5 * (q + q.T)


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
