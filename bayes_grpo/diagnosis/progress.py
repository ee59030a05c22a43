"""What all modes share: how far the run has come, whether it still moves, and how far it fell from its best."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.events import going, grew, span, sure
from bayes_grpo.diagnosis.evidence import Evidence, quantity
from bayes_grpo.diagnosis.trend import Trend

PROGRESS = "progress"
"""Name of the evidence that all modes share."""
FELL = 0.3
"""Share of the curve's range that a run has to lose from its best to count as fallen."""


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
    p = float(np.mean(gain > 0))
    level = quantities[2].posterior
    g = quantities[0].posterior
    sentence = (
        f"the {name} changed by {g.median:.3g} [{g.low:.3g}, {g.high:.3g}] ({g.level:.0%}) to {level.median:.3g}; "
        f"growth has a probability of {probability_text(p)}"
    )
    used = ("eval_reward",) if courses.uses_eval else ("reward",)
    missing = ("reward",) if courses.uses_eval else ()
    features = {"grew": sure(grew(course)), "train_reward": float(not courses.uses_eval)}
    features["going"] = sure(going(course, span(courses, course)))
    return Evidence(PROGRESS, p, tuple(quantities), used, missing, sentence, features)


def falls(course: Trend) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws of the fall from the best to the end, of its share of the course's range, and of whether it counts.

    Every noisy curve ends somewhat below its best: only a fall beyond the noise of a row counts.
    """
    path = course.draws
    best = path.max(axis=1)
    fall = best - path[:, -1]
    share = fall / np.maximum(best - path.min(axis=1), 1e-300)
    return fall, share, (share > FELL) & (fall > 2.0 * course.noise_sd) & (path.argmax(axis=1) > 0)
