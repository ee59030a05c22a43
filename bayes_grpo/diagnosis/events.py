"""What a run is, as events on latent courses: the definitions, with their borders in one place.

| event | holds where the course |
|---|---|
| grew | ends more than the noise of a row above its start |
| collapsed | has lost half of its gain, or of its level over the lowest reward; `MATERIAL` of its range; beyond noise |
| swings | swings, by a linear law, and by more than a tenth of its range |
| declined | ends a quarter of its range below its start, beyond noise |
| uncoupled | rose, and less than a quarter of the rise came with the held-out reward |
| going | went on growing over its second half, by `GOING` of its range |
| broken | fell within two rows to one value and stays there, while the policy is what it was |
| wasted | has groups without spread beyond what its level explains |
| spent | has lost four fifths of its entropy, with most of the reward's range not reached |

An event is judged on every draw of a course, so that its probability carries the uncertainty of the log; `sure` is half
of its log odds, held within ±`SURE`, because no border is worth more than that. *Strain* is no event but a sum: how
many e-folds gradient norm, KL, completion length and entropy lie beyond `CALM`, their ordinary range.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.trend import Trend

SURE = 2.0
LOST = 0.5
"""Share of gain or level that a collapse loses."""
MATERIAL = 0.03
"""Share of the reward's range below which no fall matters."""
WIDE = 0.1
"""Standard deviation of swings that matter, over the reward's range."""
DECLINE = 0.25
"""Share of the reward's range that a decline covers."""
GOING = 0.04
"""Share of the reward's range that a run gains over its second half while it is going on."""
SAME, BREAK, UNMOVED = 1e-6, 0.1, 0.7
"""A broken reward: largest spread of its rows and its fall over the range; e-folds by which entropy and length
of the completions may differ when it falls."""
CALM = {"burst": 8.0, "grad_norm": 6.0, "kl": 1.5, "completion_length": 3.3, "entropy": 2.0}
"""Largest row over the median and end over start of the gradient norm; KL in nats; end over start of the length (either
way) and of the entropy."""
STRAIN_EACH, STRAIN_MOST = 2.0, 3.0
FIRST = 2
"""Rows whose mean is the level at which a log begins, where it falls at once."""
SOLVED = 0.93
"""Share of the reward's range from which a task counts as solved."""
TAIL = 12
"""A course's end is the mean over its last twelfth."""


def sure(event: np.ndarray) -> float:
    """Half the log odds of an event, counted over draws, within ±`SURE`."""
    return odds((float(np.sum(event)) + 0.5) / (len(event) + 1.0))


def odds(p: float) -> float:
    """Half the log odds of a probability, within ±`SURE`."""
    p = min(max(p, 1e-6), 1.0 - 1e-6)
    return float(np.clip(0.5 * np.log(p / (1.0 - p)), -SURE, SURE))


def span(courses: Courses, course: Trend) -> float:
    """The range of a reward: the known one, or what the log shows of it."""
    if courses.has_range:
        return courses.high - courses.low
    return max(float(np.ptp(course.value)), 0.5 * float(np.abs(course.value).max()), 1e-12)


def grew(course: Trend) -> np.ndarray:
    """Draws of whether a course grew, shape (draws,)."""
    return course.change() > course.noise_sd


def collapsed(course: Trend, span: float, low: float = np.nan) -> np.ndarray:
    """Draws of whether a course collapsed, shape (draws,).

    Args:
        course: A reward's course.
        span: Its range.
        low: Lowest reward; NaN if unknown.
    """
    path = course.draws
    top, start = path.max(axis=1), path[:, 0]
    end = path[:, -max(1, path.shape[1] // TAIL) :].mean(axis=1)
    lost = top - end
    gain, noise = top - start, course.noise_sd
    of_gain = (lost > LOST * gain) & (gain > 2.0 * noise) & (lost > 2.0 * noise) & (path.argmax(axis=1) > 0)
    # A robust course passes over the rows before a fall within two steps.
    best = np.maximum(top, course.raw[:FIRST].mean())
    fall = best - end
    of_level = (fall > LOST * (best - low)) & (fall > 3.0 * noise) if np.isfinite(low) else np.zeros(len(top), bool)
    return (of_gain & (lost > MATERIAL * span)) | (of_level & (fall > MATERIAL * span))


def declined(course: Trend, span: float) -> np.ndarray:
    """Draws of whether a course declined, shape (draws,)."""
    change = course.change()
    return (change < -2.0 * course.noise_sd) & (change < -DECLINE * span)


def going(course: Trend, span: float) -> np.ndarray:
    """Draws of whether a course went on growing over its second half, shape (draws,)."""
    middle = 0.5 * (course.step[0] + course.step[-1])
    return course.change(first=middle) > GOING * span


def broken(courses: Courses) -> float:
    """How sure it is that the reward broke, and not the policy; within ±`SURE`.

    A policy that collapses takes its entropy and its completions along, and some steps; a verifier that fails does not.
    """
    course = courses.progress
    y, least = course.raw, max(3, len(course.raw) // 20)
    width = span(courses, course)
    away = np.flatnonzero(np.abs(y - y[-1]) > SAME * width)
    first = int(away[-1]) + 1 if len(away) else 0  # of the rows that are all the same
    if first < 4 or len(y) - first < least:
        return -SURE
    usual = float(np.median(y[max(0, first - 8) : first - 1]))
    # The row before may hold steps of both kinds.
    if usual - y[-1] < BREAK * width or y[first - 2] - y[-1] < 0.5 * (usual - y[-1]):
        return -SURE
    moved = [abs(_step_at(course.raw_step[first], c)) for k, c in courses.signals.items() if k in _POLICY]
    if not moved:
        return 0.5 * SURE
    return SURE if max(moved) < UNMOVED else -SURE


_POLICY = ("entropy", "completion_length")


def _step_at(step: float, course: Trend) -> float:
    """Change of a logged signal across a step: mean of the next three rows less that of the three before the last."""
    at = int(np.searchsorted(course.raw_step, step))
    before, after = course.raw[max(0, at - 4) : max(1, at - 1)], course.raw[at : at + 3]
    return float(after.mean() - before.mean()) if len(before) and len(after) else 0.0


def wide(course: Trend, span: float) -> float:
    """How far a reward's swings about a slow course go beyond `WIDE` of its range, within ±`SURE`.

    A linear law finds a swing in many a noisy log; one that matters moves the reward itself.
    """
    t, y = np.linspace(-1.0, 1.0, len(course.value)), course.value
    about = y - np.polyval(np.polyfit(t, y, min(3, len(y) - 1)), t)
    return float(np.clip(20.0 * (about.std() / span - WIDE), -SURE, SURE))


def strain(courses: Courses) -> float:
    """How far signals lie beyond their ordinary range, in e-folds, between 0 and `STRAIN_MOST`; NaN without any."""
    found = []
    norm, kl, length, entropy = (courses.signals.get(k) for k in ("grad_norm", "kl", "completion_length", "entropy"))
    if norm is not None:  # courses of gradient norm, length and entropy are those of their logarithms
        found.append(float((norm.raw - np.median(norm.raw)).max()) - np.log(CALM["burst"]))
        found.append(float(norm.change().mean()) - np.log(CALM["grad_norm"]))
    if kl is not None:
        found.append(float(np.log(max(abs(kl.mean[-1]), 1e-3) / CALM["kl"])))
    if length is not None:
        found.append(abs(float(length.change().mean())) - np.log(CALM["completion_length"]))
    if entropy is not None:
        found.append(float(entropy.change().mean()) - np.log(CALM["entropy"]))
    if not found:
        return np.nan
    if courses.has_range and float(courses.share(courses.progress.mean[-1])) > SOLVED:
        return 0.0  # a solved task has no gradient to speak of: what moves then is rounding
    return float(min(np.clip(found, 0.0, STRAIN_EACH).sum(), STRAIN_MOST))
