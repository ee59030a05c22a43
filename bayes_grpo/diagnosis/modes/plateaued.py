"""A plateau: the reward moves no more. No failure, and seen in what all modes share, but there are remedies."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.components import parts_of
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.evidence import Evidence
from bayes_grpo.diagnosis.mode import Mode

_CANCELS = 0.5
"""Share of one reward function's rise that another takes back, from which the two are said to cancel."""


class Plateaued(Mode):
    """A reward at rest."""

    name = "plateaued"
    label = "plateaued"
    is_failure = False

    def remedies(self, courses: Courses, evidence: Evidence, onset: Interval | None) -> tuple[str, ...]:
        """Louder updates, quieter batches, or the end."""
        functions = parts_of(courses)
        back = None if functions is None else functions.taken_back
        cancel = ()
        if functions is not None and back is not None and float(np.median(back)) > _CANCELS:
            cancel = (f"weigh the reward functions anew: {functions.sentence}",)
        return (
            *cancel,
            "a larger learning rate, if the KL hardly grew; more prompts a step, if noise hides the trend",
            "stop here if the level is what you need: the log shows no growth to wait for",
        )


MODE = Plateaued()
