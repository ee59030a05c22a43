"""Peer: the same fit as a plain NumPyro + ArviZ script, self-contained.

    python benchmarks/speed/peers/plain_script.py trainer_state.json [--seed 0]

Same law and priors as regime `oscillator` on a log that starts at rest, with a constant learning rate and
equally spaced rows, but nothing marginalised: fixed point and initial reward are sampled, the mean curve is the
closed form, and its residuals go through a textbook Kalman filter with 2×2 matrices in `lax.scan`. Two things are
simpler than in the package: rows are instantaneous values instead of means over a step, and the damping ratio is
positive (the unstable side, 4% of the package's prior, is left out).
"""

import argparse
import json
import math

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import lax
from numpyro.infer import MCMC, NUTS, init_to_median

WARMUP, DRAWS, CHAINS = 400, 1000, 4
MASS = 0.95
"""(1 + momentum) / 2 for a momentum of 0.9."""


def decay(zeta, omega, t):
    """``e^{-ζωt} cosh(√z)`` and ``e^{-ζωt} sinh(√z)/√z`` for z = (ζ² - 1)ω²t², on both sides of ζ = 1."""
    z = (zeta**2 - 1.0) * (omega * t) ** 2
    s, near = zeta * omega * t, jnp.abs(z) < 1e-4
    over = jnp.where(near | (z < 0), 1.0, z)
    under = jnp.where(near | (z > 0), 1.0, -z)
    up, down = jnp.exp(jnp.sqrt(over) - s), jnp.exp(-jnp.sqrt(over) - s)
    e, root = jnp.exp(-s), jnp.sqrt(under)
    even = jnp.where(z > 0, 0.5 * (up + down), e * jnp.cos(root))
    odd = jnp.where(z > 0, 0.5 * (up - down) / jnp.sqrt(over), e * jnp.sin(root) / root)
    even = jnp.where(near, e * (1.0 + z / 2.0 + z**2 / 24.0 + z**3 / 720.0), even)
    return even, jnp.where(near, e * (1.0 + z / 6.0 + z**2 / 120.0 + z**3 / 5040.0), odd)


def mean_curve(zeta, omega, fixed_point, initial_reward, t):
    """The unforced law from rest."""
    even, odd = decay(zeta, omega, t)
    return fixed_point + (initial_reward - fixed_point) * (even + zeta * omega * t * odd)


def log_likelihood(zeta, omega, fluctuation, noise, residual, dt):
    """Kalman filter on the residuals of the mean curve; the state (x, velocity) starts at zero exactly.

    Args:
        zeta: Damping ratio.
        omega: Natural frequency, 1/step.
        fluctuation: Stationary sd of x.
        noise: Measurement sd of a row.
        residual: Logged reward minus mean curve, shape (T,).
        dt: Steps between rows, one number.
    """
    even, odd = decay(zeta, omega, dt)
    s, g = zeta * omega * dt, dt * odd
    F = jnp.array([[even + s * odd, g], [-(omega**2) * g, even - s * odd]])
    stationary = fluctuation**2 * jnp.diag(jnp.stack([jnp.ones_like(omega), omega**2]))
    Q = stationary - F @ stationary @ F.T
    H = jnp.array([1.0, 0.0])

    def step(carry, r):
        m, P, total = carry
        m, P = F @ m, F @ P @ F.T + Q
        S = H @ P @ H + noise**2
        K = P @ H / S
        error = r - H @ m
        total = total - 0.5 * (jnp.log(2.0 * jnp.pi * S) + error**2 / S)
        return (m + K * error, P - jnp.outer(K, H @ P), total), None

    start = (jnp.zeros(2), jnp.zeros((2, 2)), jnp.zeros(()))
    return lax.scan(step, start, residual)[0][2]


def sample_parameters(y, length):
    """Priors of the package, all six parameters sampled.

    Returns:
        (damping ratio, natural frequency, stationary sd, measurement sd, fixed point, initial reward).
    """
    centre, scale = y.mean(), y.std()
    spread = min(1.0, math.log(max(len(y), 8) / 5.0) / 2.5)
    response = numpyro.sample("response_time", dist.LogNormal(jnp.log(length / 5.0), spread))
    s = jnp.sinh(numpyro.sample("damping_coordinate", dist.Normal(math.asinh(2.0), 0.8)))
    zeta = numpyro.deterministic("damping_ratio", 0.5 * (s + jnp.sqrt(s**2 + 0.01)))
    noise = numpyro.sample("observation_sd", dist.LogNormal(jnp.log(0.5 * scale), 1.0))
    fluctuation = numpyro.sample("fluctuation_sd", dist.LogNormal(jnp.log(0.2 * scale), 1.0))
    fixed_point = numpyro.sample("fixed_point", dist.Normal(centre, 3.0 * scale))
    initial_reward = numpyro.sample("initial_reward", dist.Normal(centre, 3.0 * scale))
    stretch = jnp.sqrt(1.0 + 4.0 * zeta**2)
    omega = numpyro.deterministic("natural_frequency", stretch / response)
    numpyro.deterministic("stiffness", MASS * omega**2)
    numpyro.deterministic("damping", 2.0 * MASS * zeta * omega)
    numpyro.deterministic("relaxation_time", 2.0 * zeta / omega)
    stationary = fluctuation * jnp.sqrt(stretch / (2.0 * zeta))
    return zeta, omega, stationary, noise, fixed_point, initial_reward


def model(t, y):
    """The NumPyro model on rows ``y`` at equally spaced steps ``t``."""
    zeta, omega, fluctuation, noise, fixed_point, initial_reward = sample_parameters(y, t[-1])
    residual = y - mean_curve(zeta, omega, fixed_point, initial_reward, t)
    numpyro.factor("rows", log_likelihood(zeta, omega, fluctuation, noise, residual, t[1] - t[0]))


def fastest_chains():
    """Chain method that was fastest: each chain on its own CPU device, or one batch on an accelerator."""
    return "parallel" if jax.default_backend() == "cpu" else "vectorized"


def sampler(chain_method, model=model):
    """A fresh MCMC object."""
    kernel = NUTS(model, dense_mass=True, target_accept_prob=0.9, init_strategy=init_to_median)
    return MCMC(
        kernel,
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method=chain_method,
        progress_bar=False,
    )


def read(path):
    """Steps and rewards of a TRL log."""
    with open(path, encoding="utf-8") as file:
        history = [row for row in json.load(file)["log_history"] if "reward" in row]
    return jnp.array([float(row["step"]) for row in history]), jnp.array([row["reward"] for row in history])


def main(read=read, model=model, text=__doc__):
    """Reads a trainer's log, samples, prints the summary with 90% intervals.

    Args:
        read: A log's path → arguments of the model.
        model: The NumPyro model.
        text: What ``--help`` says.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    numpyro.enable_x64()
    numpyro.set_host_device_count(CHAINS)
    mcmc = sampler(fastest_chains(), model)
    mcmc.run(jax.random.key(options.seed), *read(options.log))
    import arviz as az

    table = az.summary(az.from_numpyro(mcmc), ci_prob=0.9, ci_kind="eti", round_to=4)  # pyright: ignore[reportArgumentType]
    print(table.to_string())


if __name__ == "__main__":
    main()
