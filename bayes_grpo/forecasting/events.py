"""Events that no law of the reward knows: what they are, and what they do to a path.

At an origin of a log, *first* is the mean reward of the first fifth of its rows, *now* that of the last fifth (at
least three rows each), and *noise* the standard deviation of a row by the differences of neighbours. A log *started
high* where its lowest possible reward is known and more than half of the level above it was there from the start.
*End* is the mean of the last tenth of the rows that came. Beyond noise is more than `CLEAR` standard errors of such
means.

| event | whom it can meet | border |
|---|---|---|
| collapse | logs that started high, beyond noise | now − end ≥ `LOST` of the level above the lowest reward |
| collapse | other logs with a gain now − first beyond noise | now − end ≥ `LOST` of that gain |
| take-off | logs whose first and now differ within noise | end − now ≥ `TIMES` × the gain, or × noise if larger |

A collapse has to be beyond noise itself, and a take-off needs room below the highest reward. The *size* of an event
lies between 0 at its border and 1 where nothing more can be lost or gained. A run that stops for good, because its
learning rate has reached 0, is no event: the schedule says when, and without a gradient the paths of every law stand
still.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bayes_grpo.rows.reward_range import RewardRange

COLLAPSE, TAKEOFF = "collapse", "takeoff"
EVENTS = (COLLAPSE, TAKEOFF)
SIGN = {COLLAPSE: -1.0, TAKEOFF: 1.0}
CLEAR = 3.0
"""Standard errors by which means differ beyond noise."""
LOST = 0.5
"""Share of what there was to lose, from which on a loss is a collapse."""
TIMES = 3.0
"""Multiple of what was gained before, above which a gain is a take-off."""
FAR = 4.0
"""Multiple of the least gain of a take-off that counts as the most, where nobody knows the highest reward."""
SETTLED = 5
"""Rows after which a path that meets an event is where it leads."""


class Span(NamedTuple):
    """How far an event can lead, as changes of the reward, both positive.

    Attributes:
        least: The least change that is one.
        most: To the end of the reward's range; where nobody knows it, all of the gain, or `FAR` times the least.
    """

    least: float
    most: float

    def size_of(self, change: float) -> float:
        """Size of an event: 0 at the least change, 1 at the most."""
        return (change - self.least) / (self.most - self.least)

    def change(self, size: np.ndarray) -> np.ndarray:
        """The inverse of `size_of`."""
        return self.least + size * (self.most - self.least)


class Standing(NamedTuple):
    """What a log can lose or gain at an origin.

    Attributes:
        now: Mean reward of the last fifth of the rows.
        noise: Standard deviation of a row.
        rows: Number of rows.
        last: Rows in the last fifth.
        spans: Event → how far it can lead. Only events that can meet the log.
    """

    now: float
    noise: float
    rows: int
    last: int
    spans: dict[str, Span]


def standing_of(y: np.ndarray, reward: RewardRange) -> Standing:
    """Where a log stands after its rows.

    Args:
        y: Rewards of the rows so far, shape (n,), at least 2.
        reward: Where the reward can lie, as these rows and the settings say.
    """
    n = len(y)
    last = min(n, max(3, n // 5))
    first, now = float(y[:last].mean()), float(y[-last:].mean())
    noise = float(np.std(np.diff(y)) / np.sqrt(2.0)) + 1e-12
    error = CLEAR * noise / np.sqrt(last)
    gain, level, room = now - first, now - reward.low, reward.high - now  # the latter infinite where nobody knows
    spans = {}
    if np.isfinite(level) and first - reward.low > gain:
        if level > error:
            spans[COLLAPSE] = Span(LOST * level, level)
    elif gain > np.sqrt(2.0) * error:
        spans[COLLAPSE] = Span(LOST * gain, level if np.isfinite(level) else gain)
    least = TIMES * max(gain, noise)
    if abs(gain) <= np.sqrt(2.0) * error and room > least:
        spans[TAKEOFF] = Span(least, room if np.isfinite(room) else FAR * least)
    return Standing(now, noise, n, last, spans)


def event_of(standing: Standing, came: np.ndarray) -> tuple[str, float]:
    """The event that a log met after an origin, and its size; "" and NaN without one.

    Args:
        standing: Where it stood there.
        came: Rewards of the rows after it, shape (h,).
    """
    rows = min(len(came), max(3, (standing.rows + len(came)) // 10))
    change = float(came[-rows:].mean()) - standing.now
    error = CLEAR * standing.noise * np.sqrt(1.0 / standing.last + 1.0 / rows)
    for name, span in standing.spans.items():
        way = SIGN[name] * change
        if way >= span.least and (name != COLLAPSE or way >= error):
            return name, span.size_of(way)
    return "", np.nan


class Courses(NamedTuple):
    """Paths over the same rows, shape (draws, rows) each.

    Attributes:
        latent: Latent reward.
        trend: What is expected of it from the same present state.
        rows: What logged rows would show.
    """

    latent: np.ndarray
    trend: np.ndarray
    rows: np.ndarray


class Met(NamedTuple):
    """Paths of which some meet an event.

    Attributes:
        courses: The paths; those without an event as they were.
        event: Name of the event of each draw, "" without one, shape (draws,).
        settles: Where each draw with an event settles, NaN for the others, shape (draws,).
    """

    courses: Courses
    event: np.ndarray
    settles: np.ndarray


def with_events(
    courses: Courses,
    now: np.ndarray,
    possible: np.ndarray,
    chance: Mapping[str, float],
    spans: Mapping[str, Span],
    sizes: Mapping[str, np.ndarray],
    *,
    reward: RewardRange,
    seed: int,
) -> Met:
    """Paths of which as many meet an event as it is probable.

    From a row that is drawn evenly from the possible ones on, a path leaves its trend and is, `SETTLED` rows later,
    about the level that the event leads to. What the path had of noise about its trend stays with it.

    Args:
        courses: Paths of the rows to come.
        now: Latent reward of each draw at the last logged row, shape (draws,).
        possible: Rows at which an event may begin: those until the horizon with a learning rate above 0, shape (k,).
        chance: Event → probability that one begins there; their sum is at most 1.
        spans: Event → how far it can lead.
        sizes: Event → quantiles of its size at evenly spaced probabilities from 0 to 1.
        reward: Paths with an event are held inside this range.
        seed: Seed.
    """
    draws, horizon = courses.latent.shape
    rng = np.random.default_rng(seed)
    order = rng.permutation(draws)
    event, settles = np.full(draws, "", dtype="U16"), np.full(draws, np.nan)
    latent, trend, rows = (x.copy() for x in courses)
    taken = 0.0
    for name, probability in chance.items():
        # Cumulated before rounding, so that no event's count takes from another's.
        chosen = order[round(taken * draws) : round((taken + probability) * draws)]
        taken += probability
        if not len(possible) or not len(chosen):
            continue
        even = (rng.permutation(len(chosen)) + 0.5) / len(chosen)
        size = np.interp(even, np.linspace(0.0, 1.0, len(sizes[name])), sizes[name])
        to = np.clip(now[chosen] + SIGN[name] * spans[name].change(size), reward.low, reward.high)
        begins = rng.choice(possible, len(chosen))
        w = np.clip((np.arange(horizon) - begins[:, None] + 1) / SETTLED, 0.0, 1.0)
        before = trend[chosen]
        shift = np.where(w > 0.0, w * (to[:, None] - before), 0.0)
        for x in (trend, latent, rows):
            moved = np.clip(x[chosen] + shift, reward.low, reward.high)
            x[chosen] = np.where(w > 0.0, moved, x[chosen])
        event[chosen], settles[chosen] = name, to
    return Met(Courses(latent, trend, rows), event, settles)
