"""A plateau: the reward moves no more. No failure, and seen in what all modes share, but there are remedies."""

from __future__ import annotations

from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.evidence import Evidence
from bayes_grpo.diagnosis.mode import Mode


class Plateaued(Mode):
    """A reward at rest."""

    name = "plateaued"
    label = "plateaued"
    is_failure = False

    def remedies(self, courses: Courses, evidence: Evidence, onset: Interval | None) -> tuple[str, ...]:
        """Louder updates, quieter batches, or the end."""
        return (
            "a larger learning rate, if the KL hardly grew; more prompts a step, if noise hides the trend",
            "stop here if the level is what you need: the log shows no growth to wait for",
        )


MODE = Plateaued()
