"""How much stiffer the stiffest direction of a network is than the curvature that its reward shows.

A reward curve feels the directions that carry it; the stiffest one decides whether a run is stable. In the laboratory
both are known without looking at any curve (`benchmarks.lab.curvature`), and their ratio, a log-normal number,
was learned from several policies by `benchmarks.lab.learners.stiffness`. Policies of one
network are alike, so its logarithm has the tails of a Student t of as many degrees of freedom as four networks leave.
"""

from __future__ import annotations

import json
import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from bayes_grpo.common.intervals import LEVEL, Interval
from benchmarks.common import RESULTS

FREEDOM = 3.0
"""Degrees of freedom of the ratio's logarithm: one less than the networks that it was learned from."""


class Stiffness(NamedTuple):
    """A log-normal ratio of the stiffest direction's curvature to the one that the reward shows.

    Attributes:
        centre: Mean of its logarithm.
        sd: Scale of it, for a further network: what few policies leave open of the mean counts in.
        policies: How many policies it was learned from.
    """

    centre: float
    sd: float
    policies: int

    @property
    def interval(self) -> Interval:
        """The ratio's median and interval."""
        reach = float(stdtrit(FREEDOM, 0.5 + LEVEL / 2.0)) * self.sd
        return Interval(math.exp(self.centre), math.exp(self.centre - reach), math.exp(self.centre + reach), LEVEL)

    def stable(self, margin: np.ndarray) -> float:
        """Probability that a margin holds in the stiffest direction.

        Args:
            margin: Draws of the largest stable gain over the gain by the curvature that the reward shows, (draws,).
        """
        with np.errstate(divide="ignore"):
            return float(stdtr(FREEDOM, (np.log(margin) - self.centre) / self.sd).mean())


@cache
def learned_stiffness() -> Stiffness:
    """The learned numbers."""
    kept = json.loads((RESULTS / "learn_stiffness.json").read_text(encoding="utf-8"))["result"]
    return Stiffness(kept["centre"], kept["sd"], kept["policies"])
