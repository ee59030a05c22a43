"""Target of the samplers: a regime with its priors on the rows of a log, in the coordinates in which samplers move.

Every sampled parameter is ``transform(location + scale * z)`` with z standard normal a priori. Marginalized parameters
(fixed point, initial reward) are integrated out by the filter and drawn afterwards. Priors are checked and resolved
here, once; `Regime.on_rows` is the one way from values to a state space, for sampler, paths, replicates and residuals
alike. For likelihoods without a gradient all draws advance together through the plain filter: a row costs a draw a few
nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.errors import PriorError
from bayes_grpo.common.programs import over_draws
from bayes_grpo.dynamics import kalman
from bayes_grpo.dynamics.sampling import drawn_state, mean_path
from bayes_grpo.dynamics.state_space import StateSpace
from bayes_grpo.regimes.base import Prior, Regime
from bayes_grpo.regimes.priors import (
    GRID,
    interpolated_coordinates,
    is_distribution,
    resolve_priors,
    slopes_of,
)
from bayes_grpo.rows.padding import Rows, padded, shared
from bayes_grpo.rows.series import Series


class PriorNumbers(NamedTuple):
    """Priors as numbers, so that overriding one does not compile again; p sampled parameters, l marginalized ones.

    Attributes:
        location: Of the sampled parameters in their transformed coordinate, shape (p,); ``scale`` likewise.
        marginalized_mean: Of the marginalized parameters, shape (l,); ``marginalized_sd`` likewise.
        quantiles: Coordinates at `bayes_grpo.regimes.priors.GRID`, shape (p, 97), where a prior is not normal in its
            coordinate; else None, which keeps the program as it is. ``slopes`` are their derivatives.
        exact: Whether a prior is a distribution over the parameter's own values, shape (p,), likewise: then
            `Regime.physical` must not bend it.
    """

    location: Array | np.ndarray
    scale: Array | np.ndarray
    marginalized_mean: Array | np.ndarray
    marginalized_sd: Array | np.ndarray
    quantiles: Array | np.ndarray | None = None
    slopes: Array | np.ndarray | None = None
    exact: Array | np.ndarray | None = None


def prior_numbers(regime: Regime, priors: Mapping[str, Prior]) -> PriorNumbers:
    """Numbers of resolved priors, in the order of the regime's parameters."""
    free, levels = regime.sampled, regime.marginalized
    location = np.array([p.transform.inverse(priors[p.name].median) for p in free])
    scale = np.array([priors[p.name].spread for p in free])
    numbers = PriorNumbers(
        location=location,
        scale=scale,
        marginalized_mean=np.array([priors[p.name].median for p in levels]),
        marginalized_sd=np.array([priors[p.name].spread for p in levels]),
    )
    known = [priors[p.name].quantiles for p in free]
    if all(q is None for q in known):
        return numbers
    quantiles = np.stack(
        [m + s * GRID if q is None else np.array(q) for q, m, s in zip(known, location, scale, strict=True)]
    )
    exact = np.array([q is not None for q in known])
    return numbers._replace(quantiles=quantiles, slopes=slopes_of(quantiles), exact=exact)


@dataclass(frozen=True, eq=False)
class Target:
    """A posterior before it is sampled; ``arrays`` and ``numbers`` are rows and priors as programs take them.

    A row that is left out is a missing value of the arrays.
    """

    regime: Regime
    rows: Series
    arrays: Rows
    priors: Mapping[str, Prior]
    numbers: PriorNumbers

    @property
    def arguments(self) -> tuple[PriorNumbers, Rows]:
        """Arguments for compiled programs."""
        return self.numbers, self.arrays

    def with_values(self, y: np.ndarray) -> Target:
        """The same with other logged values, shape (T,), NaN = missing."""
        return replace(self, arrays=self.arrays._replace(y=y))

    def in_shared_shapes(self) -> Target:
        """The same in the shapes that many logs share, so that what stops at the last row is compiled once for all."""
        arrays = shared(self.rows)
        n = len(self.rows.y)
        return replace(self, arrays=arrays._replace(y=np.append(self.arrays.y[:n], arrays.y[n:])))


def target_of(
    regime: Regime, rows: Series, overrides: Mapping[str, Any] | None = None, *, arrays: Rows | None = None
) -> Target:
    """A regime with its priors on rows, as programs take them in ``arrays`` (None: in the smallest shapes).

    Raises:
        FitError: The regime cannot be put on these rows.
        PriorError: An override is impossible.
    """
    regime.check(rows)
    given = overrides or {}
    levels = tuple(p.name for p in regime.marginalized if not _integrable(given.get(p.name)))
    regime = replace(regime, sampled_levels=(*regime.sampled_levels, *levels)) if levels else regime
    priors = resolve_priors(regime, rows, overrides)
    if all(p.fixed for p in priors.values()):
        raise PriorError(f"priors: expected a parameter of {regime.name} that is left to fit, found all of them fixed")
    return Target(regime, rows, padded(rows) if arrays is None else arrays, priors, prior_numbers(regime, priors))


def _integrable(given: Any) -> bool:
    """True if the filter can integrate a parameter out under an override of its prior: a normal one, a point, none."""
    if isinstance(given, Prior):
        return given.quantiles is None
    return not is_distribution(given) or type(given).__name__ in ("Normal", "Delta")


def coordinates(z: Array | np.ndarray, prior: PriorNumbers) -> Array | np.ndarray:
    """Coordinates u of the parameters from standardized ones, shape (..., p)."""
    if prior.quantiles is None or prior.slopes is None:
        return prior.location + prior.scale * z
    return interpolated_coordinates(jnp.asarray(prior.quantiles), jnp.asarray(prior.slopes), jnp.asarray(z))


def values_of(regime: Regime, z: Array | np.ndarray, prior: PriorNumbers, rows: Rows) -> dict[str, Array]:
    """Sampled parameters in their units from standardized coordinates of shape (..., p)."""
    u = coordinates(z, prior)
    raw = {p.name: p.transform.forward(u[..., i]) for i, p in enumerate(regime.sampled)}
    bound = regime.physical(raw, rows)
    if prior.exact is None:
        return bound
    exact = jnp.asarray(prior.exact)
    return {p.name: jnp.where(exact[i], raw[p.name], bound[p.name]) for i, p in enumerate(regime.sampled)}


def values_of_draws(target: Target, z: np.ndarray) -> dict[str, np.ndarray]:
    """Sampled parameters in their units, shape (...), of many draws of shape (..., p), by one compiled program."""
    flat = np.reshape(z, (-1, z.shape[-1]))
    found = over_draws(values_of, (target.regime,), flat, *target.arguments)
    # A compiled program sorts a dictionary by its keys.
    return {p.name: np.asarray(found[p.name]).reshape(z.shape[:-1]) for p in target.regime.sampled}


def prior_levels(regime: Regime, prior: PriorNumbers) -> dict[str, tuple[Any, Any]]:
    """Marginalized parameters as (mean, sd) of their priors, under which the filter integrates over them."""
    return {p.name: (prior.marginalized_mean[i], prior.marginalized_sd[i]) for i, p in enumerate(regime.marginalized)}


def state_space(regime: Regime, z: Array, prior: PriorNumbers, rows: Rows) -> StateSpace:
    """The state space at one point of the sampler's coordinates, shape (p,)."""
    return regime.on_rows(values_of(regime, z, prior, rows), prior_levels(regime, prior), rows)


FARTHEST = 8.0
"""Prior standard deviations at which the likelihood stops to follow a parameter. A warm-up may leap further, to noises
so small that the filters lose all digits and report any density at all. The prior still pulls back from there."""


def log_likelihood(
    regime: Regime,
    z: Array,
    prior: PriorNumbers,
    rows: Rows,
    filtered: Callable[[StateSpace, Array], Array] = kalman.log_likelihood,
) -> Array:
    """Log density of the logged rows at a point of shape (p,), the marginalized parameters integrated out; a scalar.

    By default by the filter that has a gradient.
    """
    near = jnp.clip(z, -FARTHEST, FARTHEST)
    return filtered(state_space(regime, near, prior, rows), jnp.asarray(rows.y))


def potential(regime: Regime, z: Array, prior: PriorNumbers, rows: Rows) -> Array:
    """Minus the log posterior up to a constant, a scalar."""
    value = 0.5 * jnp.sum(z**2) - log_likelihood(regime, z, prior, rows)
    return jnp.where(jnp.isfinite(value), value, jnp.inf)  # what overflowed is rejected


def log_likelihoods(target: Target, z: np.ndarray) -> np.ndarray:
    """Log density of the logged rows at coordinates of shape (..., p), the marginalized parameters integrated out."""
    flat = np.reshape(z, (-1, z.shape[-1]))
    found = over_draws(_likelihood, (target.regime,), flat, *target.arguments)
    return found.reshape(z.shape[:-1])


def marginalized_draws(target: Target, z: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Marginalized parameter → draws given the rows and each draw of the others, shape (n,), for coordinates of (n, p).

    With prior mean m and covariance S of these parameters, the log likelihood is a quadratic in m of slope g and second
    derivative -A, and given the rows they are normal with mean m + S g and covariance S - S A S (Tweedie's formula).
    Differences of a quadratic are exact, so that the likelihood's own program is all that is needed.
    """
    prior = target.numbers
    centre = np.asarray(prior.marginalized_mean, float)
    sd = np.asarray(prior.marginalized_sd, float)
    size = len(centre)

    def at(*moved: tuple[int, float]) -> np.ndarray:
        mean = centre.copy()
        for i, step in moved:
            mean[i] += step * sd[i]
        return log_likelihoods(replace(target, numbers=prior._replace(marginalized_mean=mean)), z)

    here = at()
    up, down = (np.stack([at((i, step)) for i in range(size)], axis=-1) for step in (1.0, -1.0))
    slope = 0.5 * (up - down)  # per prior standard deviation
    curved = np.zeros((len(z), size, size))
    for i in range(size):
        curved[:, i, i] = up[:, i] + down[:, i] - 2.0 * here
        for j in range(i):
            both = at((i, 1.0), (j, 1.0))
            curved[:, i, j] = curved[:, j, i] = both - up[:, i] - up[:, j] + here
    # Rounding of large log likelihoods may leave a variance a little below 0.
    values, vectors = np.linalg.eigh(np.eye(size) + curved)
    noise = vectors @ (np.sqrt(np.maximum(values, 0.0))[..., None] * rng.standard_normal((len(z), size, 1)))
    drawn = centre + sd * (slope + noise[..., 0])
    return {p.name: drawn[:, i] for i, p in enumerate(target.regime.marginalized)}


def summarize_draws(target: Target, values: Mapping[str, np.ndarray], seed: int) -> tuple[np.ndarray, ...]:
    """Implications of sampled parameters, shape (chains, draws) each, on the rows.

    Marginalized parameters drawn given the rows, in the order of the regime's; the fields of
    `bayes_grpo.fitting.draws.SmoothedDraws` after the first; and the innovation of every row over its sd, given the
    rows before it. All with leading axes (chains, draws).
    """
    chains, draws = next(iter(values.values())).shape
    noise = np.random.default_rng(seed).standard_normal((chains * draws, state_size(target.regime, target.arrays)))
    each = noise, {p.name: np.ravel(values[p.name]) for p in target.regime.sampled}
    out = over_draws(_summary, (target.regime,), each, *target.arguments, rarely=True)
    return tuple(x.reshape(chains, draws, *x.shape[1:]) for x in out)


def state_size(regime: Regime, rows: Rows) -> int:
    """Number of components of a regime's state."""
    levels = {p.name: (0.0, 1.0) for p in regime.marginalized}
    with jax.enable_x64(True):
        values = {p.name: jax.ShapeDtypeStruct((), float) for p in regime.sampled}
        return len(jax.eval_shape(lambda v, r: regime.on_rows(v, levels, r).initial_mean, values, rows))


def _likelihood(regime: Regime, z: Array, prior: PriorNumbers, rows: Rows) -> Array:
    return log_likelihood(regime, z, prior, rows, kalman.sequential_log_likelihood)


def _summary(
    regime: Regime, draw: tuple[Array, dict[str, Array]], prior: PriorNumbers, rows: Rows
) -> tuple[Array, ...]:
    """Implications of a draw on the rows, given with the noise of its first state."""
    space = regime.on_rows(draw[1], prior_levels(regime, prior), rows)
    y = jnp.asarray(rows.y)
    filtered = kalman.filter_rows(space, y)
    smoothed = kalman.smooth(space, y, filtered)
    cov = tuple(tuple(row) for row in smoothed.initial_cov)
    state = jnp.stack(drawn_state(tuple(smoothed.initial_mean), cov, tuple(draw[0])))
    levels = regime.marginalized_values(state)
    return (
        jnp.asarray([levels[p.name] for p in regime.marginalized]),
        mean_path(space, state, rows.y.shape[0]),
        smoothed.latent_mean,
        smoothed.latent_var,
        smoothed.loo_log_density,
        smoothed.loo_mean,
        smoothed.loo_var,
        filtered.innovation / jnp.sqrt(filtered.innovation_var),
    )
