"""The timeline of a run: for every mode the probability over time that it is under way, and its episodes.

Modes do not exclude one another, and what has ended is told apart from what goes on. A mode whose signal is not logged
has a probability too, that of logs in which it could not be seen either, and is named as such.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from zlib import crc32

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.chain import Chances, ModeChain
from bayes_grpo.diagnosis.mode import Mode, followed_modes
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.trend import stretches

Chains = Mapping[str, ModeChain]


@dataclass(frozen=True)
class Episode(Result):
    """A stretch of a run in which a mode is under way.

    Attributes:
        mode: Its name.
        probability: That the mode is under way where it is likeliest.
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
        return self.probability >= BORDERS.probable

    @property
    def over(self) -> bool:
        """Whether it has probably ended."""
        return self.goes_on < BORDERS.probable


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


def timeline_of(trends: RunTrends, shifts: Mapping[str, float] | None = None, chains: Chains | None = None) -> Timeline:
    """The timeline of one run.

    Args:
        trends: Trends of the run.
        shifts: Mode → added to its log odds; nothing if None.
        chains: Learned numbers; the shipped ones if None.
    """
    known = shipped_chains() if chains is None else chains
    step, courses, episodes = trends.reward.step, {}, []
    for mode in followed_modes():
        found = _chances(mode, trends, known, (shifts or {}).get(mode.name, 0.0))
        if found is None:
            continue
        courses[mode.name] = ModeTimeline(
            mode.name,
            found.probability,
            float(found.probability[-1]),
            _ended(found.histories),
            float(found.histories.any(axis=1).mean()),
            found.seen,
        )
        episodes += episodes_of(mode, found, trends)
    return Timeline(step, courses, tuple(sorted(episodes, key=lambda e: e.onset.median)))


def _chances(mode: Mode, trends: RunTrends, chains: Chains, shift: float) -> Chances | None:
    """A mode over the rows: by what is measured where that defines it, else by learned numbers; None without either."""
    measured = mode.measured(trends)
    if measured is not None:
        return Chances(measured.mean(axis=0), measured, True)
    course = mode.course(trends)
    if course is None or mode.name not in chains:
        return None
    return chains[mode.name].chances(course, shift, seed=crc32(mode.name.encode()))


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
    probable = stretches(p >= BORDERS.probable)
    suspected = [x for x in stretches(p >= BORDERS.suspect) if not any(x[0] <= a <= x[1] for a, _ in probable)]
    for first, last in [*probable, *suspected]:
        peak = first + int(np.argmax(p[first : last + 1]))
        on = found.histories[found.histories[:, peak]]
        if not len(on):
            continue
        n = len(step)
        begins = np.array([_previous_off(h, peak) for h in on]) + 1
        ends = n - 1 - (np.array([_previous_off(h[::-1], n - 1 - peak) for h in on]) + 1)
        goes_on = float(np.mean(ends == n - 1))
        closed = step[ends[ends < n - 1]] if goes_on < BORDERS.probable else step[ends]
        depth = mode.depth(trends, float(step[first]), float(step[last]))
        runs_through = out and p[peak] >= BORDERS.probable and step[int(np.median(begins))] <= out[-1].end.median
        if runs_through:  # most histories run through the one before into this one, which tells of both
            out.pop()
        out.append(Episode(mode.name, float(p[peak]), interval(step[begins]), interval(closed), goes_on, depth))
    return out


def _previous_off(history: np.ndarray, place: int) -> int:
    """Last place before one at which a history is off; -1 without any."""
    off = np.flatnonzero(~history[:place])
    return int(off[-1]) if len(off) else -1


def _ended(histories: np.ndarray) -> float:
    """Share of histories in which a mode was on and then off."""
    return float(np.mean((histories[:, :-1] & ~histories[:, 1:]).any(axis=1)))


@cache
def shipped_chains() -> dict[str, ModeChain]:
    """The numbers of the package."""
    text = resources.files("bayes_grpo.diagnosis").joinpath("chains.json").read_text(encoding="utf-8")
    return {name: ModeChain.from_dict(content) for name, content in json.loads(text).items()}
