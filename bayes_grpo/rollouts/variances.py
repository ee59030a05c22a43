"""Variances of prompts, out of the rewards of one or several runs.

    z = u_prompt + v + e,     Var u = τ²,  Var v = ω²,  Var e = σ²/n        (`bayes_grpo.rollouts.cells` defines z)

u is what a prompt keeps in every run and at every step, v what it has at one step of one run, e the luck of n
completions. The variances come from products of a prompt's cells (moments), so that no law of difficulties is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayes_grpo.rollouts.cells import PromptCells

_LEAST_AGAIN, _LEAST_PROMPTS = 10, 3
"""How often prompts have to come again, and how many of them, before what lasts is distinguished from what does not."""
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


def variances_of(runs: Sequence[PromptCells]) -> Variances:
    """Variances of z by moments.

    Args:
        runs: Cells of every run.

    Returns:
        The variances; where too few prompts came twice, a usual share of what differs between them is taken to last.
    """
    z, n, prompt, inner = (np.concatenate([getattr(c, name) for c in runs]) for name in ("z", "n", "prompt", "inner"))
    some = np.isfinite(inner)
    luck = float(np.average(inner[some], weights=n[some] - 1.0)) if some.any() else 1.0
    between = max(float(np.mean(z**2) - luck * np.mean(1.0 / n)), 1e-6)
    place = np.unique(prompt, return_inverse=True)[1]
    count = np.bincount(place)
    again = count > 1
    if np.sum(count[again] - 1) < _LEAST_AGAIN or again.sum() < _LEAST_PROMPTS:
        return Variances(_LASTING * between, (1.0 - _LASTING) * between, luck)
    total, squares = np.bincount(place, z), np.bincount(place, z**2)
    # Every prompt's mean product of two cells, each prompt with as much weight as it has cells.
    pairs = (total**2 - squares)[again] / (count * (count - 1.0))[again]
    lasting = float(np.clip(np.average(pairs, weights=count[again]), 0.0, between))
    return Variances(lasting, between - lasting, luck)
