"""The population of `bayes_grpo.learning.population` as a NumPyro model, and its chains.

Of a log the model needs little: with τ = 1/spread² and e the expected parameters, a draw's squared distance from what
is expected, summed over the cuts with their weights w, is a sum of τ·(Σwx² - 2Σw·x·e + Σw·e²), and e is linear in the
centre of the repository and the slopes. So the sums over cuts are taken once, the number of cuts is no shape of the
program, and all laws with as many parameters share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.fitting.sampling.chains import sample_model
from bayes_grpo.fitting.sampling.convergence import Convergence, check_convergence

MEAN_SD, _SLOPE_SD, SPREAD_SCALE = 5.0, 0.5, 0.5
"""Weak priors of the population: sd of means and of slopes, scale of the half-Cauchy of the spreads."""
SPREAD_FLOOR = 0.05
"""Least spread within repositories: below it a log would be known by a single one of its draws."""
_CHAINS, _WARMUP, _DRAWS = 4, 300, 600
_TARGET_ACCEPT, _RETRY_TARGET_ACCEPT = 0.8, 0.95
BUCKET = 16
"""Logs are padded to a multiple of this, so that one log more or less compiles nothing."""


class LogSums(NamedTuple):
    """What the model knows of one log, see `PopulationLogs`; shapes without the leading axis."""

    sums: np.ndarray
    weak: np.ndarray
    covariates: np.ndarray
    products: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray, weak: np.ndarray, covariates: np.ndarray) -> LogSums:
        """Sums over the cuts of a log, each with the same share of its weight of one.

        Args:
            draws: Posterior draws at each cut, shape (cuts, draws, p).
            weak: Log density of the weak prior at each draw, shape (draws,).
            covariates: Covariates at each cut, shape (cuts, k).
        """
        weight = 1.0 / len(draws)
        crossed = np.einsum("ck,cdp->kpd", covariates, draws).reshape(-1, draws.shape[1])
        sums = np.concatenate([(draws**2).sum(axis=0).T, draws.sum(axis=0).T, crossed])
        return cls(weight * sums, weak, weight * covariates.sum(axis=0), weight * covariates.T @ covariates)


class PopulationLogs(NamedTuple):
    """What the model knows of the logs; sums run over cuts with weights that add up to one for a log.

    Attributes:
        sums: Σw·x², Σw·x and Σw·x·covariate of the parameters x of each draw, shape (logs, (2 + k)·p, draws).
        weak: Log density of the weak prior at each draw, shape (logs, draws).
        covariates: Σw·covariate, shape (logs, k).
        products: Σw·covariate·covariate, shape (logs, k, k).
        group: Repository of each log, shape (logs,).
        present: 1 for a log, 0 for padding, shape (logs,).
    """

    sums: Any
    weak: Any
    covariates: Any
    products: Any
    group: Any
    present: Any

    @classmethod
    def of(cls, parts: Sequence[LogSums], group: np.ndarray) -> PopulationLogs:
        """The logs in their order; the repository of each in ``group``."""
        sums, weak, covariates, products = (np.stack(x) for x in zip(*parts, strict=True))
        return cls(sums, weak, covariates, products, group, np.ones(len(parts)))

    def padded(self) -> PopulationLogs:
        """With absent logs up to the next bucket."""
        more = -len(self.present) % BUCKET
        return PopulationLogs(*(np.pad(x, [(0, more), *[(0, 0)] * (x.ndim - 1)]) for x in self))


class PopulationDraws(NamedTuple):
    """Draws of the population, leading axes (chains, draws).

    Attributes:
        mean: Shape (..., p).
        slopes: Shape (..., k, p); zero where not used.
        spread: Shape (..., p).
        between: Shape (..., p); zero with one repository.
    """

    mean: np.ndarray
    slopes: np.ndarray
    spread: np.ndarray
    between: np.ndarray


def population_model(logs: PopulationLogs, uses: Any, groups: int) -> None:
    """The population of logs as a NumPyro model.

    Args:
        logs: The logs.
        uses: 1 where a parameter depends on a covariate, shape (k, p).
        groups: Number of repositories; one alone has no spread between.
    """
    import numpyro
    import numpyro.distributions as dist

    k, p = uses.shape
    mean: Any = numpyro.sample("mean", dist.Normal(0.0, MEAN_SD).expand([p]).to_event(1))
    spread: Any = numpyro.sample(
        "spread", dist.TruncatedCauchy(0.0, SPREAD_SCALE, low=SPREAD_FLOOR).expand([p]).to_event(1)
    )
    slopes = uses * numpyro.sample("slopes", dist.Normal(0.0, _SLOPE_SD).expand([k, p]).to_event(2))
    centre = mean[None]
    if groups > 1:
        # Not centred: the spread between a dozen repositories may well be near zero.
        between = numpyro.sample("between", dist.HalfCauchy(SPREAD_SCALE).expand([p]).to_event(1))
        effect = numpyro.sample("effect", dist.Normal(0.0, 1.0).expand([groups, p]).to_event(2))
        centre = mean + between * effect
    numpyro.factor("logs", jnp.sum(logs.present * log_likelihood(logs, centre[logs.group], slopes, spread)))


def log_likelihood(logs: PopulationLogs, centre: Array, slopes: Array, spread: Array) -> Array:
    """Log density of each log, up to a constant of its own: averaged over its draws, their weak prior divided out.

    Args:
        logs: The logs.
        centre: Centre of each log's repository, shape (logs, p).
        slopes: Shape (k, p).
        spread: Shape (p,).

    Returns:
        Shape (logs,).
    """
    precision = spread**-2.0
    n, p = centre.shape
    sloped = jnp.broadcast_to((-2.0 * precision * slopes).ravel(), (n, slopes.size))
    factors = jnp.concatenate([jnp.broadcast_to(precision, (n, p)), -2.0 * precision * centre, sloped], axis=1)
    distance = jnp.einsum("lqd,lq->ld", logs.sums, factors)  # the part that differs between draws
    moving = logs.covariates @ slopes
    expected = centre**2 + 2.0 * centre * moving + jnp.einsum("lij,ip,jp->lp", logs.products, slopes, slopes)
    score = jax.nn.logsumexp(-0.5 * distance - logs.weak, axis=1)
    return score - 0.5 * expected @ precision - jnp.log(spread).sum()


def sample_population(
    logs: PopulationLogs, uses: np.ndarray, groups: int, seed: int
) -> tuple[PopulationDraws, Convergence]:
    """Draws of a population by NUTS, once more and more carefully where the checks fail.

    Args:
        logs: The logs, NumPy arrays.
        uses: Whether a parameter depends on a covariate, shape (k, p).
        groups: Number of repositories.
        seed: Seed.

    Returns:
        The draws and their checks.
    """
    return sample_model(
        population_model,
        (groups,),
        (logs.padded(), uses.astype(float)),
        lambda sites, stats, retried: _checked((sites, stats), uses, retried),
        seed=seed,
        chains=_CHAINS,
        warmup=_WARMUP,
        draws=_DRAWS,
        target_accept=(_TARGET_ACCEPT, _RETRY_TARGET_ACCEPT),
    )


def _checked(
    found: tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]], uses: np.ndarray, retried: bool
) -> tuple[PopulationDraws, Convergence]:
    sites, stats = found
    draws = PopulationDraws(
        mean=sites["mean"],
        slopes=uses * sites["slopes"],
        spread=sites["spread"],
        between=sites.get("between", np.zeros_like(sites["mean"])),
    )
    sampled = [k for k in ("mean", "spread", "between") if k in sites]
    named = {f"{k} {i + 1}": sites[k][..., i] for k in sampled for i in range(uses.shape[1])}
    named |= {f"slope {i + 1} on covariate {k + 1}": draws.slopes[..., k, i] for k, i in np.argwhere(uses)}
    return draws, check_convergence(named, stats["energy"], stats["diverging"], stats["num_steps"], retried)
