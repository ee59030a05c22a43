"""From a run to the evidence of every mode, and to the events that the layer sees."""

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
from bayes_grpo.diagnosis.progress import PROGRESS, progress_evidence
from bayes_grpo.logs.run import Run

MIN_ROWS = 3
"""Fewer rewards than this show no course."""


class RunEvidence(NamedTuple):
    """Everything gathered from a run.

    Attributes:
        courses: Courses of its signals.
        evidence: Name → evidence: progress and the modes, those that the layer knows first.
    """

    courses: Courses
    evidence: dict[str, Evidence]

    @property
    def features(self) -> dict[str, float]:
        """What the layer sees, by name; NaN where the log cannot say."""
        learned = [e for e in self.evidence.values() if e.mode in (PROGRESS, *MODES)]
        return {k: v for e in learned for k, v in e.features.items()}


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
