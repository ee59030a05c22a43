"""Learns from labelled runs how far above a run that worked its siblings begin to fail (`bayes_grpo.risk.threshold`).

Every run that worked is looked at as the one that somebody has; the other runs of its family (one repository, task and
model) are what became of other settings. They share that run's border, which is integrated out. A family counts once,
however many of its runs worked.

The laboratory has thousands of pairs of one kind of run, and there the border's distribution over runs, which one
number describes, shows its misfit: under shared borders a few families pulled those of all the others down, and
failures were told nearly twice as often as they came. There each pair counts by itself, as it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayes_grpo.risk.threshold import Change, failure_probability, prior_weight, thresholds_at, width_of

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
_CHAINS, WARMUP, _DRAWS = 2, 400, 300
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
        rate: Logarithm of its learning rate, shape (runs,); NaN where it has no scale that others share.
        full: Whether all weights are trained, shape (runs,): 1 or 0.
    """

    change: np.ndarray
    failed: np.ndarray
    held: np.ndarray
    worked: np.ndarray
    share: np.ndarray
    rate: np.ndarray
    full: np.ndarray


class View(NamedTuple):
    """What a run that worked sees.

    Attributes:
        changes: To its siblings, shape (siblings, settings).
        failed: Whether these failed, shape (siblings,).
        rate: Logarithm of its learning rate; NaN where it has no scale that others share.
        full: Whether all its weights are trained: 1 or 0.
    """

    changes: np.ndarray
    failed: np.ndarray
    rate: float = np.nan
    full: float = 1.0


def pairs_of(families: Sequence[Sequence[View]]) -> Pairs:
    """Pairs of all families.

    Args:
        families: Views of every run that worked of every family.
    """
    rows: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    runs: list[tuple[float, float, float]] = []
    for family in families:
        views: dict[Any, list[Any]] = {}
        for changes, outcome, rate, full in family:
            each, place = np.unique(np.round(changes, 6), axis=0, return_inverse=True)
            counts = [np.bincount(place.ravel(), weights=w, minlength=len(each)) for w in (outcome, 1.0 - outcome)]
            key = np.column_stack([each, *counts]).tobytes(), str(rate), full
            views.setdefault(key, [0, each, *counts, rate, full])[0] += 1
        for count, each, failed, held, rate, full in views.values():
            rows.append((each, failed, held, np.full(len(each), len(runs))))
            runs.append((count / len(family), rate, full))
    change, failed, held, worked = (np.concatenate(x) for x in zip(*rows, strict=True))
    return Pairs(change, failed, held, worked, *np.array(runs).T)


SCALE = (math.log(1e-5), 2.0)
"""Prior of log η*, the learning rate of Adam at which a language model's runs with all weights begin to fail: anything
between 4e-7 and 3e-4."""
SCATTER = (math.log(1.0), 0.5)
"""Prior of log σ, by which such borders lie apart, e-folds: about a factor of three either way."""
LAB_SCALE = (math.log(1e-2), 2.0)
"""Likewise in the laboratory, whose networks are of one kind and have a scale of their own."""
DISCREPANCY_SD = 0.5
"""Prior scale of how far the laboratory's parameters lie from the public runs', each on its scale."""
_LOGARITHMIC = ("spread", "sharpness", "looseness", "base", *WEIGHTS)
MOVED = ("centre", "unscaled", *_LOGARITHMIC)
"""Parameters of which the laboratory has its own."""


def failing_model(pairs: Pairs, lab: Pairs | None = None) -> None:
    """The NumPyro model.

    The laboratory has parameters of its own, each some way from the public runs' (the centre as it is, the others by
    their logarithms), all by one spread that is learned: how far a small network may be trusted is no assumption. Its
    learning rates have a scale of their own.

    Args:
        pairs: What happened in public.
        lab: What happened in the laboratory; None to leave it out.
    """
    centre = numpyro.sample("centre", dist.Normal(np.log(1.5), 0.5))
    spread = numpyro.sample("spread", dist.HalfNormal(0.6))
    sharpness = numpyro.sample("sharpness", dist.LogNormal(np.log(0.25), 0.5))
    looseness = numpyro.sample("looseness", dist.HalfNormal(0.5))
    base = numpyro.sample("base", dist.Beta(1.0, 30.0))
    weights = {name: numpyro.sample(name, dist.TruncatedNormal(*prior, low=0.0)) for name, prior in WEIGHTS.items()}
    weights["unscaled"] = numpyro.sample("unscaled", dist.Normal(0.0, UNSCALED_SD))
    drawn = weights | {"centre": centre, "spread": spread, "sharpness": sharpness, "looseness": looseness, "base": base}
    drawn["scale"] = numpyro.sample("scale", dist.Normal(*SCALE))
    drawn["scatter"] = numpyro.sample("scatter", dist.LogNormal(*SCATTER))
    total = (pairs.share * log_density(drawn, pairs)).sum()
    if lab is not None:
        apart = numpyro.sample("apart", dist.HalfNormal(DISCREPANCY_SD))
        away = apart * numpyro.sample("away", dist.Normal().expand([len(MOVED)]).to_event(1))
        own = {
            "scale": numpyro.sample("lab_scale", dist.Normal(*LAB_SCALE)),
            "scatter": numpyro.sample("lab_scatter", dist.LogNormal(*SCATTER)),
        }
        total = total + composite_log_likelihood(moved(drawn, away) | own, lab)
    numpyro.factor("siblings", total)


def moved(parameters: Mapping[str, Any], away: Any) -> dict[str, Any]:
    """The laboratory's parameters: the public runs', and how far away each of `MOVED` lies, shape (…, moved)."""
    out = dict(parameters)
    for i, name in enumerate(MOVED):
        by = away[..., i]
        out[name] = out[name] * jnp.exp(by) if name in _LOGARITHMIC else out[name] + by
    return out


def log_density(parameters: Mapping[str, Any], pairs: Pairs) -> Any:
    """Log density of what became of the siblings of every run that worked, its border integrated out, shape (runs,).

    Args:
        parameters: One value of every parameter.
        pairs: What happened.
    """
    p, weight = _at_borders(parameters, pairs)
    told = pairs.failed[:, None] * jnp.log(p) + pairs.held[:, None] * jnp.log1p(-p)
    each = jax.ops.segment_sum(told, pairs.worked, num_segments=len(pairs.share))
    return jax.nn.logsumexp(each, axis=-1, b=weight) - jnp.log(weight.sum(axis=-1))


def composite_log_likelihood(parameters: Mapping[str, Any], pairs: Pairs) -> Any:
    """Log likelihood of every pair by itself, its border integrated out.

    All pairs weigh the same, and together as `EFFECTIVE_PAIRS` a family that know nothing of each other.

    Args:
        parameters: One value of every parameter.
        pairs: What happened.
    """
    p, weight = _at_borders(parameters, pairs)
    each = (p * (weight / weight.sum(axis=-1, keepdims=True))[pairs.worked]).sum(axis=-1)
    told = pairs.failed * jnp.log(each) + pairs.held * jnp.log1p(-each)
    # Shares add up to 1 over a family.
    return EFFECTIVE_PAIRS * pairs.share.sum() * told.sum() / (pairs.failed + pairs.held).sum()


def _at_borders(parameters: Mapping[str, Any], pairs: Pairs) -> tuple[Any, Any]:
    """P(fails) of each pair at the borders, shape (pairs, nodes), and the borders' weights, shape (runs, nodes)."""
    one = dict(parameters) | {"learning_rate": 1.0}
    effects = pairs.change * jnp.stack([one[name] * sign for name, sign in zip(Change._fields, _SIGNS, strict=True)])
    gap = thresholds_at(jnp.asarray(one["centre"]), jnp.asarray(one["spread"]), jnp)
    p = failure_probability(
        gap,
        effects.sum(-1)[:, None],
        width_of(effects, one["sharpness"], one["looseness"], jnp)[:, None],
        jnp.minimum(one["base"], MOST_BASE),
        jnp,
    )
    at = one["scale"] + (1.0 - pairs.full[:, None]) * one["full"]
    return p, prior_weight(gap, pairs.rate[:, None], at, one["scatter"], jnp)


EFFECTIVE_PAIRS = 15.0
"""Independent pairs that a family of the laboratory counts for: what is left of its outcomes, once changes and learning
rates are known, is correlated by .065, so that its pairs, however many, tell about as much as 1/.065 such."""
MOST_BASE = 0.5
"""The share that fails for reasons of its own stays below this, wherever the laboratory lies."""
_SIGNS = tuple(-1.0 if name in ("group_size", "prompts_per_step", "kl_weight") else 1.0 for name in Change._fields)


def sample_failing(
    pairs: Pairs, lab: Pairs | None = None, seed: int = 0, chains: int = _CHAINS, draws: int = _DRAWS
) -> dict[str, np.ndarray]:
    """Draws of the model's parameters, shape (chains, draws) each; "away" of the laboratory (chains, draws, moved).

    Args:
        pairs: What happened in public.
        lab: What happened in the laboratory; None to leave it out.
        seed: Seed.
        chains: Chains, one after another.
        draws: Draws of each.
    """
    kernel = numpyro.infer.NUTS(failing_model, target_accept_prob=0.9, dense_mass=True)
    sampler: Any = numpyro.infer.MCMC(
        kernel, num_warmup=WARMUP, num_samples=draws, num_chains=chains, chain_method="sequential", progress_bar=False
    )
    with jax.enable_x64(True):
        sampler.run(jax.random.PRNGKey(seed), pairs, lab)
        return {name: np.asarray(x) for name, x in sampler.get_samples(group_by_chain=True).items()}
