"""A plateau: the reward moves no more. No failure, and seen in what all modes share, but there are remedies."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.diagnosis.advice import fails_at, rate_times, said, span_text
from bayes_grpo.diagnosis.components import parts_of
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.events import SOLVED, span, swings
from bayes_grpo.diagnosis.evidence import Evidence
from bayes_grpo.diagnosis.mode import Mode

_CANCELS = 0.5
"""Share of one reward function's rise that another takes back, from which the two are said to cancel."""
_SWINGS = 0.5
"""Probability of swings above which no one should raise a learning rate."""


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
        level = float(courses.share(courses.progress.mean[-1]))
        if level > SOLVED:
            return (*cancel, f"the task is solved (reward {level:.0%} of its range): stop, or take harder prompts")
        restless = swings(courses, span(courses, courses.progress)) > _SWINGS
        louder = (
            () if restless else (f"raise {rate_times(courses.run, 2.0)} ({fails_at(2.0, False)}){_drift(courses)}",)
        )
        return (
            *cancel,
            *louder,
            _quieter(courses),
            "stop here if the level is what you need: the log shows no growth to wait for",
        )


def _drift(courses: Courses) -> str:
    """Whether the policy moved away from its reference while the reward stood still."""
    kl = courses.signals.get("kl")
    if kl is None:
        return ", if the KL hardly grew"
    return f", unless the KL's change of {span_text(interval(kl.change()))} over the log is more than you allow"


def _quieter(courses: Courses) -> str:
    """How small a trend the noise of a row hides, and what more prompts would do."""
    course, prompts = courses.progress, courses.run.settings.prompts_per_step
    more = said("B", prompts)
    batch = f" ({more}; {4 * float(prompts.value):g} would halve it)" if prompts.value else ""
    return f"more prompts a step, if noise hides the trend: a row's noise is {course.noise_sd:.2g}{batch}"


MODE = Plateaued()
