"""What all modes share: how far the run has come, and whether it still moves."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.diagnosis.evidence import MANY, Courses, Evidence, logit, quantity, score
from bayes_grpo.diagnosis.trend import Trend


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
    features = course_features(course, courses)
    p = float(np.mean(gain > 0))
    level = quantities[2].posterior
    g = quantities[0].posterior
    sentence = (
        f"the {name} changed by {g.median:.3g} [{g.low:.3g}, {g.high:.3g}] ({g.level:.0%}) to {level.median:.3g}; "
        f"growth has a probability of {probability_text(p)}"
    )
    used = ("eval_reward",) if courses.uses_eval else ("reward",)
    missing = ("reward",) if courses.uses_eval else ()
    return Evidence("progress", p, tuple(quantities), used, missing, sentence, features)


def course_features(course: Trend, courses: Courses) -> dict[str, float]:
    """Growth of a reward's course, and its levels where the reward's range is known."""
    gain = course.change()
    late = course.change(first=course.step[-1] - (course.step[-1] - course.step[0]) / 3.0)
    features = {
        "gain_score": score(gain),
        "gain_over_noise": float(np.clip(np.arcsinh(gain.mean() / course.noise_sd), -MANY, MANY)),
        "late_score": score(late),
        "level_start": np.nan,
        "level_end": np.nan,
    }
    if np.isfinite(courses.low):
        share = (course.draws[:, [0, -1]] - courses.low) / (courses.high - courses.low)
        features["level_start"], features["level_end"] = logit(share, 0.01).mean(axis=0)
    return features
