"""What the first-order processes share: relaxation with noise, put on the rows of a log."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from bayes_grpo.dynamics.relaxation import relaxation_step
from bayes_grpo.rows.padding import Rows


class FirstOrderRow(NamedTuple):
    """A row of x' + rate x = sqrt(diffusion) dW/dt: free over its gap, averaged over its window.

    Attributes:
        transition: x after the row, per x before it.
        observation: Mean of x over the window, per x before the row.
        noise_var: Variance of the noise of x after the row.
        cross_cov: Its covariance with the noise of the window's mean.
        observation_var: Variance of the noise of the window's mean.
    """

    transition: Array
    observation: Array
    noise_var: Array
    cross_cov: Array
    observation_var: Array


def first_order_row(rate: Array, diffusion: Array, rows: Rows, gap_rate: Array | None = None) -> FirstOrderRow:
    """Transition, noise and observation of every row.

    Args:
        rate: Relaxation rate, 1/step, for all rows or for each; any sign.
        diffusion: reward²/step, likewise.
        rows: Rows of the log.
        gap_rate: Relaxation rate over the gaps where it differs.

    Returns:
        The rows; scalars where all are the same.
    """
    window = jnp.asarray(0.0 if rows.window is None else rows.window)
    step = relaxation_step(rate, window)
    # A window of length 0 is an instantaneous value, the limit of the mean.
    instant, width = window == 0, jnp.where(window == 0, 1.0, window)
    h = jnp.where(instant, step.xx, step.zx / width)
    s = diffusion * jnp.where(instant, step.q_xx, step.q_zx / width)
    r = diffusion * jnp.where(instant, step.q_xx, step.q_zz / width**2)
    f, q = step.xx, diffusion * step.q_xx
    if rows.gap is not None:
        g = relaxation_step(rate if gap_rate is None else gap_rate, jnp.asarray(rows.gap))
        before = diffusion * g.q_xx
        q, s, r = q + f * f * before, s + f * h * before, r + h * h * before
        f, h = f * g.xx, h * g.xx
    return FirstOrderRow(f, h, q, s, r)
