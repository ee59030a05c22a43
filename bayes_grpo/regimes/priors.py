"""Default priors of a regime for a log, with the user's in their place, by medians and spreads or by a distribution.

The sampler moves in coordinates z that are standard normal a priori. A NumPyro distribution becomes the table
u(z) = F⁻¹(Φ(z)), F its distribution function in the coordinate u in which the parameter's transform takes it to values.
Between the points of the table a monotone cubic interpolates (Fritsch and Carlson 1980,
https://doi.org/10.1137/0717021), beyond them a straight line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.common.errors import PriorError
from bayes_grpo.regimes.base import REAL, Parameter, Prior, Regime
from bayes_grpo.rows.series import Series

_LARGEST, STEP = 6.0, 0.125
GRID = np.arange(-_LARGEST, _LARGEST + STEP / 2, STEP)
"""Standard normal numbers at which quantiles are kept, shape (97,)."""
_POINTS = 40001
_REACH = 8.0  # of sinh, in robust spreads: the tails of a Cauchy too
_LEAST_MASS = 0.999


def tabulated(parameter: Parameter, distribution: Any) -> Prior:
    """The prior that a NumPyro distribution over a parameter's values is: of a linear one its mean and sd.

    Raises:
        PriorError: The distribution is not continuous and univariate, lies outside of the parameter's values, or is not
            normal where the parameter is integrated out.
    """
    where = f"prior for {parameter.name!r}"
    name = type(distribution).__name__
    if parameter.marginalized:
        if name != "Normal" or np.ndim(distribution.loc) or np.ndim(distribution.scale):
            raise PriorError(
                f"{where}: expected a Normal with one mean and sd, because the rows are linear in {parameter.name} and "
                f"it is integrated out exactly; found {name}"
            )
        return Prior(float(distribution.loc), float(distribution.scale))
    if distribution.is_discrete or distribution.batch_shape or distribution.event_shape:
        raise PriorError(f"{where}: expected a continuous distribution of one number, found {name}")
    u, log_density = _in_coordinate(parameter, distribution)
    density = np.where(np.isfinite(log_density), np.exp(np.minimum(log_density, 700.0)), 0.0)
    piece = 0.5 * (density[1:] + density[:-1]) * np.diff(u)
    below = np.cumsum(piece)
    above = np.cumsum(piece[::-1])[::-1]
    total = float(below[-1])
    if not total >= _LEAST_MASS:
        raise PriorError(
            f"{where}: {parameter.name} {_domain(parameter)}, but {name} puts {1.0 - total:.1%} of its probability "
            "elsewhere; truncate it or take another"
        )
    z = _normal_scores(below / total, above / total)
    kept = np.isfinite(z)
    kept[kept] = np.concatenate([[True], np.diff(z[kept]) > 0])
    quantiles = np.interp(GRID, z[kept], u[1:-1][kept])
    spread = float(quantiles[_at(1.0)] - quantiles[_at(-1.0)]) / 2.0
    with jax.enable_x64(True):
        median = float(parameter.transform.forward(quantiles[_at(0.0)]))
    return Prior(median, spread, tuple(quantiles.tolist()), name)


def point(parameter: Parameter, value: float) -> Prior:
    """The prior that fixes a parameter at a value; in its coordinate all quantiles are equal."""
    u = _inverse(parameter, value) if math.isfinite(value) else None
    if u is None:
        values = {"is positive": "above 0", "lies between 0 and 1": "between 0 and 1"}.get(_domain(parameter), "finite")
        raise PriorError(
            f"prior for {parameter.name!r}: expected a number {values} to fix {parameter.name} at, found {value!r}"
        )
    # The filter takes a marginalized parameter with an sd of 0 as known.
    return Prior(value, 0.0, None if parameter.marginalized else (u,) * len(GRID), "Delta")


def interpolated_coordinates(quantiles: Array, slopes: Array, z: Array) -> Array:
    """The coordinate u at standard normal numbers z, shape (..., p), from u and du/dz at `GRID`, shape (p, 97)."""
    inside = jnp.clip(z, -_LARGEST, _LARGEST)
    place = (inside + _LARGEST) / STEP
    left = jnp.clip(jnp.floor(place).astype(int), 0, len(GRID) - 2)
    t = place - left
    which = jnp.arange(quantiles.shape[0])
    a, b, da, db = (x[which, left + k] for x in (quantiles, slopes) for k in (0, 1))
    da, db = STEP * da, STEP * db
    # Hermite's cubic on the interval; both ends and both slopes as in the table.
    cubic = a + t * (da + t * (3.0 * (b - a) - 2.0 * da - db + t * (2.0 * (a - b) + da + db)))
    end = jnp.where(z > 0, slopes[:, -1], slopes[:, 0])
    return cubic + end * (z - inside)


def slopes_of(quantiles: np.ndarray) -> np.ndarray:
    """Slopes of the monotone cubic through a table, shape of ``quantiles``, (p, 97)."""
    from scipy.interpolate import PchipInterpolator

    return np.stack([PchipInterpolator(GRID, q).derivative()(GRID) for q in quantiles])


def _in_coordinate(parameter: Parameter, distribution: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points of the coordinate and the log density of the distribution there."""
    forward = parameter.transform.forward
    with jax.enable_x64(True):
        draws = np.asarray(distribution.sample(jax.random.key(0), (4001,)), float)
        inverse = [_inverse(parameter, float(x)) for x in draws]
        seen = np.array([x for x in inverse if x is not None])
        if len(seen) < 0.5 * len(draws):
            raise PriorError(
                f"prior for {parameter.name!r}: {parameter.name} {_domain(parameter)}, but most of "
                f"{type(distribution).__name__} does not; take another"
            )
        low, middle, high = np.quantile(seen, [0.25, 0.5, 0.75])
        scale = max(high - low, 1e-9 * max(1.0, abs(middle)))
        u = middle + scale * np.sinh(np.linspace(-_REACH, _REACH, _POINTS)) / 2.0
        value, slope = jax.vmap(jax.value_and_grad(lambda x: jnp.asarray(forward(x), float)))(jnp.asarray(u))
        inside = distribution.support(value) & jnp.isfinite(value) & (slope > 0)
        safe = jnp.where(inside, value, jnp.asarray(float(np.median(draws))))
        log_density = distribution.log_prob(safe) + jnp.log(jnp.where(inside, slope, 1.0))
        return u, np.asarray(jnp.where(inside, log_density, -jnp.inf))


def _inverse(parameter: Parameter, value: float) -> float | None:
    try:
        return parameter.transform.inverse(value)
    except (ValueError, ZeroDivisionError):
        return None


def _normal_scores(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Standard normal numbers with the same tail probabilities, each tail from its own side."""
    from scipy.special import ndtri

    # Between the points: `below` counts all pieces up to and with this one, `above` those from the next one on.
    low, high = below[:-1], above[1:]
    with np.errstate(divide="ignore"):
        return np.where(low < 0.5, ndtri(low), -ndtri(high))


def _at(z: float) -> int:
    return int(np.argmin(np.abs(GRID - z)))


def _domain(parameter: Parameter) -> str:
    if parameter.transform.positive:
        return "is positive"
    return "is a number" if parameter.transform is REAL else "lies between 0 and 1"


def resolve_priors(regime: Regime, table: Series, overrides: Mapping[str, Any] | None = None) -> dict[str, Prior]:
    """Default priors of a regime for a log, in the order of its parameters, with the user's in their place.

    An override is a `Prior`, a pair (median, spread), a mapping with these keys, or a NumPyro distribution over the
    parameter's values; a number or ``Delta`` fixes the parameter.

    Raises:
        PriorError: An override names no parameter of the regime or has impossible numbers.
    """
    known = {p.name: p for p in (*regime.sampled, *regime.marginalized)}
    priors = {p.name: p.default(table) for p in regime.parameters}
    for name, given in (overrides or {}).items():
        if name not in known:
            raise PriorError(
                f"prior for {name!r}: regime {regime.name!r} has no such parameter; it has {', '.join(known)}"
            )
        priors[name] = _checked(known[name], given)
    return priors


def is_distribution(given: Any) -> bool:
    """True for a NumPyro distribution; without importing NumPyro."""
    return all(hasattr(given, name) for name in ("log_prob", "sample", "support", "batch_shape"))


def point_value(given: Any) -> float | None:
    """The value of a point prior: a number, NumPyro's ``Delta`` of one, or a `Prior` with a spread of 0."""
    if isinstance(given, Prior):
        return given.median if given.fixed else None
    if is_distribution(given):
        return float(given.v) if type(given).__name__ == "Delta" and np.ndim(given.v) == 0 else None
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    return float(given) if number else None


def _checked(parameter: Parameter, given: Any) -> Prior:
    where = f"prior for {parameter.name!r}"
    fixed = point_value(given)
    if fixed is not None:
        return point(parameter, fixed)
    if is_distribution(given):
        return tabulated(parameter, given)
    if isinstance(given, Prior) and given.quantiles is not None:
        return given
    try:
        if isinstance(given, Prior):
            median, spread = given.median, given.spread
        elif isinstance(given, Mapping):
            median, spread = given["median"], given["spread"]
        else:
            median, spread = given
        prior = Prior(float(median), float(spread))
    except (KeyError, TypeError, ValueError) as error:
        raise PriorError(
            f"{where}: expected a median and a spread (two numbers), or one number that fixes it, found {given!r}"
        ) from error
    if not (math.isfinite(prior.median) and math.isfinite(prior.spread) and prior.spread > 0):
        raise PriorError(
            f"{where}: expected a finite median and a spread above 0, found {given!r}; one number alone fixes it"
        )
    if _inverse(parameter, prior.median) is None:
        raise PriorError(f"{where}: {parameter.name} {_domain(parameter)}, found the median of {given!r}")
    return prior
