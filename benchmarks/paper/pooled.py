"""One exponent over all runs that say something of it: the hierarchical model, by NUTS and by an exact grid.

What run i of family f and author a says of a number comes as a normal likelihood (`benchmarks.paper.fits.said`):

    value[i] ~ N(level[cell] + (exponent + of_author[a] + of_family[f]) · x[i], error[i]² + spread²)

x is the logarithm of the setting. The levels of cells are as good as free, so that only runs that differ in the setting
alone are compared. All but the three scales is linear and normal and is integrated out: what NUTS moves in is the
exponent and the scales, and on a grid of scales of equal prior probability the exponent is a mixture of normal curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.fitting.sampling.nuts import Chain, Convergence, SamplerSettings, check_convergence, sample_model
from benchmarks.paper import LEAST

_FREE = 30.0
"""Prior standard deviation of the levels of cells, in that of the exponent."""
_GRID = 10
_PADDED = 48
SCALES = ("of_author", "of_family", "spread")


class PooledPriors(NamedTuple):
    """Scales of the priors: a normal one of the exponent, half-normal ones of what varies.

    Attributes:
        exponent: Standard deviation of the exponent.
        author: Scale of what authors differ by in the exponent.
        family: Scale of what families of an author differ by in it.
        spread: Scale of what runs of the same settings differ by.
    """

    exponent: float
    author: float
    family: float
    spread: float

    def times(self, factor: float) -> PooledPriors:
        """The same, all of them wider."""
        return PooledPriors(*(factor * x for x in self))


OF_LOGARITHMS = PooledPriors(1.0, 0.3, 0.3, 0.5)
OF_LEVELS = PooledPriors(0.5, 0.15, 0.15, 0.25)
"""Of levels over their own size."""


class Evidence(NamedTuple):
    """What runs say of a number.

    Attributes:
        value: Shape (n,).
        error: Standard deviations, shape (n,).
        x: Logarithm of the setting, shape (n,).
        cell: Runs that differ in the setting alone share one, shape (n,); −1 where there is no level to take out.
        family: Shape (n,).
        author: Shape (n,).
    """

    value: np.ndarray
    error: np.ndarray
    x: np.ndarray
    cell: np.ndarray
    family: np.ndarray
    author: np.ndarray

    def without(self, author: Any) -> Evidence:
        """The runs of all other authors."""
        return self.where(self.author != author)

    def where(self, kept: np.ndarray) -> Evidence:
        """Some of the runs."""
        return Evidence(*(part[kept] for part in self))


class Links(NamedTuple):
    """Which runs share what, shape (n, n) each; that of authors and families times the settings of both."""

    cell: np.ndarray
    author: np.ndarray
    family: np.ndarray


def links_of(e: Evidence) -> Links:
    """Covariances of the three sources for scales of one."""
    both = np.outer(e.x, e.x)
    alike = [(part[:, None] == part[None, :]).astype(float) for part in (e.cell, e.author, e.family)]
    return Links(alike[0] * (e.cell >= 0)[:, None], alike[1] * both, alike[2] * both)


class Mixture(NamedTuple):
    """A posterior of the exponent as a mixture of normal curves.

    Attributes:
        weight: Shape (k,).
        mean: Shape (k,).
        sd: Shape (k,).
    """

    weight: np.ndarray
    mean: np.ndarray
    sd: np.ndarray

    def below(self, value: float) -> float:
        """Probability that the exponent is below a value."""
        return float(self.weight @ ndtr((value - self.mean) / self.sd))

    def quantile(self, p: float) -> float:
        """Value below which it lies with probability p."""
        low, high = (f(self.mean + s * 8.0 * self.sd) for f, s in ((np.min, -1.0), (np.max, 1.0)))
        return float(brentq(lambda v: self.below(v) - p, low, high))  # pyright: ignore[reportArgumentType]

    def told(self) -> dict[str, float]:
        """Median, 90% interval, P(|exponent| < 0.1), P(exponent > 0), standard deviation."""
        tail = 0.5 * (1.0 - LEVEL)
        mean = float(self.weight @ self.mean)
        return {
            "low": self.quantile(tail),
            "median": self.quantile(0.5),
            "high": self.quantile(1.0 - tail),
            "p_none": self.below(LEAST) - self.below(-LEAST),
            "p_positive": 1.0 - self.below(0.0),
            "sd": float(np.sqrt(self.weight @ (self.sd**2 + (self.mean - mean) ** 2))),
        }


def by_grid(e: Evidence, priors: PooledPriors, grid: int = _GRID) -> Mixture:
    """The exponent's posterior on a grid of the three scales, each point of the same prior probability."""
    return grids([e.value], e, priors, grid)[0]


def grids(values: Sequence[np.ndarray], e: Evidence, priors: PooledPriors, grid: int = _GRID) -> list[Mixture]:
    """The same for several sets of values of the same runs.

    Args:
        values: Values of the runs, shape (n,) each; or (copies, n), of as many other authors with such runs.
        e: Errors, settings and what runs share.
        priors: The priors.
        grid: Points of each scale.
    """
    half = ndtri(0.5 + 0.5 * (np.arange(grid) + 0.5) / grid)
    author, family, spread = (
        x.ravel()[:, None, None]
        for x in np.meshgrid(priors.author * half, priors.family * half, priors.spread * half, indexing="ij")
    )
    links, n = links_of(e), len(e.x)
    cov = (_FREE * priors.exponent) ** 2 * links.cell + author**2 * links.author + family**2 * links.family
    cov = cov + np.eye(n) * (e.error**2 + spread**2)
    inverse, log_det = np.linalg.inv(cov), np.linalg.slogdet(cov)[1]
    pull = inverse @ e.x
    told = pull @ e.x
    out = []
    for y in map(np.atleast_2d, values):
        # Copies share no author, family or cell: what they say of the exponent adds up at every grid point.
        precision = len(y) * told + priors.exponent**-2.0
        push = (pull @ y.T).sum(axis=1)
        score = 0.5 * push**2 / precision - 0.5 * np.log(precision) - 0.5 * len(y) * log_det
        score -= 0.5 * np.einsum("ci,kij,cj->k", y, inverse, y, optimize=True)
        weight = np.exp(score - score.max())
        out.append(Mixture(weight / weight.sum(), push / precision, precision**-0.5))
    return out


def pooled_model(y: Any, variance: Any, x: Any, links: Any, present: Any, priors: Any) -> None:
    """The same as a NumPyro model: exponent and scales as sites, all else integrated out."""
    import numpyro
    import numpyro.distributions as dist

    exponent = priors.exponent * numpyro.sample("exponent_z", dist.Normal(0.0, 1.0))
    author, family, spread = (
        scale * numpyro.sample(f"{name}_z", dist.Normal(0.0, 1.0))
        for name, scale in zip(SCALES, (priors.author, priors.family, priors.spread), strict=True)
    )
    cov = (_FREE * priors.exponent) ** 2 * links.cell + author**2 * links.author + family**2 * links.family
    cov = cov + jnp.diag(jnp.where(present > 0, variance + spread**2, 1.0))
    numpyro.sample("values", dist.MultivariateNormal(exponent * x, covariance_matrix=cov), obs=y)


def by_chains(e: Evidence, priors: PooledPriors, seed: int = 0) -> tuple[dict[str, np.ndarray], Convergence]:
    """Draws of exponent and scales by NUTS, each of shape (chains, draws), and the checks of the chains.

    Runs are padded to one size, so that all questions share a compiled program.
    """
    n, more = len(e.x), max(_PADDED - len(e.x), 0)
    links = Links(*(np.pad(part, (0, more)) for part in links_of(e)))
    given = (np.pad(e.value, (0, more)), np.pad(e.error**2, (0, more)), np.pad(e.x, (0, more)), links)
    present = np.pad(np.ones(n), (0, more))

    def checked(chain: Chain, retried: bool) -> tuple[dict[str, np.ndarray], Convergence]:
        scale = dict(zip(("exponent", *SCALES), priors, strict=True))
        draws = {k: s * np.asarray(chain.z[f"{k}_z"]) for k, s in scale.items()}
        draws = {k: v if k == "exponent" else np.abs(v) for k, v in draws.items()}
        return draws, check_convergence(draws, np.asarray(chain.energy), np.asarray(chain.diverging), retried)

    return sample_model(
        pooled_model,
        (*given, present, PooledPriors(*map(np.float64, priors))),
        checked,
        seed=seed,
        settings=SamplerSettings(num_warmup=500, retry_target_accept=0.98),
    )
