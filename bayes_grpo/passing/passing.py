"""`passing`: pass@1 and pass@k over a training, and whether it is capability or sharpening.

Sharpening means that pass@1 rises while pass@k falls: the policy repeats what it could do, and solves fewer prompts at
all (Yue et al. 2025, arXiv 2504.13837).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import LEVEL, Interval, interval, percent, span_text
from bayes_grpo.common.results import Result
from bayes_grpo.fitting.sampling.nuts import Convergence
from bayes_grpo.passing.model import PHASE_STEPS, pass_at_of, pass_data, pass_model, phases_of, sample_strata
from bayes_grpo.rollouts.passes import PassCounts, pass_at, pass_counts, right_of
from bayes_grpo.rollouts.records import Rollouts

_SURE = 0.9
"""Probability from which a change is stated as a fact."""


@dataclass(frozen=True)
class PassPhase(Result):
    """Success of the prompts in one phase of a training.

    Attributes:
        first_step: First step.
        last_step: Last step.
        prompts: Prompts that came.
        pass_1: pass@1 of all prompts that the run draws from.
        pass_k: pass@k likewise.
        estimate_1: Unbiased estimate of pass@1 of the prompts that came.
        estimate_k: The same of pass@k.
        distinct: Distinct right completions of a group with any, mean; NaN where texts are not saved.
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
    """Whether a policy solves more prompts, or the same ones more often.

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
    def sentence(self) -> str:
        """The verdict with its numbers."""
        first, last = self.phases[0], self.phases[-1]
        moves = " and ".join(
            f"pass@{k} from {a.median:.0%} to {b.median:.0%} ({span_text(c, '+.0%', level=False)})"
            for k, a, b, c in (
                (1, first.pass_1, last.pass_1, self.change_1),
                (self.k, first.pass_k, last.pass_k, self.change_k),
            )
        )
        more = f"P(pass@{self.k} rises) is {percent(self.p_rise_k)}, P(sharpening) is {percent(self.p_sharpening)}."
        return f"{self.verdict}: {moves}, {LEVEL:.0%} intervals. {more}"


def passing(rollouts: Rollouts, *, right: str | None = None, seed: int = 0) -> Passing:
    """pass@1 and pass@k in phases of a training, with a posterior over prompts; ``right`` is as in `right_of`.

    Raises:
        FitError: Nothing says which completions are right, groups of one, or fewer than two phases.
        SettingError: There is no such part, or it has other values.
    """
    good = right_of(rollouts, right)
    counts = pass_counts(rollouts, good)
    phase, names = phases_of(counts.step)
    if len(names) < 2:
        raise FitError(
            f"pass@k: expected groups at {2 * PHASE_STEPS} steps or more to tell a change, found "
            f"{len(np.unique(counts.step))} in {rollouts.name}; give more steps"
        )
    draws, convergence = sample_strata(
        pass_model, pass_data(counts, phase), len(names), ("mean", "concentration"), seed
    )
    drawn = {k: pass_at_of(draws, k) for k in (1, counts.k)}
    change_1, change_k = (x[:, -1] - x[:, 0] for x in (drawn[1], drawn[counts.k]))
    return Passing(
        k=counts.k,
        by=good.by,
        phases=tuple(_phase(counts, phase == b, drawn[1][:, b], drawn[counts.k][:, b]) for b in range(len(names))),
        change_1=interval(change_1),
        change_k=interval(change_k),
        p_rise_1=float(np.mean(change_1 > 0.0)),
        p_rise_k=float(np.mean(change_k > 0.0)),
        p_sharpening=float(np.mean((change_1 > 0.0) & (change_k < 0.0))),
        convergence=convergence,
    )


def _phase(counts: PassCounts, inside: np.ndarray, pass_1: np.ndarray, pass_k: np.ndarray) -> PassPhase:
    n, c, k = counts.n[inside], counts.c[inside], counts.k
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
