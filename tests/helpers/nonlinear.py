"""Second opinions on the laws with a given mean: quadrature, an ODE solver, dense covariances.

Nothing here uses the flows' closed forms: a law is its drift dp/dt = r (p (1 - p))^power alone.
"""

import numpy as np
from scipy.integrate import quad, solve_ivp

from bayes_grpo.rows.series import Series
from tests.helpers.reference import rows_moments, stretches

POWERS = {"bernoulli": 1.5, "logistic": 2.0}


def drift(p: np.ndarray | float, power: float) -> np.ndarray:
    """Drift of the success rate at rate 1; none outside [0, 1]."""
    p = np.clip(p, 0.0, 1.0)
    return (p * (1.0 - p)) ** power


def slope(p: np.ndarray | float, power: float) -> np.ndarray:
    """Derivative of the drift."""
    p = np.asarray(p)
    return power * (p * (1.0 - p)) ** (power - 1.0) * (1.0 - 2.0 * p)


def flow_rate(name: str, values: dict[str, float]) -> float:
    """Rate at which half of the failures are gone after `half_gain_step`, by quadrature."""
    p0 = values["initial_success"]
    took = quad(lambda p: 1.0 / drift(p, POWERS[name]), p0, 0.5 * (1.0 + p0), epsabs=0, epsrel=1e-12, limit=200)[0]
    return took / values["half_gain_step"]


def path(name: str, values: dict[str, float], table: Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Window means, window middles and gap middles of the success rate, by an ODE solver; shapes (n,)."""
    rate, power = flow_rate(name, values), POWERS[name]

    def derivative(_: float, state: np.ndarray, speed: float) -> list[float]:
        return [speed * float(drift(state[0], power)), state[0]]

    def advance(p: float, steps: float, speed: float) -> tuple[float, float]:
        if steps == 0:
            return p, 0.0
        done = solve_ivp(derivative, (0, steps), [p, 0.0], args=(speed,), method="DOP853", rtol=1e-12, atol=1e-13)
        return float(done.y[0, -1]), float(done.y[1, -1])

    p, out = values["initial_success"], []
    for gap, window, own in zip(table.gap(), table.window, table.rate, strict=True):
        gap_middle = advance(p, gap / 2, rate * own)[0]
        begin = advance(p, gap, rate * own)[0]
        middle = advance(begin, window / 2, rate * own)[0]
        p, total = advance(begin, window, rate * own)
        out.append((total / window if window > 0 else p, middle, gap_middle))
    means, middles, gaps = np.array(out).T
    return means, middles, gaps


def sigmoid_means(values: dict[str, float], table: Series) -> np.ndarray:
    """Share of the gain that is left, mean over each window, by quadrature."""

    def left(step: float) -> float:
        return 1.0 / (1.0 + (step / values["midpoint"]) ** values["exponent"])

    out = []
    for end, window in zip(table.step, table.window, strict=True):
        mean = quad(left, end - window, end, epsabs=1e-13)[0] / window if window > 0 else left(end)
        out.append(mean / left(table.start))
    return np.array(out)


def fluctuation_cov(
    values: dict[str, float], table: Series, row_rate: np.ndarray, gap_rate: np.ndarray, stationary: bool
) -> np.ndarray:
    """Covariance of the rows' window means of u' = -rate u + noise, rate constant over each gap and each window."""
    variance = values["fluctuation_sd"] ** 2
    diffusion = 2.0 * variance / values["fluctuation_time"]
    return rows_moments(
        np.zeros(2),
        np.diag([variance * stationary, 0.0]),
        lambda rate: np.array([[-rate, 0.0], [1.0, 0.0]]),
        lambda _: np.diag([diffusion, 0.0]),
        stretches(table, row_rate, gap_rate),
    )[1]
