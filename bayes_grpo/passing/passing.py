"""pass@1 and pass@k of completions over a training, as a beta-binomial in NumPyro, one law for each phase.

    p of a prompt in phase b ~ Beta(m_b κ_b, (1 − m_b) κ_b),   right completions ~ Binomial(n, p),
    logit m_b ~ N(0, 2²),   log κ_b ~ N(log κ, 0.5²),   log κ ~ N(0.5, 1)

    pass@k of all prompts = 1 − E (1 − p)^k = 1 − Π_{j<k} ((1 − m) κ + j) / (κ + j)

p is integrated out, and equal counts are counted, so that a million completions cost as much as a hundred. The prompts
of a phase are drawn from one population; a prompt that comes twice in a phase counts once, with all its completions.

Sharpening means that pass@1 rises while pass@k falls: the policy repeats what it could do, and solves fewer prompts at
all (Yue et al. 2025, arXiv 2504.13837).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import LEVEL, Interval, interval, percent, span_text
from bayes_grpo.common.results import Result
from bayes_grpo.fitting.sampling.nuts import Chain, Convergence, SamplerSettings, check_convergence, sample_model
from bayes_grpo.rollouts.passes import PassCounts, pass_at, pass_counts, right_of
from bayes_grpo.rollouts.records import Rollouts
from bayes_grpo.rows.padding import bucket

_SETTINGS = SamplerSettings(num_warmup=400, num_samples=500, retry_target_accept=0.98)
_PHASES, PHASE_STEPS = 5, 3
"""Phases at most, and steps of one at least."""


class _PassData(NamedTuple):
    """Phase from 0, completions, right ones, and how many prompts have these counts, shape (m,) each.

    They are padded to one of few lengths with a weight of 0.
    """

    phase: Any
    n: Any
    c: Any
    weight: Any


def _pass_at_of(draws: Mapping[str, np.ndarray], k: int) -> np.ndarray:
    """Draws of pass@k of all prompts, shape (draws, phases), from those of mean and concentration."""
    mean, concentration = draws["mean"], draws["concentration"]
    fails = np.ones_like(mean)
    for j in range(k):
        fails = fails * ((1.0 - mean) * concentration + j) / (concentration + j)
    return 1.0 - fails


def _pass_data(counts: PassCounts, phase: np.ndarray) -> _PassData:
    """Input of the model: the completions of each prompt in each phase, equal ones counted."""
    prompts = np.unique(np.stack([phase, counts.prompt], axis=1), axis=0, return_inverse=True)
    place = prompts[1].ravel()
    n = np.bincount(place, counts.n).astype(int)
    c = np.bincount(place, counts.c).astype(int)
    rows, weight = np.unique(np.stack([prompts[0][:, 0], n, c], axis=1), axis=0, return_counts=True)
    size = bucket(len(rows), 1)
    padded = np.concatenate([rows, np.tile(rows[-1:], (size - len(rows), 1))]).astype(float)
    weights = np.concatenate([weight, np.zeros(size - len(rows))]).astype(float)
    return _PassData(padded[:, 0].astype(int), padded[:, 1], padded[:, 2], weights)


def _pass_model(data: _PassData, of_phases: Any) -> None:
    """Success rates of prompts in phases, as a NumPyro model."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    phases = len(of_phases)

    def standard(*shape: int) -> Any:
        return dist.Normal(0.0, 1.0).expand([*shape]).to_event(len(shape))

    logit: Any = 2.0 * numpyro.sample("logit_z", standard(phases))
    common: Any = 0.5 + numpyro.sample("common_z", standard(1))
    mean = jax.nn.sigmoid(logit)
    concentration = jnp.exp(common + 0.5 * numpyro.sample("own_z", standard(phases)))
    numpyro.deterministic("mean", mean)
    numpyro.deterministic("concentration", concentration)
    a = (mean * concentration)[data.phase]
    b = ((1.0 - mean) * concentration)[data.phase]
    law: Any = dist.BetaBinomial(a, b, data.n)
    numpyro.factor("y", jnp.sum(data.weight * law.log_prob(data.c)))


def _sampled(data: _PassData, phases: int, seed: int) -> tuple[dict[str, np.ndarray], Convergence]:
    """Draws of mean and concentration, shape (draws, phases) each; a second, careful try where checks fail."""

    def checked(chain: Chain, retried: bool) -> tuple[dict[str, np.ndarray], Convergence]:
        found = {name: np.asarray(chain.z[name]) for name in ("mean", "concentration")}
        named = {f"{name} {b + 1}": x[..., b] for name, x in found.items() for b in range(phases)}
        checks = check_convergence(named, np.asarray(chain.energy), np.asarray(chain.diverging), retried)
        return {name: x.reshape(-1, phases) for name, x in found.items()}, checks

    # The number of phases is that of an array, by whose shape a program is compiled.
    return sample_model(_pass_model, (data, np.zeros(phases)), checked, seed=seed, settings=_SETTINGS)


def phases_of(step: np.ndarray) -> np.ndarray:
    """Number of the phase of each step, shape (n,), from 0: up to five parts of equally many steps."""
    steps = np.unique(step)
    parts = np.array_split(steps, max(1, min(_PHASES, len(steps) // PHASE_STEPS)))
    return np.searchsorted([part[0] for part in parts], step, side="right") - 1


_SURE = 0.9
"""Probability from which a change counts as a fact."""


@dataclass(frozen=True)
class PassPhase(Result):
    """Success of the prompts in one phase of a training: pass@1 and pass@k of all prompts that the run draws from.

    The estimates are unbiased ones of the prompts that came; ``distinct`` is the mean number of distinct right
    completions of a group with any, NaN where texts are not saved.
    """

    first_step: int
    last_step: int
    prompts: int
    pass_1: Interval
    pass_k: Interval
    estimate_1: float
    estimate_k: float
    distinct: float


@dataclass(frozen=True, kw_only=True)
class Passing(Result):
    """Tests if a policy solves more prompts, or the same ones more often.

    Attributes:
        k: Tries of pass@k: the usual size of a group.
        by: What says which completions are right.
        phases: The training in equal parts.
        change_1: Change of pass@1 from the first phase to the last.
        change_k: Change of pass@k.
        p_rise_1: Probability that pass@1 rises.
        p_rise_k: Probability that pass@k rises.
        p_sharpening: Probability that pass@1 rises while pass@k falls.
        convergence: Checks of the sampler.
    """

    k: int
    by: str
    phases: tuple[PassPhase, ...]
    change_1: Interval
    change_k: Interval
    p_rise_1: float
    p_rise_k: float
    p_sharpening: float
    convergence: Convergence

    interval_level = LEVEL
    also_in_json = ("sentence", "interval_level")

    @property
    def verdict(self) -> str:
        """The answer in one sentence."""
        k = self.k
        if self.p_sharpening >= _SURE:
            return f"Sharpening: pass@1 rises while pass@{k} falls ({percent(self.p_sharpening)})"
        if self.p_rise_k >= _SURE:
            return f"More prompts are solved: pass@{k} rises ({percent(self.p_rise_k)})"
        if self.p_rise_1 >= _SURE:
            return f"pass@1 rises ({percent(self.p_rise_1)}), and whether pass@{k} rises is unclear"
        if self.p_rise_k <= 1.0 - _SURE:
            return f"pass@{k} falls ({percent(1.0 - self.p_rise_k)})"
        return f"No clear change of pass@1 or pass@{k}"

    @property
    def numbers(self) -> str:
        """The numbers behind the verdict, in sentences."""
        first = self.phases[0]
        last = self.phases[-1]
        moves = " and ".join(
            f"pass@{k} from {a.median:.0%} to {b.median:.0%} ({span_text(c, '+.0%', level=False)})"
            for k, a, b, c in (
                (1, first.pass_1, last.pass_1, self.change_1),
                (self.k, first.pass_k, last.pass_k, self.change_k),
            )
        )
        more = f"P(pass@{self.k} rises) is {percent(self.p_rise_k)}, P(sharpening) is {percent(self.p_sharpening)}."
        return f"{moves}, {LEVEL:.0%} intervals. {more}"

    @property
    def sentence(self) -> str:
        """The verdict with its numbers."""
        return f"{self.verdict}: {self.numbers}"


def passing(rollouts: Rollouts, *, right: str | None = None, seed: int = 0) -> Passing:
    """pass@1 and pass@k in phases of a training, with a posterior over prompts; ``right`` is as in `right_of`.

    Raises:
        FitError: Nothing says which completions are right, groups of one, or fewer than two phases.
        SettingError: There is no such part, or it has other values.
    """
    good = right_of(rollouts, right)
    counts = pass_counts(rollouts, good)
    phase = phases_of(counts.step)
    phases = int(phase.max()) + 1
    if phases < 2:
        raise FitError(
            f"pass@k: expected groups at {2 * PHASE_STEPS} steps or more to tell a change, found "
            f"{len(np.unique(counts.step))} in {rollouts.name}; give more steps"
        )
    draws, convergence = _sampled(_pass_data(counts, phase), phases, seed)
    drawn = {k: _pass_at_of(draws, k) for k in (1, counts.k)}
    change_1, change_k = (x[:, -1] - x[:, 0] for x in (drawn[1], drawn[counts.k]))
    return Passing(
        k=counts.k,
        by=good.by,
        phases=tuple(_phase(counts, phase == b, drawn[1][:, b], drawn[counts.k][:, b]) for b in range(phases)),
        change_1=interval(change_1),
        change_k=interval(change_k),
        p_rise_1=float(np.mean(change_1 > 0.0)),
        p_rise_k=float(np.mean(change_k > 0.0)),
        p_sharpening=float(np.mean((change_1 > 0.0) & (change_k < 0.0))),
        convergence=convergence,
    )


def _phase(counts: PassCounts, inside: np.ndarray, pass_1: np.ndarray, pass_k: np.ndarray) -> PassPhase:
    n = counts.n[inside]
    c = counts.c[inside]
    k = counts.k
    whole = n >= k
    distinct = counts.distinct[inside][c > 0]
    return PassPhase(
        first_step=int(counts.step[inside].min()),
        last_step=int(counts.step[inside].max()),
        prompts=len(np.unique(counts.prompt[inside])),
        pass_1=interval(pass_1),
        pass_k=interval(pass_k),
        estimate_1=float(np.mean(c / n)),
        estimate_k=float(np.mean(pass_at(n[whole], c[whole], k))) if whole.any() else float("nan"),
        distinct=float(np.mean(distinct)) if len(distinct) else float("nan"),
    )
