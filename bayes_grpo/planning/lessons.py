"""What others' runs teach a plan: which changes failed, and what settings do to a curve."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_grpo.risk.failing import LearnedFailures, learned_failures

EXPONENTS_PATH = Path(__file__).with_name("exponents.json")
LEAST_SD = {"group_size": 0.7, "prompts_per_step": 0.7}
"""Least spread of the rate's exponent, from the first 120 decisions of `benchmarks/plans.py`: public runs seldom
changed these settings alone."""


class Belief(NamedTuple):
    """Normal prior of an exponent."""

    centre: float
    sd: float


VARIANCE: Mapping[str, Belief] = {
    "learning_rate": Belief(1.0, 0.3),
    "group_size": Belief(-1.0, 0.3),
    "prompts_per_step": Belief(-1.0, 0.3),
    "refresh_interval": Belief(0.0, 0.3),
}
"""Priors of the exponent of the fluctuation's variance, about what theory expects to leading order."""


class Nearing(NamedTuple):
    """What the level of a run that holds loses as its settings near the border at which it would fail.

    Attributes:
        strength: Log-odds per e-fold, at the border and beyond.
        reach: E-folds below the border at which the loss sets in.
    """

    strength: float
    reach: float

    def shift(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Move of the level, log-odds, shape of the arguments.

        Args:
            before: E-folds below the stability threshold at the settings of the present run.
            after: The same at other settings.
        """
        lost_before, lost_after = (np.logaddexp(0.0, self.reach - room) for room in (before, after))
        return self.strength * (lost_before - lost_after)


class Lessons(NamedTuple):
    """Priors pooled over public runs.

    Attributes:
        failures: Model of the failure probability after a change of settings.
        exponents: Setting → priors of its exponents of rate and plateau. All public runs use Adam, which divides by a
            gradient that is mostly noise, so more completions per step learn faster. For the group size, the exponent
            of the rate multiplies the factor of finite groups.
        run_sd: Standard deviation between runs of equal settings, log-odds.
        nearing: Loss of the plateau near the stability threshold.
    """

    failures: LearnedFailures
    exponents: Mapping[str, Mapping[str, Belief]]
    run_sd: float
    nearing: Nearing


@cache
def learned_lessons() -> Lessons:
    """The lessons of public runs that come with the package."""
    kept = json.loads(EXPONENTS_PATH.read_text(encoding="utf-8"))
    exponents = {
        name: {quantity: Belief(*belief) for quantity, belief in own.items()} for name, own in kept["exponents"].items()
    }
    for name, least in LEAST_SD.items():
        rate = exponents[name]["rate"]
        exponents[name]["rate"] = Belief(rate.centre, max(rate.sd, least))
    return Lessons(learned_failures(), exponents, float(kept["apart"]), Nearing(*kept["nearing"]))
