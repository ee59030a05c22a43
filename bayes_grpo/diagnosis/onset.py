"""When a failure began: a posterior over the step, from the draws of the mode's own course.

Each draw of a course is one possible history; the step at which it begins to fail is read off every one of them.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.diagnosis.advantage_degeneracy import FAILING_SHARE, dead_rows
from bayes_grpo.diagnosis.evidence import Courses

_POINTS = 120
HALF = float(np.log(0.5))


def onset_of(mode: str, courses: Courses) -> tuple[np.ndarray, str] | None:
    """Draws of the step at which a failure began, and what marks it; None where the log has nothing to date it by.

    * reward hacking: where the train reward's rise and the held-out reward's part for the last time;
    * advantage degeneracy: where the share of groups without spread last rose above its failing range, or the first of
      the rows without spread;
    * policy concentration: where half of the starting entropy is spent;
    * dynamical instability: where the reward's course first comes near its best, from which it falls.

    Args:
        mode: The failure.
        courses: Courses of the run.
    """
    return _FINDERS[mode](courses)


def _hacking(courses: Courses) -> tuple[np.ndarray, str] | None:
    train, held = courses.progress, courses.held_out
    if held is None:
        return None
    first, last = max(train.step[0], held.step[0]), min(train.step[-1], held.step[-1])
    if last <= first:
        return None
    steps = np.linspace(first, last, _POINTS)
    rise, carried = train.at(steps), held.at(steps)
    gap = (rise - rise[:, :1]) - (carried - carried[:, :1])
    small = gap <= 0.15 * np.maximum(gap[:, -1:], 1e-12)
    return steps[_last_true(small)], "train and held-out reward part"


def _degeneracy(courses: Courses) -> tuple[np.ndarray, str] | None:
    share = courses.signals.get("frac_reward_zero_std")
    if share is not None:
        steps = np.linspace(share.step[0], share.step[-1], _POINTS)
        return steps[_last_true(share.at(steps) <= FAILING_SHARE)], f"share without spread rises above {FAILING_SHARE}"
    dead = dead_rows(courses, all_rows=True)
    if dead is None or not dead.any():
        return None
    # Rows alive or dead with one rate before and another after: the marginal likelihood of every cut.
    steps = courses.progress.raw_step
    steps = steps[-len(dead) :]
    log_weight = np.array([_two_rates(dead[:k]) + _two_rates(dead[k:]) for k in range(len(dead))])
    weight = np.exp(log_weight - log_weight.max())
    draws = np.random.default_rng(0).choice(steps, 400, p=weight / weight.sum())
    return draws, "rows without spread become more frequent"


def _two_rates(dead: np.ndarray) -> float:
    """Log marginal likelihood of a block of rows with one unknown rate of dead ones."""
    from math import lgamma

    k, n = int(dead.sum()), len(dead)
    return lgamma(k + 1) + lgamma(n - k + 1) - lgamma(n + 2)


def _concentration(courses: Courses) -> tuple[np.ndarray, str] | None:
    entropy = courses.signals.get("entropy")
    if entropy is None:
        return None
    steps = np.linspace(entropy.step[0], entropy.step[-1], _POINTS)
    path = entropy.at(steps)
    return steps[_last_true(path - path[:, :1] > HALF)], "half of the starting entropy is spent"


def _instability(courses: Courses) -> tuple[np.ndarray, str] | None:
    course = courses.progress
    steps = np.linspace(course.step[0], course.step[-1], _POINTS)
    path = course.at(steps)
    top, low = path.max(axis=1, keepdims=True), path.min(axis=1, keepdims=True)
    # The first of several tops, so that a run that swings is dated by its first swing.
    return steps[(path >= top - 0.1 * (top - low)).argmax(axis=1)], "the reward comes near its best for the first time"


def _last_true(condition: np.ndarray) -> np.ndarray:
    """Index of the last true value of each row; 0 without any."""
    n = condition.shape[1]
    return np.where(condition.any(axis=1), n - 1 - condition[:, ::-1].argmax(axis=1), 0)


_FINDERS = {
    "reward_hacking": _hacking,
    "advantage_degeneracy": _degeneracy,
    "policy_concentration": _concentration,
    "dynamical_instability": _instability,
}
