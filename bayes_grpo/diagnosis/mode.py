"""The seam of a failure mode: what a file in `bayes_grpo.diagnosis.modes` states, and how the files are found.

When a failure began is read off the draws of a trend: each is one possible history.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.modules import modules_in
from bayes_grpo.diagnosis import modes
from bayes_grpo.diagnosis.classes import CANNOT_TELL, MODES
from bayes_grpo.diagnosis.evidence import ModeEvidence
from bayes_grpo.diagnosis.trends import RunTrends

ONSET_STEPS = 120
"""Steps at which a trend is asked for an onset."""


class Mode:
    """One way in which a run goes wrong, or stands still. A file states ``MODE``, an instance of a subclass.

    Modes of `classes.MODES` have learned weights and are weighed against each other (`bayes_grpo.diagnosis.layer`). Any
    other mode speaks for itself: its own probability is that of its evidence.

    Attributes:
        name: Standard name, as in results.
        label: The name in words.
        signals: Canonical names of the signals that it looks at.
        is_failure: Whether it is something to be alarmed at.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    signals: ClassVar[tuple[str, ...]] = ()
    is_failure: ClassVar[bool] = True

    def evidence(self, trends: RunTrends) -> ModeEvidence | None:
        """What the log says of it; None where it rests on what all modes share.

        Args:
            trends: Trends of the run.
        """
        return None

    def onset(self, trends: RunTrends) -> tuple[np.ndarray, str] | None:
        """Draws of the step at which it began, and by what it is dated; None where the log has nothing to date it by.

        Args:
            trends: Trends of the run.
        """
        return None

    def remedies(self, trends: RunTrends, evidence: ModeEvidence, onset: Interval | None) -> tuple[str, ...]:
        """What to do about it, tied to the run's own numbers.

        Args:
            trends: Trends of the run.
            evidence: Its evidence, or what all modes share.
            onset: Step at which it began, where known.
        """
        return ()


def steps_between(first: float, last: float) -> np.ndarray:
    """Evenly spaced steps at which to ask a trend, shape (`ONSET_STEPS`,)."""
    return np.linspace(first, last, ONSET_STEPS)


def last_true(condition: np.ndarray) -> np.ndarray:
    """Index of the last true value of each row, shape (rows,); 0 without any.

    Args:
        condition: Shape (rows, n).
    """
    n = condition.shape[1]
    return np.where(condition.any(axis=1), n - 1 - condition[:, ::-1].argmax(axis=1), 0)


def all_modes() -> tuple[Mode, ...]:
    """Every mode found in the package `bayes_grpo.diagnosis.modes`: the classified ones first, the rest by name."""
    return _modes_in(tuple(modes.__path__))


@cache
def _modes_in(path: tuple[str, ...]) -> tuple[Mode, ...]:
    """The modes, looked for once for each search path of the package."""
    found = [module.MODE for module in modules_in(modes, "MODE")]
    place = {name: i for i, name in enumerate(MODES)}
    return tuple(sorted(found, key=lambda m: (place.get(m.name, len(place)), m.name)))


def label_of(name: str) -> str:
    """A mode or an answer in words."""
    labels = {"healthy": "healthy", CANNOT_TELL: "cannot tell"} | {m.name: m.label for m in all_modes()}
    return labels.get(name, name.replace("_", " "))
