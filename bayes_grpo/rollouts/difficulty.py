"""`difficulty`: how hard each prompt is, out of other runs or earlier steps, shrunk by what few completions can tell.

    z = u_prompt + v + e,     Var u = τ²,  Var v = ω²,  Var e = σ²/n        (`bayes_grpo.rollouts.cells` defines z)

u is what a prompt keeps in every run and at every step, v what it has at one step of one run alone, e the luck of n
completions. For rewards of 0 and 1 in one run this is the hierarchical Beta-binomial to second moments: the mean of u
given a cell is (n/(κ + n)) z with κ = 1/ρ − 1. The variances come from products of a prompt's cells (moments),
so that no law of difficulties is assumed, and the shrunk values are the best linear predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import norm

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import LEVEL
from bayes_grpo.common.results import Result
from bayes_grpo.rollouts.cells import Cells, cells_of
from bayes_grpo.rollouts.records import Rollouts

if TYPE_CHECKING:
    import pandas as pd

_LEAST_AGAIN, _LEAST_PROMPTS = 10, 3
"""How often prompts have to come again, and how many of them, before what lasts is told from what does not."""
_LASTING = 0.75
"""Share of the difference between prompts that is taken to last where no prompt comes twice."""


class Variances(NamedTuple):
    """Variances of z.

    Attributes:
        lasting: τ², between prompts, in every run and at every step.
        passing: ω², of a prompt at one step of one run.
        luck: σ², of one completion.
    """

    lasting: float
    passing: float
    luck: float

    def precision(self, n: np.ndarray) -> np.ndarray:
        """Of a cell of n completions about its prompt."""
        return 1.0 / (self.passing + self.luck / n)


@dataclass(frozen=True, eq=False, kw_only=True)
class PromptDifficulty(Result):
    """A table by prompt, k of them, the hardest first.

    Attributes:
        prompt: Hash, shape (k,), like all.
        cells: Steps and runs it was met in.
        completions: Completions of it.
        mean: Their mean reward.
        effect: How far above a run's level it lies, in standard deviations of rewards there: shrunk.
        effect_sd: Its standard deviation.
        expected: Mean reward at the level and spread of the last steps of the last run.
        low: Lower end of the interval of that.
        high: Upper end.
        variances: What lasts, what passes, what is luck.
        runs: Names of the runs.
        sources: Where these were read from.
        lasting_known: Whether prompts came twice, so that what lasts is measured and not assumed.
    """

    prompt: np.ndarray
    cells: np.ndarray
    completions: np.ndarray
    mean: np.ndarray
    effect: np.ndarray
    effect_sd: np.ndarray
    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray
    variances: Variances
    runs: tuple[str, ...]
    sources: tuple[str, ...]
    lasting_known: bool

    in_json = ("sentence", ("interval_level", LEVEL), "runs", ("prompts", "size"), "lasting_known", "variances")

    @property
    def size(self) -> int:
        """Number of prompts."""
        return len(self.prompt)

    @property
    def sentence(self) -> str:
        """What is known of difficulty, in words."""
        v = self.variances
        between = v.lasting + v.passing
        lasts = (
            f"{v.lasting / between:.0%} of it lasts from {'run to run' if len(self.runs) > 1 else 'step to step'}"
            if self.lasting_known and between > 0
            else "how much of it lasts is not known, as hardly a prompt comes twice"
        )
        return (
            f"{self.size} prompts of {len(self.runs)} run{'s' * (len(self.runs) > 1)}: they hold "
            f"{between / (between + v.luck):.0%} of the variance of rewards at a step; {lasts}."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a prompt, the hardest first."""
        import pandas as pd

        names = ("cells", "completions", "mean", "effect", "effect_sd", "expected", "low", "high")
        table = pd.DataFrame({name: getattr(self, name) for name in names}, index=pd.Index(self.prompt, name="prompt"))
        table.attrs["interval_level"] = LEVEL
        return table


def difficulty(*runs: Rollouts) -> PromptDifficulty:
    """How hard each prompt is.

    Args:
        *runs: Rollouts of one or several runs on the same task, read with the same salt; the expected rewards are at
            the level of the last.

    Returns:
        The table.

    Raises:
        FitError: No run, no prompts told apart, or a reward that never varies.
    """
    if not runs:
        raise FitError("expected rollouts of at least one run, found none; give some")
    every = [cells_of(run) for run in runs]
    variances, known = variances_of(every)
    z, n, prompt, mean = (np.concatenate([getattr(c, name) for c in every]) for name in ("z", "n", "prompt", "mean"))
    names, place = np.unique(prompt, return_inverse=True)
    k = len(names)
    precision = variances.precision(n)
    whole = np.bincount(place, precision, k)
    prior = 1.0 / max(variances.lasting, 1e-9)
    effect = np.bincount(place, precision * z, k) / (whole + prior)
    sd = np.sqrt(1.0 / (whole + prior))
    last = every[-1]
    level, spread = float(last.level[-1]), float(last.spread[-1])
    wide = float(norm.ppf(0.5 + LEVEL / 2.0)) * sd
    rewards = runs[-1].reward
    low, high = float(rewards.min()), float(rewards.max())
    count = np.bincount(place, n, k)
    columns = {
        "prompt": names,
        "cells": np.bincount(place, minlength=k),
        "completions": count.astype(int),
        "mean": np.bincount(place, n * mean, k) / count,
        "effect": effect,
        "effect_sd": sd,
        "expected": np.clip(level + spread * effect, low, high),
        "low": np.clip(level + spread * (effect - wide), low, high),
        "high": np.clip(level + spread * (effect + wide), low, high),
    }
    order = np.argsort(effect, kind="stable")
    return PromptDifficulty(
        **{name: values[order] for name, values in columns.items()},
        variances=variances,
        runs=tuple(run.name for run in runs),
        sources=tuple(run.source for run in runs),
        lasting_known=known,
    )


def variances_of(runs: Sequence[Cells]) -> tuple[Variances, bool]:
    """Variances of z by moments.

    Args:
        runs: Cells of every run.

    Returns:
        The variances, and whether enough prompts came twice to tell what lasts.
    """
    z, n, prompt, inner = (np.concatenate([getattr(c, name) for c in runs]) for name in ("z", "n", "prompt", "inner"))
    some = np.isfinite(inner)
    luck = float(np.average(inner[some], weights=n[some] - 1.0)) if some.any() else 1.0
    between = max(float(np.mean(z**2) - luck * np.mean(1.0 / n)), 1e-6)
    place = np.unique(prompt, return_inverse=True)[1]
    count = np.bincount(place)
    again = count > 1
    if np.sum(count[again] - 1) < _LEAST_AGAIN or again.sum() < _LEAST_PROMPTS:
        return Variances(_LASTING * between, (1.0 - _LASTING) * between, luck), False
    total, squares = np.bincount(place, z), np.bincount(place, z**2)
    # Every prompt's mean product of two cells, each prompt with as much weight as it has cells.
    pairs = (total**2 - squares)[again] / (count * (count - 1.0))[again]
    lasting = float(np.clip(np.average(pairs, weights=count[again]), 0.0, between))
    return Variances(lasting, between - lasting, luck), True
