"""The hierarchical model of several runs, in NumPyro, and its chains.

Every run follows the exponential regime. Its traits are the logarithms of relaxation time, measurement noise and
fluctuation, and the two levels in units of the standard deviation of all rows. Trait q of run i is

    trait[i, q] ~ N(mean[q] + x[i] · slopes[:, q] + offset[i, q], spread[q]²),

x the logarithms of the varied settings about their mean. The filter integrates the levels out, in which the rows are
linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.families.members import SweepMember
from bayes_grpo.fitting.sampling.nuts import Chain, Convergence, SamplerSettings, check_convergence, sample_model
from bayes_grpo.regimes.built_in.exponential import Exponential
from bayes_grpo.rows.padding import Rows, stacked

EXPONENTIAL = Exponential()
TRAITS = tuple(p.name for p in EXPONENTIAL.parameters)
SAME_START = ("group_size", "learning_rate", "prompts_per_step", "refresh_interval")
"""Settings that cannot move the reward before the first update."""
_SLOPE = {"relaxation_time": 1.0, "observation_sd": 0.5, "fluctuation_sd": 0.5}
"""Prior standard deviations of slopes, e-folds per e-fold of a setting; of levels 1. A slope of .5 on a noise is an
exponent of 1 on its variance."""
_SPREAD = np.array([{"relaxation_time": 0.5, "observation_sd": 0.4, "fluctuation_sd": 0.4}.get(q, 0.5) for q in TRAITS])
"""Scales of the half-normal spreads between runs of the same settings."""
_FLOOR = 0.02
"""Least spread between runs: no two runs agree better."""


class SweepData(NamedTuple):
    """Input of the model: n runs, k varied settings and P traits.

    Attributes:
        rows: Rows of all runs, a leading axis of n.
        x: Logarithms of the settings about their mean, shape (n, k).
        offset: What is known to move the traits besides, shape (n, P).
        origin: Origin of the levels, reward.
        unit: Their unit, reward.
        centre: Prior means of the means, shape (P,).
        width: Prior standard deviations of the means, shape (P,).
        slope: Prior standard deviations of the slopes, shape (k, P); 0 where a setting cannot move a trait.
    """

    rows: Rows
    x: Any
    offset: Any
    origin: Any
    unit: Any
    centre: Any
    width: Any
    slope: Any


class SweepDraws(NamedTuple):
    """Draws of the model, leading axes (chains, draws): slopes (..., k, P), mean (..., P) and spread (..., P)."""

    slopes: np.ndarray
    mean: np.ndarray
    spread: np.ndarray


def sweep_data(members: Sequence[SweepMember], vary: Sequence[str]) -> SweepData:
    """The runs as the model takes them, with weak priors from the scale and the length of the logs alone."""
    tables = [m.table for m in members]
    y = np.concatenate([t.y for t in tables])
    x = np.log([[m.settings[name] for name in vary] for m in members])
    weak = [[p.default(t) for t in tables] for p in EXPONENTIAL.sampled]
    centre = [
        float(np.mean([p.transform.inverse(q.median) for q in each]))
        for p, each in zip(EXPONENTIAL.sampled, weak, strict=True)
    ]
    width = [max(q.spread for q in each) for each in weak]
    width[0] = max(width[0], 1.0)
    levels = len(EXPONENTIAL.marginalized)
    slope = [
        [0.0 if q == "initial_reward" and name in SAME_START else _SLOPE.get(q, 1.0) for q in TRAITS] for name in vary
    ]
    # A row that is a mean over more steps has less measurement noise.
    offset = np.zeros((len(tables), len(TRAITS)))
    windows = np.array([np.median(t.window) for t in tables])
    if np.all(windows > 0):
        offset[:, TRAITS.index("observation_sd")] = -0.5 * (np.log(windows) - np.log(windows).mean())
    return SweepData(
        rows=stacked(tables),
        x=x - x.mean(axis=0),
        offset=offset,
        origin=np.asarray(y.mean()),
        unit=np.asarray(y.std()),
        centre=np.array(centre + [0.0] * levels),
        width=np.array(width + [3.0] * levels),
        slope=np.array(slope),
    )


def sweep_model(data: SweepData) -> None:
    """Several runs as a NumPyro model."""
    import numpyro
    import numpyro.distributions as dist

    n, k = data.x.shape
    size = len(TRAITS)
    p = len(EXPONENTIAL.sampled)
    standard: Any = dist.Normal(0.0, 1.0)
    mean: Any = data.centre + data.width * numpyro.sample("mean_z", standard.expand([size]).to_event(1))
    slopes: Any = data.slope * numpyro.sample("slopes_z", standard.expand([k, size]).to_event(2))
    # A half normal as the size of a normal number: no end of a range is near, and no chain turns back there.
    spread: Any = spread_of(numpyro.sample("spread_z", standard.expand([size]).to_event(1)))
    expected: Any = mean + data.x @ slopes + data.offset
    u: Any = expected[:, :p] + spread[:p] * numpyro.sample("u_z", standard.expand([n, p]).to_event(2))
    values: dict[str, Any] = {q.name: q.transform.forward(u[:, j]) for j, q in enumerate(EXPONENTIAL.sampled)}
    for j, q in enumerate(EXPONENTIAL.marginalized, p):
        values[q.name] = (data.origin + data.unit * expected[:, j], data.unit * spread[j])
    for name, value in (("mean", mean), ("slopes", slopes), ("spread", spread)):
        numpyro.deterministic(name, value)
    numpyro.sample("y", EXPONENTIAL.distribution(values, data.rows).to_event(1), obs=data.rows.y)


def spread_of(z: Any) -> Any:
    """Spreads between runs from standard normal numbers, (..., P): a half normal with the floor beneath."""
    return (_FLOOR**2 + (_SPREAD * z) ** 2) ** 0.5


def sample_sweep(data: SweepData, seed: int = 0) -> tuple[SweepDraws, Convergence]:
    """Draws of the model by NUTS, once more and more carefully where the checks fail."""
    settings = SamplerSettings(num_warmup=400, retry_target_accept=0.98)
    return sample_model(sweep_model, (data,), partial(_checked, data), seed=seed, settings=settings)


def _checked(data: SweepData, chain: Chain, retried: bool) -> tuple[SweepDraws, Convergence]:
    draws = SweepDraws(*(np.asarray(chain.z[name]) for name in SweepDraws._fields))
    named = {f"{word} of {q}": x[..., j] for j, q in enumerate(TRAITS) for word, x in (("mean", draws.mean),
             ("spread", draws.spread))}  # fmt: skip
    named |= {f"slope {j + 1} of {TRAITS[q]}": draws.slopes[..., j, q] for j, q in np.argwhere(data.slope > 0)}
    return draws, check_convergence(named, np.asarray(chain.energy), np.asarray(chain.diverging), retried)
