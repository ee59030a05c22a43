"""Several probes of a training as one, and the course of a stiffness over it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.common.results import Result
from bayes_grpo.probing.estimate import Measured, Probe

POOLED_PROBES = 8
"""Probes that are taken together: in more of them the policy has moved on."""


def pooled_probes(probes: Sequence[Probe], last: int = POOLED_PROBES) -> Probe:
    """The last probes of a training as one.

    Their stiffness is the mean, its error that of the scatter between them, in which the errors of each are, and what
    the policy moved. The late share is the mean of those that are positive.

    Args:
        probes: In the order of their steps; at least one.
        last: How many, at most.

    Returns:
        The last probe itself where there are fewer than three; else one with the stiffness of all, at the last step.
    """
    latest = list(probes)[-last:]
    if len(latest) < 3:
        return latest[-1]
    values = np.array([x.stiffest.mean for x in latest])
    error = float(values.std(ddof=1)) / math.sqrt(len(latest))
    crossed, chosen = (float(np.mean([getattr(x.stiffest, name) for x in latest])) for name in ("crossed", "chosen"))
    together = Measured(float(values.mean()), error, len(latest) - 1.0, crossed, chosen)
    positive = [x.late_share for x in latest if x.stiffest.mean > 0.0]
    return replace(
        latest[-1],
        stiffest=together,
        late_share=float(np.mean(positive)) if positive else 1.0,
        parts=sum(x.parts for x in latest),
        gradients=sum(x.gradients for x in latest),
    )


FEWEST_PROBES = 4
"""Probes that a course needs: three increments, of which one goes into the drift."""
_HIGHEST = 700.0
"""Largest logarithm whose number there is."""


@dataclass(frozen=True)
class StiffnessCourse(Result):
    """A random walk with drift of the stiffness's logarithm, its drift and its spread known from few increments.

    The error of each probe is in the increments too, so forecasts are rather too wide than too narrow.

    Attributes:
        first: Step of the first probe.
        last: Step of the last one.
        level: Logarithm of the last stiffness.
        drift: Change of the logarithm a step.
        spread: Standard deviation of the logarithm's change in one step, over √step.
        freedom: Degrees of freedom of the Student t.
    """

    first: float
    last: float
    level: float
    drift: float
    spread: float
    freedom: float

    also_in_json = ("sentence",)

    @property
    def sentence(self) -> str:
        """Where it goes, in words."""
        ahead = self.at(2.0 * self.last - self.first)
        return (
            f"Stiffness from step {self.first:g} to {self.last:g}: {100.0 * math.expm1(100.0 * self.drift):+.3g}% in "
            f"100 steps; after as many steps again {ahead.median:.3g}, {ahead.level:.0%} interval {ahead.low:.3g} to "
            f"{ahead.high:.3g}."
        )

    def at(self, step: float) -> Interval:
        """Stiffness at a later step: median and interval."""
        elapsed = step - self.last
        if not elapsed >= 0:
            raise SettingError(f"course: expected a step from {self.last:g} on, found {step!r}")
        centre = self.level + self.drift * elapsed
        scale = self.spread * math.sqrt(elapsed + elapsed**2 / (self.last - self.first))
        reach = float(stdtrit(self.freedom, 0.5 + LEVEL / 2.0)) * scale
        middle, low, high = (float(np.exp(min(x, _HIGHEST))) for x in (centre, centre - reach, centre + reach))
        return Interval(middle, low, high, LEVEL)


def stiffness_course(probes: Sequence[Probe]) -> StiffnessCourse:
    """The course that the probes of a training show.

    Args:
        probes: At least `FEWEST_PROBES`, at rising steps, of positive stiffness.

    Raises:
        SettingError: Too few probes, steps that do not rise, or a stiffness that is not positive.
    """
    steps = np.array([x.step for x in probes])
    values = np.array([x.stiffest.mean for x in probes])
    if len(steps) < FEWEST_PROBES or not (np.diff(steps) > 0).all() or not (values > 0).all():
        raise SettingError(
            f"course: expected at least {FEWEST_PROBES} probes at rising steps with positive stiffness, found "
            f"{len(steps)} at steps {', '.join(f'{x:g}' for x in steps[:6])}"
        )
    elapsed = np.diff(steps)
    moved = np.diff(np.log(values))
    drift = float(moved.sum() / elapsed.sum())
    freedom = len(elapsed) - 1.0
    spread = math.sqrt(float(((moved - drift * elapsed) ** 2 / elapsed).sum()) / freedom)
    return StiffnessCourse(float(steps[0]), float(steps[-1]), float(np.log(values[-1])), drift, spread, freedom)
