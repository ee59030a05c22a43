"""What one run says of its parameters, in a form that a model of many runs can weigh again and again.

The parameters in which a law is not linear are known by draws from a posterior under a prior that was chosen for
sampling and is divided out draw by draw (Hogg, Myers and Bovy 2010, https://doi.org/10.1088/0004-637X/725/2/2166). The
levels are linear in the rows, so that at every draw their likelihood is a normal curve: it is kept as such, and a model
integrates over them exactly, however narrow it expects them to be.

A draw stands for its neighbourhood: each is a small normal distribution, a third as wide as the run's posterior, about
a place that is drawn in so far that the whole keeps its covariance (West 1993,
https://doi.org/10.1111/j.2517-6161.1993.tb01911.x). What a run says is then smooth on the scale on which it says
anything; bare points would make a model that expects runs to be alike jump from point to point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np

from bayes_grpo.common.seeds import seed_of
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.fitting.sampling.batch import log_likelihoods
from bayes_grpo.fitting.sampling.importance import fast_posterior
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.sampling.target import Target, target_of
from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.prepared import prepare_rows
from bayes_grpo.rows.table import RowTable

LIKELIHOOD_NODES = 400
"""Draws of a run's parameters over which a model averages."""
BANDWIDTH = 0.35
"""Width of a node over that of the run's posterior."""
SAMPLER = SamplerSettings(chains=4, warmup=200, draws=250)
"""Settings of NUTS where a fast posterior cannot be trusted."""


@dataclass(frozen=True)
class Scale:
    """Origin and unit of levels in a family, reward: a level is ``origin + unit · t``."""

    origin: float
    unit: float


class RunLikelihood(NamedTuple):
    """What a run says: nodes u of the parameters that are not linear, and a quadratic in the levels t at each.

    The log likelihood of the rows at node d and standardised levels t is ``top + slope·t − ½ t·curve·t``.

    Attributes:
        u: Centres of the nodes in the coordinates in which priors are normal, shape (nodes, p).
        width: Covariance of every node, shape (p, p).
        spent: Log density that the nodes were drawn by, shape (nodes,), up to one constant.
        top: Shape (nodes,).
        slope: Shape (nodes, l).
        curve: Shape (nodes, l, l).
    """

    u: np.ndarray
    width: np.ndarray
    spent: np.ndarray
    top: np.ndarray
    slope: np.ndarray
    curve: np.ndarray


class Sampled(NamedTuple):
    """What a run says, and what its sampler said where the draws should not be used."""

    likelihood: RunLikelihood
    warning: str


def run_likelihood(
    regime: Regime,
    table: RowTable,
    scale: Scale,
    priors: Mapping[str, Prior] | None = None,
    nodes: int = LIKELIHOOD_NODES,
    seed: int = 0,
) -> Sampled:
    """What a run says.

    Args:
        regime: The law.
        table: Its rows.
        scale: Origin and unit of the levels.
        priors: Priors to draw the nodes under; the law's own for this log if None.
        nodes: Number of nodes.
        seed: Seed.

    Returns:
        Nodes and quadratics, and a warning that is empty where all went well.

    Raises:
        FitError: The law cannot be put on these rows.
    """
    found = fast_posterior(
        target_of(regime, prepare_rows(table, many=True), priors),
        seed=seed_of(seed, "nodes"),
        settings=ImportanceSettings(effective=2.0 * max(nodes, 1000), draws=nodes),
        sampler=SAMPLER,
    )
    z, prior = found.points[np.linspace(0, found.size - 1, nodes).astype(int)], found.target.numbers
    top, slope, curve = level_quadratic(found.target, z, scale)
    mean = (np.asarray(prior.linear_mean) - scale.origin) / scale.unit
    sd = np.asarray(prior.linear_sd) / scale.unit
    places, width, gained = kernels(z)
    stretch = np.asarray(prior.scale)
    u = np.asarray(prior.location) + stretch * places
    spent = levels_integrated(top, slope, curve, mean, sd) - gained
    likelihood = RunLikelihood(u, stretch[:, None] * width * stretch, spent, top, slope, curve)
    return Sampled(likelihood, "" if found.usable else found.note)


def kernels(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal kernels about draws of a posterior, with the standard normal prior divided out.

    Args:
        z: Draws in the coordinates in which the prior is standard normal, shape (n, p).

    Returns:
        Centres, shape (n, p), the covariance of all, shape (p, p), and the log weight that the division leaves to
        each, shape (n,).
    """
    centre, cov = z.mean(axis=0), np.atleast_2d(np.cov(z.T)) + 1e-8 * np.eye(z.shape[1])
    drawn_in = centre + np.sqrt(1.0 - BANDWIDTH**2) * (z - centre)
    own = np.linalg.inv(BANDWIDTH**2 * cov)
    width = np.linalg.inv(own - np.eye(len(own)))
    places = drawn_in @ own @ width
    left = np.einsum("np,pq,nq->n", places, np.linalg.inv(width), places)
    return places, width, 0.5 * (left - np.einsum("np,pq,nq->n", drawn_in, own, drawn_in))


def level_quadratic(target: Target, z: np.ndarray, scale: Scale) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log likelihood of the rows as a quadratic in the standardised levels.

    Differences of a quadratic are exact. They are taken about the rows' own mean, in their own scale, where rounding is
    least, and carried over to the family's.

    Args:
        target: Regime, rows and priors; those of the levels play no part.
        z: Draws in the sampler's coordinates, shape (n, p).
        scale: Origin and unit of the levels.

    Returns:
        ``top`` (n,), ``slope`` (n, l) and ``curve`` (n, l, l) as in `RunLikelihood`.
    """
    prior, table = target.numbers, target.rows.table
    size = len(target.regime.linear)
    unit = np.eye(size)

    def at(moved: np.ndarray) -> np.ndarray:
        known = prior._replace(linear_mean=table.centre + table.scale * moved, linear_sd=np.zeros(size))
        return log_likelihoods(replace(target, numbers=known), z)

    here = at(np.zeros(size))
    up, down = ([at(sign * unit[i]) for i in range(size)] for sign in (1.0, -1.0))
    slope = np.stack([0.5 * (up[i] - down[i]) for i in range(size)], axis=-1)
    curve = np.zeros((len(z), size, size))
    for i in range(size):
        curve[:, i, i] = 2.0 * here - up[i] - down[i]
        for j in range(i):
            curve[:, i, j] = curve[:, j, i] = up[i] + up[j] - here - at(unit[i] + unit[j])
    # own = shift + stretch · t
    shift, stretch = (scale.origin - table.centre) / table.scale, scale.unit / table.scale
    total = curve.sum(axis=2)
    top = here + shift * slope.sum(axis=1) - 0.5 * shift**2 * total.sum(axis=1)
    return top, stretch * (slope - shift * total), stretch**2 * curve


def levels_integrated(
    top: np.ndarray, slope: np.ndarray, curve: np.ndarray, mean: np.ndarray, sd: np.ndarray
) -> np.ndarray:
    """Log of the likelihood integrated over normal levels, up to a constant; shape of ``top``.

    Args:
        top: Shape (...).
        slope: Shape (..., l).
        curve: Shape (..., l, l).
        mean: Mean of the levels, shape (l,) or (..., l).
        sd: Their standard deviations, likewise.
    """
    here = top + np.einsum("...l,...l", slope, np.broadcast_to(mean, slope.shape))
    turned = np.einsum("...lm,...m->...l", curve, np.broadcast_to(mean, slope.shape))
    here = here - 0.5 * np.einsum("...l,...l", turned, np.broadcast_to(mean, slope.shape))
    push = (slope - turned) * sd
    inner = np.eye(slope.shape[-1]) + sd[..., :, None] * curve * sd[..., None, :]
    answer = np.linalg.solve(inner, push[..., None])[..., 0]
    return here + 0.5 * np.einsum("...l,...l", push, answer) - 0.5 * np.linalg.slogdet(inner)[1]


def informed(regime: Regime, mean: np.ndarray, sd: np.ndarray, scale: Scale) -> dict[str, Prior]:
    """Priors about what a family expects of a run, for nodes where the family needs them.

    Args:
        regime: The law.
        mean: Expected coordinates, then standardised levels, shape (p + l,).
        sd: Their widths, shape (p + l,).
        scale: Origin and unit of the levels.

    Returns:
        Prior of every parameter.
    """
    priors = {}
    with jax.enable_x64(True):
        for i, p in enumerate(regime.sampled):
            priors[p.name] = Prior(float(p.transform.forward(mean[i])), float(sd[i]))
    for j, p in enumerate(regime.linear, len(regime.sampled)):
        priors[p.name] = Prior(scale.origin + scale.unit * float(mean[j]), scale.unit * float(sd[j]))
    return priors
