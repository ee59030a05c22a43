"""The timeline of a run: for every mode the probability over time that it is under way, and its episodes.

Modes do not exclude one another. A definition sees the rows up to each step and none after it, so that the
probability at a step is the one that was known then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.mode import Mode, Probabilities, all_modes, failure_names
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import MODES
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends
from bayes_grpo.rows.series import stretches

_READERS = 100
"""Number of probability thresholds at which an episode is cut; their spread gives the interval of its ends."""


@dataclass(frozen=True)
class Episode(Result):
    """A stretch of a run in which a mode is under way.

    Attributes:
        mode: Its name.
        probability: That the mode is under way: at the last row where it goes on, else where it is likeliest.
        onset: Step at which it begins.
        end: Step at which it ends, given that it does; the last step where it goes on.
        goes_on: Probability that it goes on at the last step, given that it is one.
        severity_text: How bad it is there, in words; "" where the mode has no measure.
    """

    mode: str
    probability: float
    onset: Interval
    end: Interval
    goes_on: float
    severity_text: str

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
        probability: That it is under way at each step, by the rows up to it, shape (n,).
        seen: Whether a signal that shows it is logged; if not, the probabilities are those of such logs.
    """

    mode: str
    probability: np.ndarray
    seen: bool

    also_in_json = ("under_way",)

    @property
    def under_way(self) -> float:
        """Probability at the last step."""
        return float(self.probability[-1])


@dataclass(frozen=True, eq=False)
class Timeline(Result):
    """All modes over a run.

    Attributes:
        step: Optimizer steps, shape (n,).
        modes: Mode → its probability over time, the failures first.
        episodes: Those that are suspected or more probable than not, in the order of their onset.
    """

    step: np.ndarray
    modes: Mapping[str, ModeTimeline]
    episodes: tuple[Episode, ...]

    @property
    def now(self) -> Probabilities:
        """Probabilities of the failures at the last step."""
        failures = failure_names()
        return Probabilities({name: mode.under_way for name, mode in self.modes.items() if name in failures})

    def probable(self, over: bool) -> list[Episode]:
        """Episodes that are more probable than not, over or not."""
        return [e for e in self.episodes if e.probable and e.over == over]


def timeline_of(rows: RunSoFar, trends: RunTrends) -> Timeline:
    """The timeline of one run.

    Args:
        rows: Its rows.
        trends: Trends of the run, on whose steps it is looked at: a row of averages at the last of its rows.
    """
    step = trends.reward.step
    ends = 0.5 * (step[1:] + step[:-1]) if len(step) < trends.reward.logged.rows else step[:-1]
    past = [*(rows.until(s) for s in ends), rows]
    found, episodes = {}, []
    for mode in all_modes():
        looks = [mode.look(x) for x in past]
        seen = looks[-1].seen
        if not seen and mode.is_failure and mode.name not in MODES:
            continue
        found[mode.name] = ModeTimeline(mode.name, np.array([x.probability for x in looks]), seen)
        if seen:
            episodes += episodes_of(mode, found[mode.name].probability, rows, trends)
    return Timeline(step, found, tuple(sorted(episodes, key=lambda e: e.onset.median)))


def episodes_of(mode: Mode, p: np.ndarray, rows: RunSoFar, trends: RunTrends) -> list[Episode]:
    """Stretches in which a mode is more probable than not, or suspected.

    Args:
        mode: The mode.
        p: Its probability at each row of the trend, shape (n,).
        rows: Rows of the run.
        trends: Its trends.
    """
    step, last_row = trends.reward.step, len(p) - 1
    heights = (np.arange(_READERS) + 0.5) / _READERS
    out: list[Episode] = []
    probable = stretches(p >= THRESHOLDS.probable)
    suspected = [x for x in stretches(p >= THRESHOLDS.suspect) if not any(x[0] <= a <= x[1] for a, _ in probable)]
    for first, last in [*probable, *suspected]:
        peak = first + int(np.argmax(p[first : last + 1]))
        spans = [
            next((a, b) for a, b in stretches(p > height) if a <= peak <= b) for height in heights[heights < p[peak]]
        ]
        begins, ends = np.array(spans).T
        goes_on = float(np.mean(ends == last_row))
        closed = step[ends[ends < last_row]] if goes_on < THRESHOLDS.probable else step[ends]
        while p[peak] >= THRESHOLDS.probable and out and step[int(np.median(begins))] <= out[-1].end.median:
            out.pop()  # at most thresholds the previous episode and this one are one
        until = float(step[last]) if last < last_row else rows.last_step
        severity_text = mode.text(rows, trends, float(step[first]), until)
        shown = float(p[last] if last == last_row else p[peak])
        out.append(Episode(mode.name, shown, interval(step[begins]), interval(closed), goes_on, severity_text))
    if out and not out[-1].over and (began := mode.began(rows)) is not None:
        before = [e for e in out[:-1] if e.end.median < began.median]  # one that ended since then is the same fall
        out = [*before, replace(out[-1], onset=began)]
    return out
