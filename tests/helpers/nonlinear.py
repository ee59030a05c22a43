"""Second opinions on the laws with a given mean: quadrature, an ODE solver, dense covariances, a particle filter.

Nothing here uses the flows' closed forms: a law is its drift dp/dt = r (p (1 - p))^power alone.
"""

from itertools import pairwise

import numpy as np
from scipy.integrate import quad, solve_ivp
from scipy.special import logsumexp

from bayes_grpo.rows.series import Series

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
    """Covariance of the rows' window means of u' = -rate u + noise, rate constant over each gap and each window.

    Every stretch is cut into fine pieces; u and its integral are written as linear maps of the pieces' noises, with
    closed forms of Ornstein-Uhlenbeck noise over a piece.
    """
    variance = values["fluctuation_sd"] ** 2
    diffusion = 2.0 * variance / values["fluctuation_time"]
    n = len(table.step)
    columns = 1 + 4 * n
    u = np.zeros(columns)
    u[0] = np.sqrt(variance) if stationary else 0.0
    rows = np.zeros((n, columns))
    for i in range(n):
        for part, (length, rate) in enumerate(((table.gap()[i], gap_rate[i]), (table.window[i], row_rate[i]))):
            if length == 0:
                continue
            a, e = rate, np.exp(-rate * length)
            qu = diffusion * (1 - e**2) / (2 * a)
            qz = diffusion / a**2 * (length - 2 * (1 - e) / a + (1 - e**2) / (2 * a))
            quz = diffusion * (1 - e) ** 2 / (2 * a**2)
            at = 1 + 4 * i + 2 * part
            z = u * (1 - e) / a
            u = u * e
            u[at] += np.sqrt(qu)
            z[at] += quz / np.sqrt(qu)
            z[at + 1] += np.sqrt(max(qz - quz**2 / qu, 0.0))
            if part == 1:
                rows[i] = z / length
        if table.window[i] == 0:
            rows[i] = u
    return rows @ rows.T


def particle_log_likelihood(
    name: str,
    values: dict[str, float],
    levels: tuple[float, float],
    table: Series,
    y: np.ndarray,
    rng: np.random.Generator,
    particles: int = 20_000,
    pieces: int = 4,
) -> float:
    """Log density of the rows under the nonlinear law, by a bootstrap filter with systematic resampling.

    R = m + u with du = [f(m + u) - f(m) - u/T] dt + noise; one row a step without gaps.
    """
    states = np.zeros(particles)
    total = 0.0
    row_sd = values["observation_sd"] / np.sqrt(table.precision)
    for p, y_i, sd in zip(_fine_path(name, values, table, pieces), y, row_sd, strict=True):
        states, means = _advance(name, values, levels, states, p, table.window[0] / pieces, rng)
        log_weight = -0.5 * ((y_i - means) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi))
        total += logsumexp(log_weight) - np.log(particles)
        weight = np.exp(log_weight - log_weight.max())
        places = (np.arange(particles) + rng.uniform()) / particles
        states = states[np.minimum(np.searchsorted(np.cumsum(weight / weight.sum()), places), particles - 1)]
    return total


def simulate(
    name: str,
    values: dict[str, float],
    levels: tuple[float, float],
    table: Series,
    rng: np.random.Generator,
    pieces: int = 16,
) -> np.ndarray:
    """Rows drawn from the nonlinear law, shape (n,); one row a step without gaps."""
    state, out = np.zeros(1), []
    row_sd = values["observation_sd"] / np.sqrt(table.precision)
    for p, sd in zip(_fine_path(name, values, table, pieces), row_sd, strict=True):
        state, mean = _advance(name, values, levels, state, p, table.window[0] / pieces, rng)
        out.append(mean[0] + sd * rng.standard_normal())
    return np.array(out)


def _fine_path(name: str, values: dict[str, float], table: Series, pieces: int) -> np.ndarray:
    """Unforced success rate at the ends of equal pieces of every window, shape (n, pieces + 1)."""
    rate, power = flow_rate(name, values), POWERS[name]
    n = len(table.step)
    times = np.linspace(0.0, table.length, n * pieces + 1)
    done = solve_ivp(
        lambda _, p: rate * drift(p, power), (0, table.length), [values["initial_success"]],
        t_eval=times, method="DOP853", rtol=1e-11, atol=1e-13,
    )  # fmt: skip
    p = done.y[0]
    return np.stack([p[i * pieces : (i + 1) * pieces + 1] for i in range(n)])


def _advance(
    name: str,
    values: dict[str, float],
    levels: tuple[float, float],
    u: np.ndarray,
    p: np.ndarray,
    dt: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Fluctuation after a window and mean latent reward over it: exact decay and noise, Heun's rule for the drift."""
    fixed, first = levels
    scale = (fixed - first) / (1.0 - values["initial_success"])
    rate, power = flow_rate(name, values), POWERS[name]
    decay = np.exp(-dt / values["fluctuation_time"])
    sd = values["fluctuation_sd"] * np.sqrt(1.0 - decay**2)

    def reward(q: float) -> float:
        return fixed - scale * (1.0 - q)

    def pull(q: float, v: np.ndarray) -> np.ndarray:
        return scale * rate * (drift(q + v / scale, power) - drift(q, power))

    area = np.zeros_like(u)
    for before, after in pairwise(p):
        noise = sd * rng.standard_normal(len(u))
        one = pull(before, u)
        guess = (u + dt * one) * decay + noise
        moved = (u + 0.5 * dt * one) * decay + noise + 0.5 * dt * pull(after, guess)
        area += 0.5 * dt * (u + reward(before) + moved + reward(after))
        u = moved
    return u, area / (dt * (len(p) - 1))
