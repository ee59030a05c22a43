"""What all modes share: how far the run has come, and whether it still moves."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.events import going, grew, span, sure
from bayes_grpo.diagnosis.evidence import Evidence, quantity

PROGRESS = "progress"
"""Name of the evidence that all modes share."""


def progress_evidence(courses: Courses) -> Evidence:
    """Net change, late change and level of the reward."""
    course = courses.progress
    gain = course.change()
    late_start = course.step[-1] - (course.step[-1] - course.step[0]) / 3.0
    late = course.change(first=late_start)
    name = "held-out reward" if courses.uses_eval else "train reward"
    quantities = [
        quantity("gain", gain, "reward", f"change of the {name} over the log"),
        quantity("late_gain", late, "reward", "change over the last third of the log"),
        quantity("level", course.draws[:, -1], "reward", "where it stands"),
    ]
    rose = grew(course)
    p = float(np.mean(rose))
    level = quantities[2].posterior
    g = quantities[0].posterior
    sentence = (
        f"the {name} changed by {g.median:.3g} [{g.low:.3g}, {g.high:.3g}] ({g.level:.0%}) to {level.median:.3g}; "
        f"growth beyond the noise of a row has a probability of {probability_text(p)}"
    )
    used = ("eval_reward",) if courses.uses_eval else ("reward",)
    missing = ("reward",) if courses.uses_eval else ()
    features = {"grew": sure(rose), "train_reward": float(not courses.uses_eval)}
    features["going"] = sure(going(course, span(courses, course)))
    return Evidence(PROGRESS, p, tuple(quantities), used, missing, sentence, features)
