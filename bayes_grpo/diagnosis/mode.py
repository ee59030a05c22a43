"""The seam of a failure mode: what a file in `bayes_grpo.diagnosis.modes` states, and how the files are found."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.modules import modules_in
from bayes_grpo.diagnosis import modes
from bayes_grpo.diagnosis.classes import CANNOT_TELL, MODES
from bayes_grpo.diagnosis.evidence import ModeEvidence
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.trends import RunTrends

EPISODE_STEPS = 9
"""Steps at which a trend is asked over an episode."""


class Mode:
    """One way in which a run goes wrong, or stands still. A file states ``MODE``, an instance of a subclass.

    A mode with a `strength` is followed over time (`bayes_grpo.diagnosis.timeline`), and so is one that a logged
    quantity measures. Those of `classes.MODES` share out the answer; any other speaks for itself.

    Attributes:
        name: Standard name, as in results.
        label: The name in words.
        signals: Canonical names of the signals that it looks at.
        is_failure: Whether it is something to be alarmed at.
        shown_by: What a log has to hold for it to be seen, in words; "" where the reward shows it.
        is_defined: Whether `strength` defines it on the rows.
        is_measured: Whether a logged quantity defines it, so that it is followed over time with nothing to learn.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    signals: ClassVar[tuple[str, ...]] = ()
    is_failure: ClassVar[bool] = True
    is_defined: ClassVar[bool] = False
    is_measured: ClassVar[bool] = False
    shown_by: ClassVar[str] = ""

    def strength(self, rows: RunSoFar) -> float:
        """By how many times what counts the rows show it: above 1 it is under way, below it is not.

        Args:
            rows: The rows up to a step.

        Returns:
            At least 0; NaN where no logged signal could show it; infinite where it is measured directly.
        """
        return np.nan

    def began(self, rows: RunSoFar) -> Interval | None:
        """Between which steps what goes on began, where the rows date it better than the first look that shows it.

        Args:
            rows: All rows.
        """
        return None

    def measured(self, trends: RunTrends) -> np.ndarray | None:
        """Draws of whether it is under way at each row, where a logged quantity defines it, with nothing to learn.

        Args:
            trends: Trends of the run.

        Returns:
            Shape (draws, n), bool; None for a mode that is learned, or where the log lacks the quantity.
        """
        return None

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """How bad an episode of it is, a clause with the run's own numbers; "" where there is no measure.

        Args:
            trends: Trends of the run.
            first: First step of the episode.
            last: Last step.
        """
        return ""

    def evidence(self, trends: RunTrends) -> ModeEvidence | None:
        """What the log says of it; None where it rests on what all modes share.

        Args:
            trends: Trends of the run.
        """
        return None


def steps_between(first: float, last: float) -> np.ndarray:
    """Evenly spaced steps at which to ask a trend, shape (`EPISODE_STEPS`,)."""
    return np.linspace(first, last, EPISODE_STEPS)


def all_modes() -> tuple[Mode, ...]:
    """Every mode found in the package `bayes_grpo.diagnosis.modes`: the classified ones first, the rest by name."""
    return _modes_in(tuple(modes.__path__))


def followed_modes() -> tuple[Mode, ...]:
    """The modes that have a course over time."""
    return tuple(mode for mode in all_modes() if mode.is_defined or mode.is_measured)


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
