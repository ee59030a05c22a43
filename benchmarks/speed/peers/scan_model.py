"""Peer: the same law under a falling learning rate, written the usual way in plain NumPyro.

A state space with 2×2 matrices in `lax.scan`: exact discretisation of every row by its closed form, fixed point and
initial reward as explicit parameters, nothing integrated out, gradient by automatic differentiation. With a learning
rate that falls there is no closed form of the mean curve, so the state carries it. Rows are instantaneous values and
the damping ratio is positive, as in `plain_script`.
"""

import jax.numpy as jnp
import numpyro
from jax import lax

from benchmarks.speed.peers.plain_script import decay, sample_parameters


def log_likelihood(zeta, omega, fluctuation, noise, fixed_point, initial_reward, y, rate):
    """Log density of rows one step apart.

    Args:
        zeta: Damping ratio at the highest learning rate.
        omega: Natural frequency there, 1/step.
        fluctuation: Stationary sd of x there.
        noise: Measurement sd of a row.
        fixed_point: R*.
        initial_reward: R₀.
        y: Rows, shape (T,).
        rate: Learning rate of each row over the highest one, above 0, shape (T,).
    """
    # Stiffness follows the rate, damping does not; the noise of a gradient step follows it too.
    own_zeta, own_omega = zeta / jnp.sqrt(rate), omega * jnp.sqrt(rate)
    even, odd = decay(own_zeta, own_omega, 1.0)
    s = own_zeta * own_omega
    F = jnp.stack([jnp.stack([even + s * odd, odd], -1), jnp.stack([-(own_omega**2) * odd, even - s * odd], -1)], -2)
    var = fluctuation**2 * rate
    zero = jnp.zeros_like(var)
    stationary = jnp.stack([jnp.stack([var, zero], -1), jnp.stack([zero, var * own_omega**2], -1)], -2)
    Q = stationary - F @ stationary @ jnp.swapaxes(F, -1, -2)
    H = jnp.array([1.0, 0.0])

    def step(carry, row):
        m, P, total = carry
        value, f, q = row
        m, P = f @ m, f @ P @ f.T + q
        S = H @ P @ H + noise**2
        K = P @ H / S
        error = value - H @ m
        total = total - 0.5 * (jnp.log(2.0 * jnp.pi * S) + error**2 / S)
        return (m + K * error, P - jnp.outer(K, H @ P), total), None

    start = (jnp.stack([initial_reward - fixed_point, jnp.zeros(())]), jnp.zeros((2, 2)), jnp.zeros(()))
    return lax.scan(step, start, (y - fixed_point, F, Q))[0][2]


def model(y, rate, length):
    """The NumPyro model on rows ``y``; all six parameters are sampled."""
    zeta, omega, fluctuation, noise, fixed_point, initial_reward = sample_parameters(y, length)
    numpyro.factor("rows", log_likelihood(zeta, omega, fluctuation, noise, fixed_point, initial_reward, y, rate))
