"""Fields shared by a forecast and a look at a growing log, and the horizon; a trainer imports it without JAX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bayes_grpo.common.document import ranged
from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.results import Result
from bayes_grpo.logs.settings import Setting

AHEAD = 1.5
"""Horizon in units of the last logged step, where no planned length lies ahead."""
REQUESTED = "given"
FAR_HORIZON = 10.0
"""Lengths of the log ahead of its end beyond which no row supports a forecast."""


class Horizon(NamedTuple):
    """A step to forecast to.

    Attributes:
        until: Optimizer step.
        origin: Where it comes from, in words: "given", "planned length", "end of the learning rate", "1.5 times the
            last step", "1.5 times as far as the rows reach"; to the last two is added where a planned length is
            reached.
    """

    until: float
    origin: str

    @property
    def sentence(self) -> str:
        """A default horizon in words; "" for one that was given."""
        if self.origin == REQUESTED:
            return ""
        reached = f"{self.origin.removesuffix(_REACHED)} (the planned length is reached)"
        return f"forecast to step {self.until:g}, {_WORDS.get(self.origin, reached)}"


class FarHorizon(NamedTuple):
    """A horizon so far ahead of a log of so many steps that no row supports a forecast."""

    until: float
    length: float

    @property
    def sentence(self) -> str:
        """The caution in words."""
        return (
            f"the horizon, step {self.until:g}, is more than ten times the log's length of {self.length:g} steps "
            "ahead: nothing supports a forecast that far; take a nearer one"
        )


_PLANNED = "planned length"
_FURTHER = f"{AHEAD:g} times the last step"
_REACHED = ", the planned length being reached"
_LATE = 0.1
"""Share of the last step from which on a log has begun late: the steps before its rows say nothing."""
_AS_FAR = f"{AHEAD:g} times as far as the rows reach"
_RATE_ENDS = "end of the learning rate"
_WORDS = {
    _RATE_ENDS: "where the learning rate reaches 0 (total_steps is not logged)",
    _AS_FAR: f"{_AS_FAR} (they begin at a late step)",
    _PLANNED: f"the {_PLANNED}",
    _FURTHER: f"{_FURTHER} (total_steps is not logged)",
}


def horizon_of(
    settings: Mapping[str, Setting],
    last: float,
    horizon: float | None = None,
    first: float = 0.0,
    rate_ends: float = math.inf,
) -> Horizon:
    """The step up to which a run is forecast.

    The user's step; else the planned length where it lies ahead; else half as far again as the log, or as its rows
    where these begin late, but not beyond the end of the learning rate; in whole steps where the log has these.
    """
    if horizon is not None:
        return Horizon(float(horizon), REQUESTED)
    planned = settings["total_steps"].value if "total_steps" in settings else None
    if planned is not None and float(planned) > last:
        return Horizon(float(planned), _PLANNED)
    late = last > first > _LATE * last
    whole = last == round(last)
    further = last + (AHEAD - 1.0) * (last - first) if late else AHEAD * last
    if last < rate_ends < further and planned is None:
        return Horizon(float(math.ceil(rate_ends)) if whole else rate_ends, _RATE_ENDS)
    step = float(math.ceil(further)) if whole else further
    return Horizon(step, (_AS_FAR if late else _FURTHER) + ("" if planned is None else _REACHED))


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
        until_from: Where it comes from, see `Horizon`.
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
        """A reward with its interval; of one above all rows that, as it is what regimes say and no row has shown."""
        above = " (above all rewards so far)" if value.median > self.highest else ""
        return ranged(value) + above
