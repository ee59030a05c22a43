"""Whether the peers compute our likelihood: without this a comparison of speed means nothing.

The rows are linear in fixed point and initial reward, so a peer's likelihood is the exponential of a quadratic in
them, and their Gaussian prior can be integrated out exactly from its value, gradient and Hessian. The result must be
our marginal likelihood on instantaneous rows. tinygp's kernel is stationary: for it alone our law is given the
stationary covariance at the start, in place of rest.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from bayes_grpo.dynamics import kalman
from bayes_grpo.fitting.sampling.target import prior_numbers, state_space, values_of
from bayes_grpo.regimes import get_regime
from bayes_grpo.regimes.priors import resolve_priors
from bayes_grpo.rows.padding import padded
from benchmarks.speed.peers import plain_script, tinygp_model

POINTS = 5


def integrated(log_likelihood, prior):
    """Exact integral of ``exp(log_likelihood(levels))`` over the prior of the two levels, as a logarithm."""
    mean, sd = jnp.asarray(prior.marginalized_mean), jnp.asarray(prior.marginalized_sd)

    def standard(b):
        return log_likelihood(mean + sd * b)

    zero = jnp.zeros(2)
    value, slope, bend = standard(zero), jax.grad(standard)(zero), -jax.hessian(standard)(zero)
    precision = jnp.eye(2) + bend
    return value + 0.5 * slope @ jnp.linalg.solve(precision, slope) - 0.5 * jnp.linalg.slogdet(precision)[1]


def largest_differences(table):
    """Largest relative difference of each peer's log likelihood from ours over a few points of the prior.

    Args:
        table: `Series` with rows one step apart from rest under a constant learning rate.

    Returns:
        Peer → relative difference.
    """
    regime = get_regime("oscillator")
    table = dataclasses.replace(table, window=np.zeros(len(table.y)))
    rows, prior = padded(table, len(table.y)), prior_numbers(regime, resolve_priors(regime, table))
    t, y = jnp.asarray(table.step), jnp.asarray(table.y)
    worst = {"plain script": 0.0, "tinygp": 0.0}
    rng = np.random.default_rng(0)
    for z in 0.7 * rng.standard_normal((POINTS, 4)):
        values, space = values_of(regime, jnp.asarray(z), prior, rows), state_space(regime, z, prior, rows)
        zeta, response = values["damping_ratio"], values["response_time"]
        stretch = jnp.sqrt(1.0 + 4.0 * zeta**2)
        omega = stretch / response
        fluctuation = values["fluctuation_sd"] * jnp.sqrt(stretch / (2.0 * zeta))
        noise, var = values["observation_sd"], fluctuation**2

        def plain(b, zeta=zeta, omega=omega, sd=fluctuation, noise=noise):
            residual = y - plain_script.mean_curve(zeta, omega, b[0], b[1], t)
            return plain_script.log_likelihood(zeta, omega, sd, noise, residual, 1.0)

        def process(b, zeta=zeta, omega=omega, sd=fluctuation, noise=noise):
            residual = y - plain_script.mean_curve(zeta, omega, b[0], b[1], t)
            return tinygp_model.log_likelihood(zeta, omega, sd, noise, residual, t)

        (xx, _, xr), _, fixed = space.initial_cov
        moving = ((xx + var, 0.0, xr), (0.0, var * omega**2, 0.0), fixed)
        pairs = {
            "plain script": (plain, space),
            "tinygp": (process, space._replace(initial_cov=moving)),
        }
        for name, (peer, own) in pairs.items():
            ours, theirs = kalman.sequential_log_likelihood(own, y), integrated(peer, prior)
            worst[name] = max(worst[name], float(abs(ours - theirs) / abs(ours)))
    return worst
