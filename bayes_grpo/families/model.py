"""The hierarchical model of a family as a NumPyro model, and its chains.

A trait is a coordinate of a law's parameters, or a level in the family's unit. Trait q of run i of study s is

    trait[i, q] ~ N(mean[q] + x[i] · slopes[:, q] + offset[i, q] + effect[s, q], spread[q]²),

x the logarithms of the varied settings about their mean. Runs that share all settings are replicates: what sets them
apart is the spread, that of seeds. What a run says of its traits comes as `RunLikelihood`; the traits themselves are
integrated out, the levels exactly and the others by an average over the run's nodes, so that the chains move in the
family's numbers alone, and no funnel between a spread and the traits that it governs is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayes_grpo.families.evidence import RunLikelihood
from bayes_grpo.fitting.sampling.chains import sample_model
from bayes_grpo.fitting.sampling.convergence import Convergence, check_convergence

FLOOR = 0.02
"""Least spread between runs, e-folds or units of the levels: no two runs agree better."""
CHAINS, _WARMUP, _DRAWS = 4, 300, 600
_TARGET_ACCEPT, _RETRY_TARGET_ACCEPT = 0.92, 0.98
_BUCKET = 4
"""Runs are padded to a multiple of this, so that one run more or less compiles nothing."""


class FamilyPriors(NamedTuple):
    """Weak priors of a family.

    Attributes:
        centre: Of the means, shape (P,).
        width: Standard deviations of the means, shape (P,).
        slope: Standard deviations of the slopes, shape (k, P); 0 where a setting does not move a trait.
        spread: Scales of the half-normal spreads between runs, shape (P,).
        between: Scales of the half-normal spreads between studies, shape (P,).
    """

    centre: Any
    width: Any
    slope: Any
    spread: Any
    between: Any


class Runs(NamedTuple):
    """The runs of a family, a leading axis of n runs on every field.

    Attributes:
        u: Nodes, shape (n, nodes, p).
        width: Their covariances, shape (n, p, p).
        spent: Shape (n, nodes).
        top: Shape (n, nodes).
        slope: Shape (n, nodes, l).
        curve: Shape (n, nodes, l, l).
        x: Settings, shape (n, k).
        offset: What is known to move the traits besides, shape (n, P).
        study: Study of each run, shape (n,).
        present: 1 for a run, 0 for padding, shape (n,).
    """

    u: Any
    width: Any
    spent: Any
    top: Any
    slope: Any
    curve: Any
    x: Any
    offset: Any
    study: Any
    present: Any

    @classmethod
    def of(cls, likelihoods: Sequence[RunLikelihood], x: np.ndarray, offset: np.ndarray, study: np.ndarray) -> Runs:
        """Runs in their order, padded to the next bucket."""
        parts = [np.stack(part) for part in zip(*likelihoods, strict=True)]
        more = -len(x) % _BUCKET
        whole = (*parts, x, offset, np.asarray(study), np.ones(len(x)))
        # A run that is absent repeats the first one: its density is finite, and counts for nothing.
        padded = [np.concatenate([part, np.repeat(part[:1], more, axis=0)]) for part in whole]
        padded[-1][len(x) :] = 0.0
        return cls(*padded)


class FamilyDraws(NamedTuple):
    """Draws of a family's numbers, leading axes (chains, draws).

    Attributes:
        mean: Shape (..., P).
        slopes: Shape (..., k, P); 0 where a setting does not move a trait.
        spread: Shape (..., P).
        between: Shape (..., P); 0 with one study.
        effect: Shape (..., studies, P); 0 with one study.
    """

    mean: np.ndarray
    slopes: np.ndarray
    spread: np.ndarray
    between: np.ndarray
    effect: np.ndarray

    def flat(self) -> FamilyDraws:
        """The same with one leading axis of draws."""
        return FamilyDraws(*(np.reshape(part, (-1, *part.shape[2:])) for part in self))


def family_model(runs: Runs, priors: FamilyPriors, studies: int) -> None:
    """A family as a NumPyro model.

    Args:
        runs: The runs.
        priors: The priors.
        studies: Number of studies; one alone has no spread between.
    """
    import numpyro
    import numpyro.distributions as dist

    k, size = priors.slope.shape
    standard = dist.Normal(0.0, 1.0)
    mean = priors.centre + priors.width * numpyro.sample("mean_z", standard.expand([size]).to_event(1))
    slopes = priors.slope * numpyro.sample("slopes_z", standard.expand([k, size]).to_event(2))
    # A half normal as the size of a normal number: no end of a range is near, and no chain turns back there.
    spread = spread_of(priors, numpyro.sample("spread_z", standard.expand([size]).to_event(1)))
    expected = mean + runs.x @ slopes + runs.offset
    if studies > 1:
        # Not centred: the spread between a few studies may well be near zero.
        between = priors.between * numpyro.sample("between_z", standard.expand([size]).to_event(1))
        effect = between * numpyro.sample("effect_z", standard.expand([studies, size]).to_event(2))
        expected = expected + effect[runs.study]
    numpyro.factor("runs", jnp.sum(runs.present * log_likelihood(runs, expected, spread)))


def spread_of(priors: FamilyPriors, z: Any) -> Any:
    """Spreads between runs from standard normal numbers, (..., P): a half normal with the floor beneath."""
    return (FLOOR**2 + (priors.spread * z) ** 2) ** 0.5


def log_likelihood(runs: Runs, expected: Array, spread: Array) -> Array:
    """Log density of the rows of each run, up to a constant of its own, shape (n,).

    Args:
        runs: The runs.
        expected: Expected traits of each run, shape (n, P).
        spread: Spread of the traits between runs, shape (P,).
    """
    return jax.nn.logsumexp(log_weights(runs, expected, spread), axis=1)


def log_weights(runs: Runs, expected: Any, spread: Any) -> Array:
    """Log weight of each node of each run, shape (n, nodes)."""
    p = runs.u.shape[-1]
    distance, log_det = distances(runs.u - expected[:, None, :p], runs.width, spread[:p])
    level = integrated(runs, expected[:, None, p:], spread[p:])
    return level - 0.5 * distance - 0.5 * log_det[:, None] - runs.spent


def distances(away: Any, width: Any, spread: Any) -> tuple[Array, Array]:
    """Squared distances under the covariances ``width + spread²``, and log determinants of these.

    A Cholesky factor and its forward substitution, written out: the matrices are of two to five rows.

    Args:
        away: Shape (n, nodes, p).
        width: Shape (n, p, p).
        spread: Shape (p,).

    Returns:
        Shapes (n, nodes) and (n,).
    """
    p = away.shape[-1]
    root: list[list[Array]] = []
    solved: list[Array] = []
    for i in range(p):
        row: list[Array] = []
        for j in range(i):
            row.append((width[:, i, j] - sum(row[q] * root[j][q] for q in range(j))) / root[j][j])
        row.append(jnp.sqrt(width[:, i, i] + spread[i] ** 2 - sum(x**2 for x in row)))
        rest = away[..., i] - sum(row[q][:, None] * solved[q] for q in range(i))
        solved.append(rest / row[i][:, None])
        root.append(row)
    return sum(x**2 for x in solved), 2.0 * sum(jnp.log(root[i][i]) for i in range(p))  # pyright: ignore


def integrated(runs: Runs, mean: Array, sd: Array) -> Array:
    """The level part of `log_weights`: the likelihood over normal levels of one or two dimensions, in closed form."""
    size = runs.slope.shape[-1]
    g = [runs.slope[..., i] for i in range(size)]
    a = [[runs.curve[..., i, j] for j in range(size)] for i in range(size)]
    m = [mean[..., i] for i in range(size)]
    turned = [sum(a[i][j] * m[j] for j in range(size)) for i in range(size)]
    here = runs.top + sum((g[i] - 0.5 * turned[i]) * m[i] for i in range(size))
    push = [(g[i] - turned[i]) * sd[i] for i in range(size)]
    first = 1.0 + a[0][0] * sd[0] ** 2
    if size == 1:
        return here + 0.5 * push[0] ** 2 / first - 0.5 * jnp.log(first)
    second, cross = 1.0 + a[1][1] * sd[1] ** 2, a[0][1] * sd[0] * sd[1]
    det = first * second - cross**2
    quadratic = (second * push[0] ** 2 - 2.0 * cross * push[0] * push[1] + first * push[1] ** 2) / det
    return here + 0.5 * quadratic - 0.5 * jnp.log(det)


def sample_family(
    runs: Runs, priors: FamilyPriors, studies: int, seed: int, chains: int = CHAINS
) -> tuple[FamilyDraws, Convergence]:
    """Draws of a family by NUTS, once more and more carefully where the checks fail.

    Args:
        runs: The runs.
        priors: The priors.
        studies: Number of studies.
        seed: Seed.
        chains: Number of chains; with one there is no second time.

    Returns:
        The draws and their checks.
    """
    return sample_model(
        family_model,
        (studies,),
        (runs, priors),
        lambda sites, stats, retried: _checked((sites, stats), priors, studies, retried),
        seed=seed,
        chains=chains,
        warmup=_WARMUP,
        draws=_DRAWS,
        target_accept=(_TARGET_ACCEPT, _RETRY_TARGET_ACCEPT),
        max_tree_depth=8,
    )


def _checked(
    found: tuple[Any, Any], priors: FamilyPriors, studies: int, retried: bool
) -> tuple[FamilyDraws, Convergence]:
    sites, stats = found
    mean = priors.centre + priors.width * sites["mean_z"]
    none = np.zeros((*mean.shape[:2], studies, mean.shape[-1]))
    between = np.asarray(priors.between) * sites.get("between_z", np.zeros_like(mean))
    effect = between[..., None, :] * sites["effect_z"] if studies > 1 else none
    spread = spread_of(priors, sites["spread_z"])
    draws = FamilyDraws(mean, priors.slope * sites["slopes_z"], spread, np.abs(between), effect)
    size = mean.shape[-1]
    named = {
        f"{word} {q + 1}": x[..., q] for word, x in (("mean", mean), ("spread", draws.spread)) for q in range(size)
    }
    named |= {f"slope {q + 1} on setting {k + 1}": draws.slopes[..., k, q] for k, q in np.argwhere(priors.slope > 0)}
    if studies > 1:
        named |= {f"between {q + 1}": draws.between[..., q] for q in range(size)}
    return draws, check_convergence(named, stats["energy"], stats["diverging"], stats["num_steps"], retried)
