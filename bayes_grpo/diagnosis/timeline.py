"""The timeline of a run: for every mode the probability over time that it is under way, and its episodes.

Modes do not exclude one another, and what has ended is kept apart from what goes on. A mode whose signal is not logged
has a probability too, that of logs in which it could not be seen either, and is named as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.mode import Mode, followed_modes
from bayes_grpo.diagnosis.probability import DIRECT, MOST_PROBABLE, Chances, probability_of
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import stretches
from bayes_grpo.diagnosis.trends import RunTrends


@dataclass(frozen=True)
class Episode(Result):
    """A stretch of a run in which a mode is under way.

    Attributes:
        mode: Its name.
        probability: That the mode is under way: at the last row where it goes on, else where it is likeliest.
        onset: Step at which it begins.
        end: Step at which it ends, given that it does; the last step where it goes on.
        goes_on: Probability that it goes on at the last step, given that it is one.
        depth: How bad it is there, in words; "" where the mode has no measure.
    """

    mode: str
    probability: float
    onset: Interval
    end: Interval
    goes_on: float
    depth: str

    in_json = ("mode", "probability", "onset", "end", "goes_on", "depth")

    @property
    def probable(self) -> bool:
        """Whether it is more probable than not; less probable ones are suspected."""
        return self.probability >= THRESHOLDS.probable

    @property
    def over(self) -> bool:
        """Whether it has probably ended."""
        return self.goes_on < THRESHOLDS.probable


@dataclass(frozen=True, eq=False)
class ModeTimeline(Result):
    """One mode over a run.

    Attributes:
        mode: Its name.
        probability: That it is under way at each step, by all rows, shape (n,).
        under_way: That it is at the last one.
        before: That it was, and ended.
        ever: That it was at any time.
        seen: Whether a signal that shows it is logged; if not, the probabilities are those of such logs.
    """

    mode: str
    probability: np.ndarray
    under_way: float
    before: float
    ever: float
    seen: bool

    in_json = ("mode", "probability", "under_way", "before", "ever", "seen")


@dataclass(frozen=True, eq=False)
class Timeline(Result):
    """All modes over a run.

    Attributes:
        step: Optimizer steps, shape (n,).
        modes: Mode → its course, the failures first.
        episodes: Those that are suspected or more probable than not, in the order of their onset.
    """

    step: np.ndarray
    modes: Mapping[str, ModeTimeline]
    episodes: tuple[Episode, ...]

    in_json = ("step", "modes", "episodes")

    def last(self, mode: str) -> Episode | None:
        """The last episode of a mode that goes on; None without one."""
        return next((e for e in reversed(self.episodes) if e.mode == mode and not e.over), None)


def timeline_of(trends: RunTrends, shifts: Mapping[str, float] | None = None) -> Timeline:
    """The timeline of one run.

    Args:
        trends: Trends of the run.
        shifts: Mode → added to its log odds; nothing if None.
    """
    rows = RunSoFar.of(trends.run, trends)
    past = [rows.until(step) for step in _looks(trends)]
    courses, episodes = {}, []
    for mode in followed_modes():
        found = _chances(mode, trends, past, (shifts or {}).get(mode.name, 0.0))
        if found is None:
            continue
        courses[mode.name] = ModeTimeline(
            mode.name,
            found.probability,
            float(found.probability[-1]),
            _ended(found.histories),
            float(found.probability.max()),
            found.seen,
        )
        own = episodes_of(mode, found, trends)
        began = mode.began(rows) if own and not own[-1].over else None
        if began is not None:
            own[-1] = replace(own[-1], onset=began)
        episodes += own
    return Timeline(trends.reward.step, courses, tuple(sorted(episodes, key=lambda e: e.onset.median)))


def _looks(trends: RunTrends) -> np.ndarray:
    """Last step that each row of the trend may look at, shape (n,): a row of averages at the last of these."""
    step = trends.reward.step
    ends = 0.5 * (step[1:] + step[:-1]) if len(step) < trends.reward.rows else step[:-1]
    return np.append(ends, np.inf)


def _chances(mode: Mode, trends: RunTrends, past: Sequence[RunSoFar], shift: float) -> Chances | None:
    """A mode over the rows: by its definition, or by a quantity that measures it; None without either.

    A definition sees the rows up to each step and none after it, so that what is said of a step is what was said then.
    """
    if mode.is_defined:
        strength = np.array([mode.strength(rows) for rows in past])
        return Chances.of(
            probability_of(mode.name, strength, shift), bool(np.isfinite(strength[-1:]).any() | np.isinf(strength[-1]))
        )
    measured = mode.measured(trends)
    if measured is None:
        return None
    few = np.array([rows.reward.rows < THRESHOLDS.trend_rows for rows in past])
    if mode.name not in DIRECT:
        measured = measured & ~few[None, :]
    return Chances(np.minimum(measured.mean(axis=0), MOST_PROBABLE), measured, True)


def episodes_of(mode: Mode, found: Chances, trends: RunTrends) -> list[Episode]:
    """Stretches in which a mode is more probable than not, or suspected, with the draws' beginnings and ends.

    Args:
        mode: The mode.
        found: Its chances.
        trends: Trends of the run.

    Returns:
        The episodes; none of what could not be seen.
    """
    step, p = trends.reward.step, found.probability
    out: list[Episode] = []
    if not found.seen:
        return out
    probable = stretches(p >= THRESHOLDS.probable)
    suspected = [x for x in stretches(p >= THRESHOLDS.suspect) if not any(x[0] <= a <= x[1] for a, _ in probable)]
    for first, last in [*probable, *suspected]:
        peak = first + int(np.argmax(p[first : last + 1]))
        on = found.histories[found.histories[:, peak]]
        if not len(on):
            continue
        n = len(step)
        begins = np.array([_previous_off(h, peak) for h in on]) + 1
        ends = n - 1 - (np.array([_previous_off(h[::-1], n - 1 - peak) for h in on]) + 1)
        goes_on = float(np.mean(ends == n - 1))
        closed = step[ends[ends < n - 1]] if goes_on < THRESHOLDS.probable else step[ends]
        depth = mode.depth(trends, float(step[first]), float(step[last]))
        while p[peak] >= THRESHOLDS.probable and out and step[int(np.median(begins))] <= out[-1].end.median:
            out.pop()  # most histories run through the one before into this one, which tells of both
        shown = float(p[last] if last == n - 1 else p[peak])
        out.append(Episode(mode.name, shown, interval(step[begins]), interval(closed), goes_on, depth))
    return out


def _previous_off(history: np.ndarray, place: int) -> int:
    """Last place before one at which a history is off; -1 without any."""
    off = np.flatnonzero(~history[:place])
    return int(off[-1]) if len(off) else -1


def _ended(histories: np.ndarray) -> float:
    """Share of histories in which a mode was on and then off."""
    return float(np.mean((histories[:, :-1] & ~histories[:, 1:]).any(axis=1)))
