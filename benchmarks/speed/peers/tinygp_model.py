"""Peer: the same law as a Gaussian process with tinygp's quasiseparable SHO kernel, in plain NumPyro.

The closed-form mean curve carries fixed point and initial reward as explicit parameters: the same model without the
marginalisation. One difference cannot be removed: the kernel is stationary, so fluctuations about the curve have
their full variance from the first row on, where the package's law starts from rest and lets them grow.
"""

import numpyro
from tinygp import GaussianProcess  # pyright: ignore[reportMissingImports]  (the bench group brings it)
from tinygp.kernels.quasisep import SHO  # pyright: ignore[reportMissingImports]  (the bench group brings it)

from benchmarks.speed.peers.plain_script import mean_curve, sample_parameters


def log_likelihood(zeta, omega, fluctuation, noise, residual, t):
    """Log density of the residuals of the mean curve at times ``t``, both of shape (T,)."""
    kernel = SHO(omega=omega, quality=0.5 / zeta, sigma=fluctuation)
    gp = GaussianProcess(kernel, t, diag=noise**2, assume_sorted=True)
    return gp.log_probability(residual)


def model(t, y, length):
    """The NumPyro model; all six parameters are sampled."""
    zeta, omega, fluctuation, noise, fixed_point, initial_reward = sample_parameters(y, length)
    residual = y - mean_curve(zeta, omega, fixed_point, initial_reward, t)
    numpyro.factor("rows", log_likelihood(zeta, omega, fluctuation, noise, residual, t))
