"""How probable an event is that no law of the reward knows: base rates learned from public and simulated logs.

    P(event until the horizon) = 1 − exp(−rate · rows ahead / rows seen)

Rows count in those seen, because logs differ by three orders of magnitude in length, and rows at a learning rate of
0 do not count: nothing moves a policy there. Where two events may come, the first one is what counts: both rates add
up, and each has its share of the probability.

The rates are the same for all logs that an event can meet. Nine signs of the rows before were tried (length, level,
late fall, noise, entropy, gradients, KL divergence, refresh interval, groups without spread): learned without the
repository that is judged, rates that depend on them said no more than the base rates beyond two standard errors. Three
public logs of 184 collapsed, which is too few to learn a sign from. `benchmarks/lab/learners/hazard.py` learns the
numbers and prints all this; repositories count alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.forecasting.events import Met, RewardPaths, with_events
from bayes_grpo.forecasting.spans import HAZARDS, OriginState
from bayes_grpo.rows.reward_range import RewardRange


class Rate(NamedTuple):
    """Learned numbers of one event.

    Attributes:
        rate: Its rate in 1 / rows seen.
        sizes: Quantiles of its size at evenly spaced probabilities from 0 to 1.
    """

    rate: float
    sizes: np.ndarray


def chances(rates: Mapping[str, float], ahead: float) -> dict[str, float]:
    """Event → probability that it comes, and comes first.

    Args:
        rates: Event → rate in 1 / rows seen.
        ahead: Rows ahead over rows seen.
    """
    total = sum(rates.values())
    either = -np.expm1(-total * ahead)
    return {name: float(either * rate / total) if total > 0.0 else 0.0 for name, rate in rates.items()}


@dataclass(frozen=True, eq=False)
class Hazard:
    """Learned numbers of all events.

    Attributes:
        rates: Event → its numbers.
        provenance: From what they were learned.
    """

    rates: Mapping[str, Rate]
    provenance: Mapping[str, Any]

    def chance(self, origin: OriginState, ahead: float) -> dict[str, float]:
        """Event → probability that it meets a log within so many rows; only events that can."""
        possible = [name for name in HAZARDS if name in origin.spans and name in self.rates]
        return chances({name: self.rates[name].rate for name in possible}, ahead / origin.rows)

    def met(
        self,
        origin: OriginState,
        ahead: float,
        paths: RewardPaths,
        now: np.ndarray,
        possible: np.ndarray,
        reward: RewardRange,
        seed: int,
    ) -> Met:
        """Paths of which some meet an event, see `bayes_grpo.forecasting.events.with_events`.

        Args:
            origin: Where the log stands after its rows.
            ahead: Rows of the log until the horizon in which the policy moves.
            paths: Paths of the rows to come.
            now: Latent reward at the last logged row, shape (draws,).
            possible: Rows of the paths at which an event may begin, shape (k,).
            reward: Where the reward can lie.
            seed: Seed.
        """
        sizes = {name: rate.sizes for name, rate in self.rates.items()}
        chance = self.chance(origin, ahead)
        return with_events(paths, now, possible, chance, origin.spans, sizes, reward=reward, seed=seed)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready content."""
        numbers = {name: {"rate": x.rate, "sizes": x.sizes.tolist()} for name, x in self.rates.items()}
        return {"provenance": dict(self.provenance), "rates": numbers}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Hazard:
        """The inverse of `to_dict`."""
        numbers = content["rates"].items()
        rates = {name: Rate(float(x["rate"]), np.array(x["sizes"], float)) for name, x in numbers}
        return cls(rates, content["provenance"])


def hazard_named(hazard: Hazard | bool, laws: int) -> Hazard | None:
    """The numbers that are meant: the shipped ones (True), others, or none: for False, or beside one law alone."""
    if hazard is False or laws < 2:
        return None
    return shipped_hazard() if hazard is True else hazard


@cache
def shipped_hazard() -> Hazard:
    """The numbers of the package."""
    text = resources.files("bayes_grpo.forecasting").joinpath("hazard.json").read_text(encoding="utf-8")
    return Hazard.from_dict(json.loads(text))
