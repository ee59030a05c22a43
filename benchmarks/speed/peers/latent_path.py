"""Peer: the latent path by Euler-Maruyama, every increment sampled (non-centred), in plain NumPyro.

The way a stochastic differential equation is usually put into a probabilistic language: nothing is integrated out.
One Euler step a row, fluctuations start from rest as in the package.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import lax

from benchmarks.speed.peers.plain_script import sample_parameters


def model(t, y, length):
    """The NumPyro model on rows ``y`` at times ``t`` one step apart."""
    zeta, omega, fluctuation, noise, fixed_point, initial_reward = sample_parameters(y, length)
    kicks = numpyro.sample("kicks", dist.Normal(0.0, 1.0).expand([len(y)]).to_event(1))
    # Diffusion whose stationary sd is `fluctuation`.
    force = jnp.sqrt(4.0 * zeta * omega**3) * fluctuation

    def step(state, row):
        dt, kick = row
        x, v = state
        v = v - dt * (2.0 * zeta * omega * v + omega**2 * x) + jnp.sqrt(dt) * force * kick
        x = x + dt * v
        return (x, v), x

    gaps = jnp.diff(t, prepend=0.0)
    start = (jnp.asarray(initial_reward) - jnp.asarray(fixed_point), jnp.zeros(()))
    _, x = lax.scan(step, start, (gaps, kicks))
    numpyro.sample("y", dist.Normal(fixed_point + x, noise), obs=y)
