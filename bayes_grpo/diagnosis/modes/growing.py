"""Growth: the reward rises. No failure: what a history of a run tells beside its failures."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.advice import span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.growth import going_along
from bayes_grpo.events.log_odds import half_log_odds_along


class Growing(Mode):
    """A reward that rises."""

    name = "growing"
    label = "growing"
    is_failure = False
    predictors = ("rising", "rising beyond noise")

    def course(self, trends: RunTrends) -> np.ndarray:
        """Whether the reward rises about each row, and by how much, in noise of a row."""
        trend = trends.reward
        step, reach = trend.step, (trend.step[-1] - trend.step[0]) / 6.0
        change = (trend.at(step + reach) - trend.at(step - reach)).mean(axis=0)
        most = BORDERS.log_odds_bound
        rising = half_log_odds_along(going_along(trend, trends.span))
        return np.column_stack([rising, np.clip(change / max(trend.noise_sd, 1e-12), -most, most)])

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """How the reward moved over it."""
        trend = trends.reward
        ends = trend.at(np.array([first, last]))
        return (
            f"the reward goes from {span_text(interval(ends[:, 0]), '.2g')} to {span_text(interval(ends[:, 1]), '.2g')}"
        )


MODE = Growing()
