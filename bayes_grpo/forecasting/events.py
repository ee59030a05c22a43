"""Unmodeled events, collapse and take-off: their probability and their effect on paths.

    P(event until the horizon) = 1 − exp(−rate · rows ahead / rows seen)

The horizon is relative to the rows seen, because logs differ by three orders of magnitude in length. Rows at a learning
rate of 0 do not count. With two possible events the first one counts: the rates add up, and each event has its share of
the probability. The rates are base rates, equal for all logs in which the event is possible: none of nine features of
the past rows improves them by more than two standard errors. `benchmarks/lab/learners/hazard.py` learns the numbers.

At an origin, *first* is the mean reward of the first fifth of the rows, *now* that of the last fifth, and *noise* the
standard deviation of a row, from differences of neighboring rows. A collapse loses a share of what was at stake at
the origin (`at_stake`), and exceeds the noise. The *size* of an
event lies between 0 for the smallest change that counts and 1 for the largest possible one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.rows.reward_range import RewardRange

COLLAPSE, TAKEOFF = "collapse", "takeoff"
HAZARDS = (COLLAPSE, TAKEOFF)
"""The possible events; they are mutually exclusive."""
SIGN = {COLLAPSE: -1.0, TAKEOFF: 1.0}
"""Event → direction of the reward."""


NOISE_OF_MEANS = 3.0
"""Standard errors by which means of rows differ beyond noise; means, because event rates are learned without a path."""
LEAST_ROWS = 3
"""Rows of such a mean, at least."""
_ORIGIN_PART = 5
"""First and now are means of the first and the last fifth of the rows."""
_STARTED_HIGH = 0.5
"""Share of the best above which a run that began there can lose its level, and below it its gain."""
_LOST = 0.5
"""Share of gain or level that a collapse loses."""
_TAKEOFF = 3.0
"""Multiple of what was gained before, or of the noise, that a take-off gains."""
_TAKEOFF_MOST = 4.0
"""Multiple of the least take-off that counts as the most where the highest reward is unknown."""
_FAR = 10.0
"""Rows ahead over rows seen beyond which no more events come: in public logs none more did."""
_SETTLED = 5
"""Rows after which a path that meets an event is where it leads."""


class RewardPaths(NamedTuple):
    """Paths over the same rows, shape (draws, rows) each.

    Attributes:
        latent: Latent reward.
        trend: Its expectation, given the present state.
        rows: Logged rows, with measurement noise.
    """

    latent: np.ndarray
    trend: np.ndarray
    rows: np.ndarray


class Span(NamedTuple):
    """How far an event can lead, as changes of the reward, both positive.

    Attributes:
        least: The least change that is one.
        most: To the end of the reward's range; where it is unknown, all of the gain, or a multiple of the least.
    """

    least: float
    most: float


class OriginState(NamedTuple):
    """State of a log at an origin: mean of the last fifth of the rows and noise, the standard deviation of a row.

    ``rows`` and ``last`` count all rows and those of the last fifth; ``spans`` is event → how far it can lead, of the
    events that can meet the log.
    """

    now: float
    noise: float
    rows: int
    last: int
    spans: dict[str, Span]


def started_high(start: np.ndarray | float, best: np.ndarray | float, low: float = 0.0) -> np.ndarray:
    """Mask of signals most of whose best level was there from the start; ``low`` is minus infinity where unknown."""
    return np.asarray(start) - low > _STARTED_HIGH * (np.asarray(best) - low)


def at_stake(start: np.ndarray | float, best: np.ndarray | float, low: float = 0.0) -> np.ndarray:
    """The possible loss of a signal: its level where it started high, else its gain; arguments as in `started_high`."""
    return np.where(started_high(start, best, low), np.asarray(best) - low, np.asarray(best) - start)


def least_loss(stake: np.ndarray | float) -> np.ndarray:
    """The smallest fall that is a collapse of what was at stake, of the same shape."""
    return _LOST * np.asarray(stake)


def origin_state(y: np.ndarray, reward: RewardRange) -> OriginState:
    """Possible losses and gains of a log after its rows ``y``, shape (n,) with n ≥ 2."""
    n = len(y)
    last = min(n, max(LEAST_ROWS, n // _ORIGIN_PART))
    first = float(y[:last].mean())
    now = float(y[-last:].mean())
    noise = float(np.std(np.diff(y)) / np.sqrt(2.0)) + 1e-12
    error = NOISE_OF_MEANS * noise / np.sqrt(last)
    error_of_gain = np.sqrt(2.0) * error
    gain, level, room = now - first, now - reward.low, reward.high - now  # the latter infinite where unknown
    most = level if np.isfinite(level) else gain
    stake = float(at_stake(first, now, reward.low))
    spans = {}
    # A level is a mean of its own, a gain the difference of two.
    if stake > (error if started_high(first, now, reward.low) else error_of_gain):
        spans[COLLAPSE] = Span(float(least_loss(stake)), most)
    least = _TAKEOFF * max(gain, noise)
    if abs(gain) <= error_of_gain and room > least:
        spans[TAKEOFF] = Span(least, room if np.isfinite(room) else _TAKEOFF_MOST * least)
    return OriginState(now, noise, n, last, spans)


class Rate(NamedTuple):
    """Learned numbers of one event: its rate in 1 / rows seen, and quantiles of its size at even probabilities."""

    rate: float
    sizes: np.ndarray


def chances(rates: Mapping[str, float], ahead: float) -> dict[str, float]:
    """Event → probability that it comes first, by its rate in 1 / rows seen and the rows ahead over the rows seen."""
    total = sum(rates.values())
    either = -np.expm1(-total * ahead)
    return {name: float(either * rate / total) if total > 0.0 else 0.0 for name, rate in rates.items()}


@dataclass(frozen=True, eq=False)
class EventRates:
    """Event → its learned numbers, and from what they were learned."""

    rates: Mapping[str, Rate]
    provenance: Mapping[str, Any]

    def chance(self, origin: OriginState, ahead: float) -> dict[str, float]:
        """Possible event → probability that it meets a log within so many rows; beyond `_FAR` it does not grow."""
        possible = [name for name in HAZARDS if name in origin.spans and name in self.rates]
        return chances({name: self.rates[name].rate for name in possible}, min(ahead / origin.rows, _FAR))

    def apply(
        self,
        origin: OriginState,
        ahead: float,
        paths: RewardPaths,
        now: np.ndarray,
        possible: np.ndarray,
        reward: RewardRange,
        seed: int,
    ) -> tuple[RewardPaths, np.ndarray, np.ndarray]:
        """Paths of which as many meet an event as it is probable, if the policy moves in so many rows ``ahead``.

        From a row that is drawn evenly from the ``possible`` ones, shape (k,), on, a path leaves its trend and is,
        `_SETTLED` rows later, about the level that the event leads to. What the path had of noise about its trend stays
        with it. ``now`` is the latent reward of each draw at the last logged row, shape (draws,).

        Returns:
            The paths; name of the event of each draw, "" without one; and where it settles, NaN without one.
        """
        draws, length = paths.latent.shape
        rng = np.random.default_rng(seed)
        order = rng.permutation(draws)
        event = np.full(draws, "", dtype="U16")
        settles = np.full(draws, np.nan)
        latent, trend, rows = (x.copy() for x in paths)
        allotted = 0.0
        for name, probability in self.chance(origin, ahead).items():
            # Cumulated before rounding, so that no event's count takes from another's.
            chosen = order[round(allotted * draws) : round((allotted + probability) * draws)]
            allotted += probability
            if not len(possible) or not len(chosen):
                continue
            even = (rng.permutation(len(chosen)) + 0.5) / len(chosen)
            sizes = self.rates[name].sizes
            least, most = origin.spans[name]
            change = least + np.interp(even, np.linspace(0.0, 1.0, len(sizes)), sizes) * (most - least)
            to = np.clip(now[chosen] + SIGN[name] * change, reward.low, reward.high)
            begins = rng.choice(possible, len(chosen))
            w = np.clip((np.arange(length) - begins[:, None] + 1) / _SETTLED, 0.0, 1.0)
            shift = np.where(w > 0.0, w * (to[:, None] - trend[chosen]), 0.0)
            for x in (trend, latent, rows):
                moved = np.clip(x[chosen] + shift, reward.low, reward.high)
                x[chosen] = np.where(w > 0.0, moved, x[chosen])
            event[chosen], settles[chosen] = name, to
        return RewardPaths(latent, trend, rows), event, settles


@cache
def shipped_event_rates() -> EventRates:
    """The numbers of the package, which `benchmarks/lab/learners/hazard.py` writes."""
    text = resources.files("bayes_grpo.forecasting").joinpath("event_rates.json").read_text(encoding="utf-8")
    content = json.loads(text)
    rates = {k: Rate(float(x["rate"]), np.array(x["sizes"], float)) for k, x in content["rates"].items()}
    return EventRates(rates, content["provenance"])
