"""Learns from labelled runs how far above a run that worked its siblings begin to fail (`bayes_grpo.risk.border`).

Every run that worked is looked at as the one that somebody has; the other runs of its family (one repository, task and
model) are what became of other settings. They share that run's border, which is integrated out. A family counts once,
however many of its runs worked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayes_grpo.risk.border import BORDER_NODES, borders, chance, width_of
from bayes_grpo.risk.change import Change

WEIGHTS: dict[str, tuple[float, float]] = {
    "refresh_interval": (0.3, 0.3),
    "epochs": (0.5, 0.5),
    "group_size": (0.3, 0.3),
    "prompts_per_step": (0.3, 0.3),
    "kl_weight": (0.2, 0.2),
    "clip_range": (0.2, 0.2),
    "full": (1.6, 0.8),
    "undecayed": (0.4, 0.4),
    "unguarded": (1.5, 1.0),
}
"""Setting → centre and sd of the prior of its weight, cut at 0, in e-folds of the learning rate towards failing. An
update late by K steps is stable up to a rate in proportion to 1/K where its lag is felt in full (weight 1 of interval
and epochs together), and nearly as without where ratios correct for it. Noise that limits the rate falls
with the square root of the completions at most (weight 1/2). LoRA bears several times the rate of full weights."""
UNSCALED_SD = 0.5
"""Prior sd of the weight of advantages that are not divided by the group's standard deviation, centred on 0."""
_CHAINS, WARMUP, _DRAWS = 4, 400, 400
KEPT = 200
"""Draws of the posterior that are shipped."""


class Pairs(NamedTuple):
    """What became of siblings of runs that worked; equal ones are counted together.

    Attributes:
        change: What changed, fields of `Change`, shape (pairs, settings).
        failed: How many siblings of this change failed, shape (pairs,).
        held: How many did not, shape (pairs,).
        worked: Number of the run that worked, shape (pairs,).
        share: Weight of each run that worked, shape (runs,): they add up to 1 over a family.
    """

    change: np.ndarray
    failed: np.ndarray
    held: np.ndarray
    worked: np.ndarray
    share: np.ndarray


def pairs_of(families: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]]) -> Pairs:
    """Pairs of all families.

    Args:
        families: For every family and every run of it that worked, the changes to its siblings, shape (siblings,
            settings), and whether these failed, shape (siblings,).
    """
    rows: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    share: list[float] = []
    for family in families:
        views: dict[bytes, list[Any]] = {}
        for changes, outcome in family:
            each, place = np.unique(np.round(changes, 6), axis=0, return_inverse=True)
            counts = [np.bincount(place.ravel(), weights=w, minlength=len(each)) for w in (outcome, 1.0 - outcome)]
            key = np.column_stack([each, *counts]).tobytes()
            views.setdefault(key, [0, each, *counts])[0] += 1
        for count, each, failed, held in views.values():
            rows.append((each, failed, held, np.full(len(each), len(share))))
            share.append(count / len(family))
    change, failed, held, worked = (np.concatenate(x) for x in zip(*rows, strict=True))
    return Pairs(change, failed, held, worked, np.array(share))


def failing_model(pairs: Pairs) -> None:
    """The NumPyro model.

    Args:
        pairs: What happened.
    """
    centre = numpyro.sample("centre", dist.Normal(np.log(1.5), 0.5))
    spread = numpyro.sample("spread", dist.HalfNormal(0.6))
    sharpness = numpyro.sample("sharpness", dist.LogNormal(np.log(0.25), 0.5))
    looseness = numpyro.sample("looseness", dist.HalfNormal(0.5))
    base = numpyro.sample("base", dist.Beta(1.0, 30.0))
    weights = {name: numpyro.sample(name, dist.TruncatedNormal(*prior, low=0.0)) for name, prior in WEIGHTS.items()}
    weights["unscaled"] = numpyro.sample("unscaled", dist.Normal(0.0, UNSCALED_SD))
    drawn = weights | {"centre": centre, "spread": spread, "sharpness": sharpness, "looseness": looseness, "base": base}
    numpyro.factor("siblings", (pairs.share * log_density(drawn, pairs)).sum())


def log_density(parameters: Mapping[str, Any], pairs: Pairs) -> Any:
    """Log density of what became of the siblings of every run that worked, its border integrated out, shape (runs,).

    Args:
        parameters: One value of every parameter.
        pairs: What happened.
    """
    one = dict(parameters) | {"learning_rate": 1.0}
    effects = pairs.change * jnp.stack([one[name] * sign for name, sign in zip(Change._fields, _SIGNS, strict=True)])
    p = chance(
        borders(jnp.asarray(one["centre"]), jnp.asarray(one["spread"]), jnp),
        effects.sum(-1)[:, None],
        width_of(effects, one["sharpness"], one["looseness"], jnp)[:, None],
        one["base"],
        jnp,
    )
    told = pairs.failed[:, None] * jnp.log(p) + pairs.held[:, None] * jnp.log1p(-p)
    each = jax.ops.segment_sum(told, pairs.worked, num_segments=len(pairs.share))
    return jax.nn.logsumexp(each, axis=-1) - np.log(len(BORDER_NODES))


_SIGNS = tuple(-1.0 if name in ("group_size", "prompts_per_step", "kl_weight") else 1.0 for name in Change._fields)


def sample_failing(pairs: Pairs, seed: int = 0, chains: int = _CHAINS, draws: int = _DRAWS) -> dict[str, np.ndarray]:
    """Draws of the model's parameters, shape (chains, draws) each.

    Args:
        pairs: What happened.
        seed: Seed.
        chains: Chains, one after another.
        draws: Draws of each.
    """
    kernel = numpyro.infer.NUTS(failing_model, target_accept_prob=0.9, dense_mass=True)
    sampler: Any = numpyro.infer.MCMC(
        kernel, num_warmup=WARMUP, num_samples=draws, num_chains=chains, chain_method="sequential", progress_bar=False
    )
    with jax.enable_x64(True):
        sampler.run(jax.random.PRNGKey(seed), pairs)
        return {name: np.asarray(x) for name, x in sampler.get_samples(group_by_chain=True).items()}
