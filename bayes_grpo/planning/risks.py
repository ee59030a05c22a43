"""How probably candidates fail (`bayes_grpo.risk`), and which of a plan's draws do.

All candidates share a draw's border, and each draw's luck is the same for all: where a rate fails, a higher one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayes_grpo.common.seeds import seed_of
from bayes_grpo.planning.lessons import Nearing
from bayes_grpo.planning.tried import TriedSettings
from bayes_grpo.risk.change import change
from bayes_grpo.risk.failing import Failing, LearnedFailures, p_fails


@dataclass(frozen=True, eq=False)
class Risks:
    """P(fails) of candidates.

    Attributes:
        present: Settings of the present run, by the names of `Change`.
        luck: Uniform numbers that decide, shape (draws,).
        place: Which draw of the learned posterior and which border a draw has, uniform numbers, shape (draws, 2).
        failed: Whether the present run failed itself.
        rate: Its learning rate on the scale that runs share; None where it has none.
        learned: What others' runs teach of failing.
        siblings: What became of siblings at their settings.
        known: Candidates that were asked for before.
    """

    present: Mapping[str, float]
    luck: np.ndarray
    place: np.ndarray
    failed: bool
    rate: float | None
    learned: LearnedFailures
    siblings: TriedSettings = field(default_factory=TriedSettings)
    known: dict[Any, Failing] = field(default_factory=dict)

    def of(self, settings: Mapping[str, float]) -> Failing:
        """How probably settings fail."""
        key = change(self.present, settings)
        if key not in self.known:
            self.known[key] = p_fails(
                key,
                rate=self.rate,
                worked=self.siblings.worked,
                fell=self.siblings.fell,
                failed=self.failed,
                known=self.learned,
            )
        return self.known[key]

    def fails(self, failing: Failing) -> np.ndarray:
        """Which draws fail, shape (draws,)."""
        return self.luck < self._at(failing.draws)

    def shift(self, failing: Failing, nearing: Nearing) -> np.ndarray:
        """What the levels of runs that hold gain or lose as settings leave or near the border, log-odds, (draws,)."""
        if failing.room is None or failing.before is None:
            return np.zeros(len(self.luck))
        return nearing.shift(self._at(failing.before), self._at(failing.room))

    def _at(self, values: np.ndarray) -> np.ndarray:
        place = (self.place * np.array(values.shape)).astype(int)
        return values[place[:, 0], place[:, 1]]


def risks_of(
    present: Mapping[str, float],
    size: int,
    failed: bool,
    rate: float | None,
    seed: int,
    learned: LearnedFailures,
    siblings: TriedSettings | None = None,
) -> Risks:
    """P(fails) of candidates beside a present run.

    Args:
        present: Its settings.
        size: Number of draws.
        failed: Whether it failed itself.
        rate: Its learning rate on the scale that runs share; None where it has none.
        seed: Seed.
        learned: What others' runs teach of failing.
        siblings: What became of siblings at their settings.
    """
    rng = np.random.default_rng(seed_of(seed, "risk"))
    luck, place = rng.permutation((np.arange(size) + 0.5) / size), rng.random((size, 2))
    return Risks(dict(present), luck, place, failed, rate, learned, siblings or TriedSettings())
