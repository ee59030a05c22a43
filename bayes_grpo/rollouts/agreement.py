"""`agreement_of`: what two scorers that disagree say of each other's errors, without any label.

Where they disagree one of them is wrong, so that their error rates add up to at least the share of disagreements, and
the worse one is wrong in at least half of it. An error that both make is not seen: nothing bounds it from above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import LEVEL, Interval, interval
from bayes_grpo.common.results import Result
from bayes_grpo.rollouts.passes import Right
from bayes_grpo.rollouts.records import Rollouts
from bayes_grpo.rollouts.shares import redrawn

_DRAWS = 2000


@dataclass(frozen=True, kw_only=True)
class Agreement(Result):
    """Two scorers on the same completions.

    Attributes:
        name: Of the run.
        by: The first scorer, which is the verifier.
        second: The second scorer.
        completions: Completions that both scored.
        disagree: Share on which they disagree: the least sum of their error rates.
        false_accept: Share of what the second rejects that the first accepts: the false accept rate if the second is
            right.
        false_reject: Share of what the second accepts that the first rejects, likewise.
    """

    name: str
    by: str
    second: str
    completions: int
    disagree: Interval
    false_accept: Interval
    false_reject: Interval

    in_json = ("sentence", ("interval_level", LEVEL), ...)

    @property
    def sentence(self) -> str:
        """The bound, and the rates if the second scorer is right."""
        d, a, r = self.disagree, self.false_accept, self.false_reject
        return (
            f"The two scorers disagree on {d.median:.1%} [{d.low:.1%}, {d.high:.1%}] of {self.completions} completions "
            f"({LEVEL:.0%}). So one of them is wrong in at least {0.5 * d.median:.1%} of all. If {self.second} is "
            f"right, {self.by} accepts {a.median:.1%} of the wrong answers and rejects {r.median:.1%} of the right "
            "ones. Errors that both make are not seen: 20 hand labels show them."
        )


def agreement_of(rollouts: Rollouts, first: Right, second: Right, *, seed: int = 0) -> Agreement:
    """How far two scorers agree, with intervals over groups.

    Args:
        rollouts: The completions.
        first: Verdict of the verifier.
        second: Verdict of another scorer.
        seed: Seed.

    Raises:
        FitError: They scored no completion in common, or are the same.
    """
    both = np.isfinite(first.right) & np.isfinite(second.right)
    if first.by == second.by or not both.any():
        found = "the same scorer twice" if first.by == second.by else "no completion that both scored"
        raise FitError(f"--second-scorer: expected another scorer of the same completions, found {found}")
    a, b = first.right[both] > 0.5, second.right[both] > 0.5
    group = rollouts.group[both]
    place = np.unique(np.where(group >= 0, group, -1 - np.arange(len(group))), return_inverse=True)[1]
    kinds = (a != b, np.ones_like(a), a & ~b, ~b, ~a & b, b)
    drawn = redrawn(np.stack([np.bincount(place, x) for x in kinds], axis=1), _DRAWS, seed)
    rates = drawn[:, ::2] / np.maximum(drawn[:, 1::2], 1e-12)
    return Agreement(
        name=rollouts.name,
        by=first.by,
        second=second.by,
        completions=int(both.sum()),
        disagree=interval(rates[:, 0]),
        false_accept=interval(rates[:, 1]),
        false_reject=interval(rates[:, 2]),
    )
