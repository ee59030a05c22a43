"""What a forecast and a look at a growing log have in common; a trainer may import it without JAX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.results import Result


@dataclass(frozen=True, kw_only=True)
class Expected(Result):
    """Rewards and probabilities up to a horizon.

    Attributes:
        sentence: The forecast in words.
        now: Latent reward at the last logged step.
        at_horizon: Latent reward at the horizon.
        remaining_gain: Latent reward at the horizon minus now.
        highest: Highest logged row where the reward's highest value is unknown; infinite where it is known.
        threshold: Gain that counts, reward.
        p_gain: Probability that the remaining gain until the horizon exceeds the threshold.
        p_peaked: Probability that the curve has peaked: the trend falls by more than the threshold before the
            horizon and never rises above the present reward by as much.
        p_collapse: Probability of an unmodeled collapse before the horizon (`bayes_grpo.forecasting.events`); 0 where
            the log has nothing to lose or a single regime is followed.
        p_takeoff: Probability of an unmodeled take-off, likewise.
        weights: Weight of each regime.
        until: The horizon, optimizer step.
        until_from: Where it comes from, see `bayes_grpo.forecasting.horizon`.
    """

    sentence: str
    now: Interval
    at_horizon: Interval
    remaining_gain: Interval
    highest: float
    threshold: float
    p_gain: float
    p_peaked: float
    p_collapse: float
    p_takeoff: float
    weights: Mapping[str, float]
    until: float
    until_from: str

    def reward_text(self, value: Interval) -> str:
        """A reward with its interval; one above all rows is what a regime alone says, and no number."""
        if value.median > self.highest:
            return f"above {self.highest:.3g}, beyond what this run has shown"
        return f"{value.median:.3g} [{value.low:.3g}, {value.high:.3g}]"
