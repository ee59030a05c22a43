"""From a run to the evidence of every mode, and to the vector that the classification sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.diagnosis.courses import Courses, courses_of
from bayes_grpo.diagnosis.damping import dampings_of
from bayes_grpo.diagnosis.evidence import Evidence
from bayes_grpo.diagnosis.mode import Mode, all_modes
from bayes_grpo.diagnosis.progress import PROGRESS, course_features, fall_features, progress_evidence
from bayes_grpo.logs.run import Run

MIN_ROWS = 3
"""Fewer rewards than this show no course."""


HELD_OUT = "held_out_"
"""Begins the names of features of the held-out reward's own course."""
_OWN = (
    "gain_score",
    "gain_over_noise",
    "late_score",
    "level_start",
    "level_end",
    "fall_share",
    "fall_over_noise",
    "fell",
)
_OF_TRAIN = (*_OWN, "kl_ahead", "entropy_headroom", "oscillates", "swings_grow", "excess_noise")


class RunEvidence(NamedTuple):
    """Everything gathered from a run.

    Attributes:
        courses: Courses of its signals.
        evidence: Name → evidence: progress and the modes, those with a learned likelihood first.
    """

    courses: Courses
    evidence: dict[str, Evidence]

    @property
    def features(self) -> dict[str, float]:
        """What the classification sees, by name.

        Beside a train reward the held-out reward speaks through its coupling. Alone it has features of its own: a
        hacked run's held-out reward does not rise as its train reward does.
        """
        found = self.all_features
        if self.courses.uses_eval:
            return found | dict.fromkeys(_OF_TRAIN, np.nan)
        return {k: np.nan if k.startswith(HELD_OUT) else v for k, v in found.items()}

    @property
    def all_features(self) -> dict[str, float]:
        """The same without leaving any out: what is learned from."""
        learned = [e for e in self.evidence.values() if e.mode in (PROGRESS, *MODES)]
        found = {k: v for e in learned for k, v in e.features.items()}
        held = self.courses.progress if self.courses.uses_eval else self.courses.held_out
        own = dict.fromkeys(_OWN, np.nan)
        if held is not None:
            own = course_features(held, self.courses) | fall_features(held)
        return found | {HELD_OUT + k: v for k, v in own.items()}


def gather(run: Run) -> RunEvidence | None:
    """Evidence of one run; None where it has too few rewards."""
    return gather_all([run])[0]


def gather_all(runs: Sequence[Run]) -> list[RunEvidence | None]:
    """Evidence of many runs; the damping of all with one compiled program."""
    modes = all_modes()
    signals = {name for mode in modes for name in mode.signals}
    courses = [courses_of(run, signals) for run in runs]
    kept = [c for c in courses if c is not None and c.progress.rows >= MIN_ROWS]
    moving = [c for c in kept if np.ptp(c.progress.value) > 4.0 * c.progress.noise_sd * 1e-3]
    dampings = dict(zip(map(id, moving), dampings_of([c.progress for c in moving]), strict=True)) if moving else {}
    usable = set(map(id, kept))
    return [
        _evidence(replace(c, damping=dampings.get(id(c))), modes) if c is not None and id(c) in usable else None
        for c in courses
    ]


def _evidence(courses: Courses, modes: Sequence[Mode]) -> RunEvidence:
    found = [progress_evidence(courses), *(mode.evidence(courses) for mode in modes)]
    return RunEvidence(courses, {e.mode: e for e in found if e is not None})


def vector(features: dict[str, float], names: Sequence[str]) -> np.ndarray:
    """Features in a fixed order, NaN where the log cannot say."""
    return np.array([features.get(name, np.nan) for name in names], dtype=float)
