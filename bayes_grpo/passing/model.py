"""Success rates of prompts as a beta-binomial in NumPyro, one law for each phase of a training.

    p of a prompt in phase b ~ Beta(m_b κ_b, (1 − m_b) κ_b),   right completions ~ Binomial(n, p),
    logit m_b ~ N(0, 2²),   log κ_b ~ N(log κ, 0.5²),   log κ ~ N(0.5, 1)

    pass@k of all prompts = 1 − E (1 − p)^k = 1 − Π_{j<k} ((1 − m) κ + j) / (κ + j)

p is integrated out, and equal counts are counted, so that a million completions cost as much as a hundred. The prompts
of a phase are drawn from one population; a prompt that comes twice in a phase counts once, with all its completions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.fitting.sampling.nuts import Chain, Convergence, SamplerSettings, check_convergence, sample_model
from bayes_grpo.rollouts.passes import PassCounts
from bayes_grpo.rows.padding import bucket

_SETTINGS = SamplerSettings(num_warmup=400, num_samples=500, retry_target_accept=0.98)
_PHASES, PHASE_STEPS = 5, 3
"""Phases at most, and steps of one at least."""


class PassData(NamedTuple):
    """Counts of prompts, padded to one of few lengths with a weight of 0.

    Attributes:
        phase: Phase of each, from 0, shape (m,).
        n: Completions, shape (m,).
        c: Right ones, shape (m,).
        weight: Prompts with these counts, shape (m,).
    """

    phase: Any
    n: Any
    c: Any
    weight: Any


def pass_at_of(draws: Mapping[str, np.ndarray], k: int) -> np.ndarray:
    """Draws of pass@k of all prompts, shape (draws, phases), from those of mean and concentration."""
    mean, concentration = draws["mean"], draws["concentration"]
    fails = np.ones_like(mean)
    for j in range(k):
        fails = fails * ((1.0 - mean) * concentration + j) / (concentration + j)
    return 1.0 - fails


def pass_data(counts: PassCounts, phase: np.ndarray) -> PassData:
    """What the model takes: the completions of each prompt in each phase, equal ones counted."""
    prompts = np.unique(np.stack([phase, counts.prompt], axis=1), axis=0, return_inverse=True)
    place = prompts[1].ravel()
    n, c = np.bincount(place, counts.n).astype(int), np.bincount(place, counts.c).astype(int)
    rows, weight = np.unique(np.stack([prompts[0][:, 0], n, c], axis=1), axis=0, return_counts=True)
    size = bucket(len(rows), 1)
    padded = np.concatenate([rows, np.tile(rows[-1:], (size - len(rows), 1))]).astype(float)
    weights = np.concatenate([weight, np.zeros(size - len(rows))]).astype(float)
    return PassData(padded[:, 0].astype(int), padded[:, 1], padded[:, 2], weights)


def pass_model(data: PassData, strata: Any) -> None:
    """Success rates of prompts in phases, as a NumPyro model."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    phases = len(strata)

    def standard(*shape: int) -> Any:
        return dist.Normal(0.0, 1.0).expand([*shape]).to_event(len(shape))

    logit: Any = 2.0 * numpyro.sample("logit_z", standard(phases))
    common: Any = 0.5 + numpyro.sample("common_z", standard(1))
    mean = jax.nn.sigmoid(logit)
    concentration = jnp.exp(common + 0.5 * numpyro.sample("own_z", standard(phases)))
    numpyro.deterministic("mean", mean)
    numpyro.deterministic("concentration", concentration)
    a, b = (mean * concentration)[data.phase], ((1.0 - mean) * concentration)[data.phase]
    law: Any = dist.BetaBinomial(a, b, data.n)
    numpyro.factor("y", jnp.sum(data.weight * law.log_prob(data.c)))


def sample_strata(
    model: Any, data: Any, strata: int, names: Sequence[str], seed: int
) -> tuple[dict[str, np.ndarray], Convergence]:
    """Draws of the named sites of a model by NUTS, shape (draws, strata) each; a second, careful try where checks fail.

    The model takes the data and an array of as many numbers as strata; its sites have the shape (strata,).
    """

    def checked(chain: Chain, retried: bool) -> tuple[dict[str, np.ndarray], Convergence]:
        found = {name: np.asarray(chain.z[name]) for name in names}
        named = {f"{name} {s + 1}": x[..., s] for name, x in found.items() for s in range(strata)}
        checks = check_convergence(named, np.asarray(chain.energy), np.asarray(chain.diverging), retried)
        return {name: x.reshape(-1, strata) for name, x in found.items()}, checks

    return sample_model(model, (data, np.zeros(strata)), checked, seed=seed, settings=_SETTINGS)


def phases_of(step: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Number of the phase of each step, shape (n,), and the phases in words: up to five parts of equally many steps."""
    steps = np.unique(step)
    parts = np.array_split(steps, max(1, min(_PHASES, len(steps) // PHASE_STEPS)))
    first = np.array([part[0] for part in parts])
    return np.searchsorted(first, step, side="right") - 1, [f"steps {part[0]} to {part[-1]}" for part in parts]
