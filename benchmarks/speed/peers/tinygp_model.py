"""Peer: the same law as a Gaussian process with tinygp's quasiseparable SHO kernel, in plain NumPyro.

The closed-form mean curve carries fixed point and initial reward as explicit parameters: the same model without the
marginalisation. One difference cannot be removed: the kernel is stationary, so fluctuations about the curve have
their full variance from the first row on, where the package's law starts from rest and lets them grow.
"""

import jax.numpy as jnp
import numpyro
from tinygp import GaussianProcess  # pyright: ignore[reportMissingImports]  (the bench group brings it)
from tinygp.kernels.quasisep import SHO  # pyright: ignore[reportMissingImports]  (the bench group brings it)

from benchmarks.speed.peers.plain_script import mean_curve, sample_parameters

PARAMETERS = 6


def log_likelihood(zeta, omega, fluctuation, noise, residual, t):
    """Log density of the residuals of the mean curve at times ``t``, both of shape (T,)."""
    kernel = SHO(omega=omega, quality=0.5 / zeta, sigma=fluctuation)
    gp = GaussianProcess(kernel, t, diag=noise**2, assume_sorted=True)
    return gp.log_probability(residual)


def potential(z, prior, t, y):
    """Minus the log posterior in standardised coordinates, to compare with the package's potential.

    Args:
        z: Six coordinates: the package's four, then fixed point and initial reward.
        prior: The package's `PriorNumbers`.
        t: Times, shape (T,).
        y: Rows, shape (T,).
    """
    u = prior.location + prior.scale * z[:4]
    response, s, noise, sd = jnp.exp(u[0]), jnp.sinh(u[1]), jnp.exp(u[2]), jnp.exp(u[3])
    zeta = 0.5 * (s + jnp.sqrt(s**2 + 0.01))
    stretch = jnp.sqrt(1.0 + 4.0 * zeta**2)
    omega, fluctuation = stretch / response, sd * jnp.sqrt(stretch / (2.0 * zeta))
    levels = prior.marginalized_mean + prior.marginalized_sd * z[4:]
    residual = y - mean_curve(zeta, omega, levels[0], levels[1], t)
    return 0.5 * jnp.sum(z**2) - log_likelihood(zeta, omega, fluctuation, noise, residual, t)


def model(t, y, length):
    """The NumPyro model; all six parameters are sampled."""
    zeta, omega, fluctuation, noise, fixed_point, initial_reward = sample_parameters(y, length)
    residual = y - mean_curve(zeta, omega, fixed_point, initial_reward, t)
    numpyro.factor("rows", log_likelihood(zeta, omega, fluctuation, noise, residual, t))
