"""What the measurement noise of a fit rests on, and how far the log departs from it."""

from __future__ import annotations

import math

import numpy as np

from bayes_grpo.common.intervals import LEVEL, interval
from bayes_grpo.fitting.result import Fit
from bayes_grpo.rows.table import CHANCE

_LESS = (
    "rows scatter less than new prompts would make them: perhaps the same prompts come back, or groups are dropped "
    "before the mean is taken"
)
_MORE = (
    "rows scatter more than so many completions should: perhaps several rewards are summed, batches are smaller than "
    "stated, or the prompts of a step are alike"
)


def measured(fit: Fit, level: float = LEVEL) -> str:
    """A sentence: the noise that was expected of a row, what that rests on, and what the rows show.

    Args:
        fit: The fit.
        level: Probability inside the interval.

    Returns:
        The sentence; "" where the log says nothing of its noise, or a prior of the user's stands in its place.
    """
    known = fit.posterior.rows.table.level
    name = "observation_sd"
    if known is None or name not in fit.priors or not math.isclose(fit.priors[name].median, known.sd, rel_tol=1e-6):
        return ""
    ratio = interval(fit.draws(name) / known.sd, level)
    said = (
        f"Measurement noise: {known.sd:.3g} of a typical row is expected from {known.rests_on} (give or take "
        f"{100 * math.expm1(known.spread):.0f}%); the rows show {ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] "
        "times as much"
    )
    if abs(np.log(ratio.median)) <= CHANCE * known.spread:
        return f"{said}."
    return f"{said}; {_LESS if ratio.median < 1.0 else _MORE}."
