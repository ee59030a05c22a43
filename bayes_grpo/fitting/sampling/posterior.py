"""The log posterior of a regime on the rows of a log, in the coordinates in which the sampler moves.

Every sampled parameter is ``transform(location + scale * z)`` with z standard normal a priori. Linear parameters
(fixed point, initial reward) are integrated out by the filter and drawn afterwards.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.programs import call
from bayes_grpo.dynamics import likelihood
from bayes_grpo.dynamics.paths import mean_path, square_root
from bayes_grpo.dynamics.smoother import smooth
from bayes_grpo.dynamics.state_space import StateSpace, dot
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.regimes.quantiles import GRID, interpolated, slopes_of
from bayes_grpo.rows.padding import Rows


class PriorNumbers(NamedTuple):
    """Priors as numbers, so that overriding one does not compile anew.

    Attributes:
        location: Of the sampled parameters in their transformed coordinate, shape (p,).
        scale: Likewise, shape (p,).
        linear_mean: Of the linear parameters, shape (l,).
        linear_sd: Likewise, shape (l,).
        quantiles: Coordinates at `bayes_grpo.regimes.quantiles.GRID`, shape (p, 97), where a prior is not normal in its
            coordinate; else None, which keeps the program as it is.
        slopes: Their derivatives, shape (p, 97), likewise.
    """

    location: Array | np.ndarray
    scale: Array | np.ndarray
    linear_mean: Array | np.ndarray
    linear_sd: Array | np.ndarray
    quantiles: Array | np.ndarray | None = None
    slopes: Array | np.ndarray | None = None


def prior_numbers(regime: Regime, priors: dict[str, Prior]) -> PriorNumbers:
    """Numbers of resolved priors, in the order of the regime's parameters."""
    free, levels = regime.sampled, regime.linear
    location = np.array([p.transform.inverse(priors[p.name].median) for p in free])
    scale = np.array([priors[p.name].spread for p in free])
    numbers = PriorNumbers(
        location=location,
        scale=scale,
        linear_mean=np.array([priors[p.name].median for p in levels]),
        linear_sd=np.array([priors[p.name].spread for p in levels]),
    )
    known = [priors[p.name].quantiles for p in free]
    if all(q is None for q in known):
        return numbers
    quantiles = np.stack(
        [m + s * GRID if q is None else np.array(q) for q, m, s in zip(known, location, scale, strict=True)]
    )
    return numbers._replace(quantiles=quantiles, slopes=slopes_of(quantiles))


def coordinates(z: Array | np.ndarray, prior: PriorNumbers) -> Array | np.ndarray:
    """Coordinates u of the parameters from standardised ones, shape (..., p)."""
    if prior.quantiles is None or prior.slopes is None:
        return prior.location + prior.scale * z
    return interpolated(jnp.asarray(prior.quantiles), jnp.asarray(prior.slopes), jnp.asarray(z))


def values_of(regime: Regime, z: Array | np.ndarray, prior: PriorNumbers, rows: Rows) -> dict[str, Array]:
    """Sampled parameters in their units from standardised coordinates of shape (..., p)."""
    u = coordinates(z, prior)
    raw = {p.name: p.transform.forward(u[..., i]) for i, p in enumerate(regime.sampled)}
    return regime.physical(raw, rows)


def values_of_draws(regime: Regime, z: np.ndarray, prior: PriorNumbers, rows: Rows) -> dict[str, np.ndarray]:
    """Sampled parameters in their units of many draws, by one compiled program.

    Args:
        regime: The law.
        z: Standardised coordinates, shape (..., p).
        prior: Priors as numbers.
        rows: Padded rows.

    Returns:
        Arrays of shape (...).
    """
    flat = np.reshape(z, (-1, z.shape[-1]))
    found = call(_values_program, (regime,), flat, prior, rows)
    # A compiled program sorts a dictionary by its keys.
    return {p.name: np.asarray(found[p.name]).reshape(z.shape[:-1]) for p in regime.sampled}


def _values_program(regime: Regime) -> Any:
    return partial(values_of, regime)


def state_space(regime: Regime, z: Array, prior: PriorNumbers, rows: Rows) -> StateSpace:
    """The law on the rows at one point of the sampler's space, shape (p,)."""
    levels = {p.name: (prior.linear_mean[i], prior.linear_sd[i]) for i, p in enumerate(regime.linear)}
    return regime.state_space(values_of(regime, z, prior, rows), levels, rows)


FARTHEST = 8.0
"""Prior standard deviations at which the likelihood stops to follow a parameter. A warm-up may leap further, to noises
so small that the filters lose all digits and report any density at all. The prior still pulls back from there."""


def log_likelihood(regime: Regime, z: Array, prior: PriorNumbers, rows: Rows) -> Array:
    """Log density of the logged rows with the linear parameters integrated out, a scalar."""
    near, y = jnp.clip(z, -FARTHEST, FARTHEST), jnp.asarray(rows.y)
    if regime.row_by_row and not regime.missing_anywhere:
        return likelihood.log_likelihood_of_rows(lambda rows: state_space(regime, near, prior, rows), rows, y)
    return likelihood.log_likelihood(state_space(regime, near, prior, rows), y, regime.missing_anywhere)


def potential(regime: Regime, z: Array, prior: PriorNumbers, rows: Rows) -> Array:
    """Minus the log posterior up to a constant, a scalar."""
    value = 0.5 * jnp.sum(z**2) - log_likelihood(regime, z, prior, rows)
    return jnp.where(jnp.isfinite(value), value, jnp.inf)  # what overflowed is rejected


class DrawSummary(NamedTuple):
    """What one draw of the sampled parameters implies.

    Attributes:
        linear: Linear parameters drawn given the rows, in the order of the regime's, shape (l,).
        curve: The unforced law with these parameters at every row, shape (T,).
        latent: A draw-wise mean of the latent reward of every row given all rows, shape (T,).
        latent_var: Its variance, shape (T,).
        loo_log_density: Leave-one-out log density of every row, shape (T,); NaN where missing.
        loo_mean: Mean of every row given all others, shape (T,).
        loo_var: Its variance, shape (T,).
    """

    linear: Array | np.ndarray
    curve: Array | np.ndarray
    latent: Array | np.ndarray
    latent_var: Array | np.ndarray
    loo_log_density: Array | np.ndarray
    loo_mean: Array | np.ndarray
    loo_var: Array | np.ndarray


def summarise_draw(regime: Regime, key: Array, z: Array, prior: PriorNumbers, rows: Rows) -> DrawSummary:
    """Draws the linear parameters and smooths the rows for one draw of shape (p,)."""
    space = state_space(regime, z, prior, rows)
    smoothed = smooth(space, jnp.asarray(rows.y))
    n = space.size
    root = square_root(tuple(tuple(smoothed.initial_cov[i, j] for j in range(n)) for i in range(n)))
    noise = jax.random.normal(key, (n,))
    state = smoothed.initial_mean + jnp.stack([dot(row, tuple(noise)) for row in root])
    levels = regime.linear_values(state)
    return DrawSummary(
        linear=jnp.stack([levels[p.name] for p in regime.linear]),
        curve=mean_path(space, state, rows.y.shape[0]),
        latent=smoothed.latent_mean,
        latent_var=smoothed.latent_var,
        loo_log_density=smoothed.loo_log_density,
        loo_mean=smoothed.loo_mean,
        loo_var=smoothed.loo_var,
    )
