"""How far a run is forecast by default: to its planned end, else half as far again as the log reaches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from bayes_grpo.logs.settings import Setting

AHEAD = 1.5
"""Horizon in units of the last logged step, where no planned length lies ahead."""
GIVEN = "given"


class Horizon(NamedTuple):
    """A step to forecast to.

    Attributes:
        until: Optimizer step.
        origin: Where it comes from, in words: "given", "planned length", "1.5 times the last step", "half as far again
            as the rows reach"; to the last two is added where a planned length is reached.
    """

    until: float
    origin: str

    @property
    def sentence(self) -> str:
        """What a forecast says of a default horizon; "" of one that was given."""
        if self.origin == GIVEN:
            return ""
        reached = f"{self.origin.removesuffix(_REACHED)} (the planned length is reached)"
        return f"forecast to step {self.until:g}, {_WORDS.get(self.origin, reached)}"


_PLANNED, _FURTHER = "planned length", f"{AHEAD:g} times the last step"
_REACHED = ", the planned length being reached"
_LATE = 0.1
"""Share of the last step from which on a log has begun late: the steps before its rows say nothing."""
_AS_FAR = "1.5 times as far as the rows reach"
_WORDS = {
    _AS_FAR: f"{_AS_FAR} (they begin at a late step)",
    _PLANNED: f"the {_PLANNED}",
    _FURTHER: f"{_FURTHER} (total_steps is not logged)",
}


def horizon_of(
    settings: Mapping[str, Setting], last: float, horizon: float | None = None, first: float = 0.0
) -> Horizon:
    """The step up to which a run is forecast.

    Args:
        settings: Settings of the run by name.
        last: Its last logged step.
        horizon: What the user says.
        first: Its first logged step.

    Returns:
        The user's step; else the planned length where it lies ahead; else half as far again as the log, or as its rows
        where these begin late, in whole steps where the log has these.
    """
    if horizon is not None:
        return Horizon(float(horizon), GIVEN)
    planned = settings["total_steps"].value if "total_steps" in settings else None
    if planned is not None and float(planned) > last:
        return Horizon(float(planned), _PLANNED)
    late = last > first > _LATE * last
    further = last + (AHEAD - 1.0) * (last - first) if late else AHEAD * last
    step = float(math.ceil(further)) if last == round(last) else further
    return Horizon(step, (_AS_FAR if late else _FURTHER) + ("" if planned is None else _REACHED))
