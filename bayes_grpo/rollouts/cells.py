"""Rewards of a prompt at a step, on the scale of their spread there: what groups and comparisons rest on.

A cell is the completions of one prompt at one step. With m the level of the reward at the step (a smooth course) and s
the standard deviation of rewards about it, z = (mean of the cell − m) / s. For rewards of 0 and 1, s² = m(1 − m), and
a Beta law of success rates of constant intraclass correlation ρ has Var z = ρ + (1 − ρ)/n at every level.

    z = u_prompt + v + e,     Var u = τ²,  Var v = ω²,  Var e = σ²/n

u is what a prompt keeps in every run and at every step, v what it has at one step of one run, e the luck of n
completions. The variances come from products of a prompt's cells (moments), so that no law of difficulties is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.rollouts.records import Rollouts

_LEAST_STEPS = 2.0


@dataclass(frozen=True, eq=False)
class PromptCells:
    """Cells of one run in the order of their steps, shape (c,) each.

    Step, hash of the prompt, completions n, their mean reward, its unbiased variance within (NaN for one completion),
    the level of the reward at the step, and the standard deviation of rewards about it.
    """

    step: np.ndarray
    prompt: np.ndarray
    n: np.ndarray
    mean: np.ndarray
    within: np.ndarray
    level: np.ndarray
    spread: np.ndarray

    @property
    def z(self) -> np.ndarray:
        """How far each lies above the level, in units of the spread."""
        return (self.mean - self.level) / self.spread

    @property
    def inner(self) -> np.ndarray:
        """Variance within over the squared spread; NaN for one completion."""
        return self.within / self.spread**2

    def where(self, kept: np.ndarray) -> PromptCells:
        """Some of the cells."""
        return PromptCells(*(getattr(self, name)[kept] for name in self.__dataclass_fields__))


def cells_of(rollouts: Rollouts) -> PromptCells:
    """Cells of the completions of a run; an error where nothing tells prompts, or the reward never varies."""
    known = rollouts.prompt != 0
    if not known.any():
        raise FitError(
            f"expected rollouts that name their prompts, found none in {rollouts.name}; difficulty belongs to a prompt"
        )
    step = rollouts.step[known]
    prompt = rollouts.prompt[known]
    reward = rollouts.reward[known]
    order = np.lexsort((prompt, step))
    step, prompt, reward = step[order], prompt[order], reward[order]
    new = np.r_[True, (np.diff(step) != 0) | (prompt[1:] != prompt[:-1])]
    place = np.cumsum(new) - 1
    n = np.bincount(place)
    mean = np.bincount(place, reward) / n
    off = np.bincount(place, (reward - mean[place]) ** 2)
    row = np.unique(step[new], return_inverse=True)[1]
    level, spread = course_of(np.bincount(row, mean * n), np.bincount(row, off + mean**2 * n), np.bincount(row, n))
    return PromptCells(
        step=step[new].astype(float),
        prompt=prompt[new],
        n=n.astype(float),
        mean=mean,
        within=np.where(n > 1, off / np.maximum(n - 1, 1), np.nan),
        level=level[row],
        spread=spread[row],
    )


def course_of(total: np.ndarray, squares: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Level and spread of rewards at k steps, smoothed over neighbouring steps.

    ``total``, ``squares`` and ``count`` are sums of rewards and of squared rewards of each step, and its completions.
    """
    # Local lines rather than local means: at the ends of a rising course a mean of one side is off.
    place = np.arange(len(count), dtype=float)
    wide = max(0.08 * len(count), _LEAST_STEPS)
    off = place[None, :] - place[:, None]
    kernel = np.exp(-0.5 * (off / wide) ** 2) * count
    first, second = ((kernel * off**k).sum(axis=1, keepdims=True) for k in (1, 2))
    line = kernel * (second - first * off)
    line = np.where(line.sum(axis=1, keepdims=True) > 1e-9, line, kernel)
    line /= line.sum(axis=1, keepdims=True)
    row = total / count
    level = line @ row
    about = line @ ((squares - 2.0 * level * total + level**2 * count) / count)
    whole = float(np.average(squares / count - row**2, weights=count)) + float(np.var(row))
    if whole <= 0.0:
        raise FitError("expected rewards that vary, found one value; prompts cannot differ")
    return level, np.sqrt(np.maximum(about, 0.02 * whole))


_LEAST_AGAIN, _LEAST_PROMPTS = 10, 3
"""How often prompts have to come again, and how many of them, before what lasts is distinguished from what does not."""
_LASTING = 0.75
"""Share of the difference between prompts that is taken to last where no prompt comes twice."""


class Variances(NamedTuple):
    """Variances of z: τ² between prompts, ω² of a prompt at one step of one run, σ² of one completion."""

    lasting: float
    passing: float
    luck: float


def variances_of(runs: Sequence[PromptCells]) -> Variances:
    """Variances of z by moments; where too few prompts came twice, a usual share of them is taken to last."""
    z, n, prompt, inner = (np.concatenate([getattr(c, name) for c in runs]) for name in ("z", "n", "prompt", "inner"))
    some = np.isfinite(inner)
    luck = float(np.average(inner[some], weights=n[some] - 1.0)) if some.any() else 1.0
    between = max(float(np.mean(z**2) - luck * np.mean(1.0 / n)), 1e-6)
    place = np.unique(prompt, return_inverse=True)[1]
    count = np.bincount(place)
    again = count > 1
    if np.sum(count[again] - 1) < _LEAST_AGAIN or again.sum() < _LEAST_PROMPTS:
        return Variances(_LASTING * between, (1.0 - _LASTING) * between, luck)
    total = np.bincount(place, z)
    squares = np.bincount(place, z**2)
    # Every prompt's mean product of two cells, each prompt with as much weight as it has cells.
    pairs = (total**2 - squares)[again] / (count * (count - 1.0))[again]
    lasting = float(np.clip(np.average(pairs, weights=count[again]), 0.0, between))
    return Variances(lasting, between - lasting, luck)
