"""What remedies are made of: a run's own settings in words, and what the model of its dynamics expects of a change.

A swinging course tells its gain g = η K by its natural frequency, ω₀² = g / m. The border of stability and the gain at
which swings begin follow from momentum and refresh interval alone (`bayes_grpo.dynamics.reduction`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.intervals import Interval
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.damping import MAX_ROWS
from bayes_grpo.diagnosis.events import span, swings
from bayes_grpo.dynamics.reduction import critical_gain, mean_lag, oscillator_coefficients
from bayes_grpo.logs.run import Provenance, Run, Setting

_MOST_DRAWS = 2000
_GRID = 800


def said(name: str, setting: Setting) -> str:
    """A setting with its value, e.g. "G = 8 (assumed)"; "" where nobody knows it."""
    if setting.value is None:
        return ""
    value = f"{setting.value:g}" if isinstance(setting.value, int | float) else str(setting.value)
    return f"{name} = {value}" + (" (assumed)" if setting.provenance is Provenance.ASSUMED else "")


def learning_rate(run: Run) -> float | None:
    """Highest logged learning rate; None where none is logged."""
    rates = run.signals.get("learning_rate", np.empty(0))
    rates = rates[np.isfinite(rates) & (rates > 0.0)]
    return float(rates.max()) if len(rates) else None


def rate_times(run: Run, factor: float) -> str:
    """A change of the learning rate in words, with its numbers where it is logged."""
    rate = learning_rate(run)
    if rate is None:
        return f"the learning rate to {factor:.2g} times its value"
    return f"the learning rate from {rate:.3g} to {factor * rate:.3g}"


def span_text(found: Interval, digits: str = ".2g") -> str:
    """Median and interval with its level."""
    return f"{found.median:{digits}} [{found.low:{digits}}, {found.high:{digits}}] ({found.level:.0%})"


class Stability(NamedTuple):
    """What settings allow, and what the course says of it.

    Attributes:
        border: Gain g = η K from which the policy held for K_ref steps is unstable.
        calm: Gain up to which a run does not swing.
        gain: Draws of the run's gain by its course, shape (draws,); None where it does not swing.
    """

    border: float
    calm: float
    gain: np.ndarray | None


def stability_of(courses: Courses) -> Stability | None:
    """Border of stability of a run's settings and its own gain; None without momentum or refresh interval."""
    settings = courses.run.settings
    momentum, interval_ = settings.momentum.value, settings.refresh_interval.value
    if momentum is None or not interval_:
        return None
    mu, lag = float(momentum), mean_lag(math.ceil(float(interval_)), "hold")
    border = critical_gain(mu, math.ceil(float(interval_)), "hold")
    grid = np.geomspace(1e-6, border, _GRID)
    law = oscillator_coefficients(grid, 1.0, mu, lag)
    smooth = law.damping >= 2.0 * np.sqrt(law.mass * law.stiffness)
    calm = float(grid[smooth][-1]) if smooth.any() else 0.0
    return Stability(border, calm, _gain(courses, mu, lag))


def _gain(courses: Courses, momentum: float, lag: float) -> np.ndarray | None:
    """Draws of the gain of a course that swings, from its natural frequency."""
    damping, course = courses.damping, courses.progress
    if damping is None or swings(courses, span(courses, course)) < 0.5:
        return None
    drawn = np.random.default_rng(0).choice(len(damping.weight), _MOST_DRAWS, p=damping.weight)
    zeta, rows = damping.damping_ratio[drawn], min(course.rows, MAX_ROWS)
    length = float(course.step[-1] - course.step[0]) * (1.0 + 1.0 / max(rows - 1, 1))
    # The grid's response time holds that of the rows too, as in its likelihood.
    time = length * np.hypot(damping.response_time[drawn], 1.0 / rows)
    squared = (1.0 + 4.0 * zeta**2) / time**2
    # m = (1 + μ)/2 + g lag²/2, solved for g; a lag near the period leaves no such law.
    return squared * (1.0 + momentum) / 2.0 / np.maximum(1.0 - 0.5 * squared * lag**2, 0.1)
