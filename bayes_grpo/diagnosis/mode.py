"""Interface of a failure mode, one file in `bayes_grpo.diagnosis.modes` each, and the map from strength to probability.

    P = least + (most - least) s^k / (c + s^k),     s: strength, the evidence over its threshold

c is such that P = 0.5 at s = 1, so that a threshold in the table is the one at which a failure is named.
`least` is the rate of a mode where its definition does not hold, `most` where it clearly holds: rounded shares of
labeled public logs, the only learned numbers. Definitions generalize to logs of new authors; weights learned from few
authors did not.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from bayes_grpo.common.imports import modules_in
from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis import modes
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends

HELD_OUT = "gold or evaluation reward"
"""What a mode wants that is no signal under one name."""
MOST_PROBABLE = 0.95
"""No probability is higher, however clear a measurement is: a log may be misread."""


class Calibration(NamedTuple):
    """Probabilities of a mode.

    Attributes:
        least: Where its definition does not hold.
        unseen: Where no logged signal could show it.
        most: Where it holds clearly.
        steep: Power of the strength.
    """

    least: float
    unseen: float
    most: float
    steep: float = 4.0

    def at(self, strength: float) -> float:
        """Probability at a finite strength: one half where the evidence is at its threshold."""
        half = (self.most - THRESHOLDS.probable) / (THRESHOLDS.probable - self.least)
        return self.least + (self.most - self.least) / (1.0 + half * (1.0 / max(strength, 1e-9)) ** self.steep)


MEASURED = Calibration(0.0, 0.0, MOST_PROBABLE, 12.0)
"""Calibration of a mode that a logged quantity defines: nothing is learned, and the threshold is sharp."""


class ModeLook(NamedTuple):
    """Probability of a mode by the rows up to a step.

    Attributes:
        probability: That it is under way.
        seen: Whether a signal for it is logged; if not, the probability is the rate in such logs.
    """

    probability: float
    seen: bool


class Mode:
    """One way in which a run fails or stalls. Each file defines ``MODE``, an instance of a subclass.

    Attributes:
        name: Standard name, as in results.
        label: The name in words.
        is_failure: Whether it needs an action.
        required_signal: Signal that it requires, in words; "" where the reward suffices.
        wants: Further useful signals, by their canonical names, or `HELD_OUT`.
        chances: Map from its strength to a probability.
        remedies: Names of `actions.ACTIONS`, the most useful first.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    is_failure: ClassVar[bool] = True
    required_signal: ClassVar[str] = ""
    wants: ClassVar[tuple[str, ...]] = ()
    chances: ClassVar[Calibration] = MEASURED
    remedies: ClassVar[tuple[str, ...]] = ()

    def strength(self, rows: RunSoFar) -> float:
        """Evidence over its threshold: above 1 the mode is under way, below 1 it is not.

        Args:
            rows: The rows up to a step.

        Returns:
            At least 0; NaN where no logged signal could show it; infinite where a single row measures it.
        """
        raise NotImplementedError

    def began(self, rows: RunSoFar) -> Interval | None:
        """Interval of its onset, where all rows date it better than the first look that shows it."""
        return None

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float) -> str:
        """Evidence for it, a clause with the run's numbers; "" without a measure.

        Args:
            rows: All rows.
            trends: Trends of the run.
            first: First step that counts.
            last: Last step.
        """
        return ""

    def look(self, rows: RunSoFar) -> ModeLook:
        """Its probability, given the rows up to a step."""
        strength, known = self.strength(rows), self.chances
        if np.isnan(strength):
            return ModeLook(known.unseen, False)
        if np.isinf(strength):
            return ModeLook(MOST_PROBABLE, True)
        if known is MEASURED and rows.reward.rows < THRESHOLDS.trend_rows:
            return ModeLook(known.least, True)
        return ModeLook(known.at(strength), True)


def all_modes() -> tuple[Mode, ...]:
    """Every mode found in the package `bayes_grpo.diagnosis.modes`: the four failures first, the rest by name."""
    return _modes_in(tuple(modes.__path__))


@cache
def _modes_in(path: tuple[str, ...]) -> tuple[Mode, ...]:
    """The modes, looked for once for each search path of the package."""
    found = [module.MODE for module in modules_in(modes)]
    place = {name: i for i, name in enumerate(MODES)}
    return tuple(sorted(found, key=lambda m: (place.get(m.name, len(place)), m.name)))


def failure_names() -> frozenset[str]:
    """Names of the modes that need an action."""
    return frozenset(mode.name for mode in all_modes() if mode.is_failure)


def label_of(name: str) -> str:
    """A mode in words."""
    return next((m.label for m in all_modes() if m.name == name), name.replace("_", " "))
