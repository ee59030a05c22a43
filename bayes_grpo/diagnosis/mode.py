"""Interface of a failure mode, one file in `bayes_grpo.diagnosis.modes` each, and the map from strength to probability.

    P = least + (most - least) s^k / (c + s^k),     s: strength, the evidence over its threshold

c is such that P = 0.5 at s = 1, so that a threshold in the table is the one at which a failure is named.
`least` is the rate of a mode where its definition does not hold, `most` where it clearly holds: rounded shares of
labeled public logs, the only learned numbers. Definitions generalize to logs of new authors; weights learned from few
authors did not.

The timeline of a run has for every mode the probability over time and its episodes. Modes do not exclude one another.
A definition sees the rows up to each step and none after it, so that the probability is the one that was known then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from bayes_grpo.common.imports import modules_in
from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis import modes
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import MODES, ModeProbabilities
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends
from bayes_grpo.diagnosis.wording import label_of
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.series import stretches

HELD_OUT = "gold or evaluation reward"
"""What a mode wants that is no signal under one name."""
MOST_PROBABLE = 0.95
"""No probability is higher, however clear a measurement is: a log may be misread."""


class Calibration(NamedTuple):
    """Probabilities of a mode.

    Attributes:
        least: Where its definition does not hold.
        unseen: Where no logged signal could show it.
        most: Where it holds clearly.
        steep: Power of the strength.
    """

    least: float
    unseen: float
    most: float
    steep: float = 4.0

    def at(self, strength: float) -> float:
        """Probability at a finite strength: one half where the evidence is at its threshold."""
        half = (self.most - THRESHOLDS.probable) / (THRESHOLDS.probable - self.least)
        return self.least + (self.most - self.least) / (1.0 + half * (1.0 / max(strength, 1e-9)) ** self.steep)


MEASURED = Calibration(0.0, 0.0, MOST_PROBABLE, 12.0)
"""Calibration of a mode that a logged quantity defines: nothing is learned, and the threshold is sharp."""


class ModeLook(NamedTuple):
    """Probability of a mode by the rows up to a step.

    Attributes:
        probability: That it is under way.
        seen: Whether a signal for it is logged; if not, the probability is the rate in such logs.
    """

    probability: float
    seen: bool


class Mode:
    """One way in which a run fails or stalls. Each file defines ``MODE``, an instance of a subclass.

    Attributes:
        name: Standard name, as in results.
        is_failure: Whether it needs an action.
        required_signal: Signal that it requires, in words; "" where the reward suffices.
        wants: Further useful signals, by their canonical names, or `HELD_OUT`.
        chances: Map from its strength to a probability.
        remedies: Names of `actions.ACTIONS`, the most useful first.
    """

    name: ClassVar[str]
    is_failure: ClassVar[bool] = True
    required_signal: ClassVar[str] = ""
    wants: ClassVar[tuple[str, ...]] = ()
    chances: ClassVar[Calibration] = MEASURED
    remedies: ClassVar[tuple[str, ...]] = ()

    @property
    def label(self) -> str:
        """The name in words."""
        return label_of(self.name)

    def strength(self, rows: RunSoFar) -> float:
        """Evidence over its threshold: above 1 the mode is under way, below 1 it is not.

        Args:
            rows: The rows up to a step.

        Returns:
            At least 0; NaN where no logged signal could show it; infinite where a single row measures it.
        """
        raise NotImplementedError

    def began(self, rows: RunSoFar) -> Interval | None:
        """Interval of its onset, where all rows date it better than the first look that shows it."""
        return None

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Evidence for it, a clause with the run's numbers; "" without a measure.

        Args:
            rows: All rows.
            trends: Trends of the run.
            first: First step that counts.
            last: Last step.
            level: Whether to name the level of its intervals.
        """
        return ""

    def look(self, rows: RunSoFar) -> ModeLook:
        """Its probability, given the rows up to a step."""
        strength, known = self.strength(rows), self.chances
        if np.isnan(strength):
            return ModeLook(known.unseen, False)
        if np.isinf(strength):
            return ModeLook(MOST_PROBABLE, True)
        if known is MEASURED and rows.reward.rows < THRESHOLDS.trend_rows:
            return ModeLook(known.least, True)
        return ModeLook(known.at(strength), True)


def all_modes() -> tuple[Mode, ...]:
    """Every mode found in the package `bayes_grpo.diagnosis.modes`: the four failures first, the rest by name."""
    return _modes_in(tuple(modes.__path__))


@cache
def _modes_in(path: tuple[str, ...]) -> tuple[Mode, ...]:
    """The modes, looked for once for each search path of the package."""
    found = [module.MODE for module in modules_in(modes)]
    place = {name: i for i, name in enumerate(MODES)}
    return tuple(sorted(found, key=lambda m: (place.get(m.name, len(place)), m.name)))


def failure_names() -> frozenset[str]:
    """Names of the modes that need an action."""
    return frozenset(mode.name for mode in all_modes() if mode.is_failure)


def probabilities_of(rows: RunSoFar) -> ModeProbabilities:
    """Probabilities of the four failures at the last of some rows, and of other failures where the log shows them."""
    looks = {mode: mode.look(rows) for mode in all_modes() if mode.is_failure}
    return ModeProbabilities({m.name: x.probability for m, x in looks.items() if x.seen or m.name in MODES})


def probabilities_after(run: Run, rows: int) -> ModeProbabilities:
    """Of a run after its first so many rewards, without those that came later."""
    step, _ = run.rewards
    return probabilities_of(RunSoFar.of(run.until(float(step[rows - 1]) if rows else -np.inf)))


def failure_of(diagnosed: ModeProbabilities) -> str | None:
    """The likelier of two failures that settings cause, where it is more probable than not; else None."""
    p = {mode: diagnosed.probability.get(mode, 0.0) for mode in ("policy_concentration", "dynamical_instability")}
    likeliest = max(p, key=p.__getitem__)
    return likeliest if p[likeliest] > THRESHOLDS.probable else None


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
        severity_short: The same without the level of its intervals, of a mode that goes on.
    """

    mode: str
    probability: float
    onset: Interval
    end: Interval
    goes_on: float
    severity_text: str
    severity_short: str = ""

    not_in_json = ("severity_short",)

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
    def now(self) -> ModeProbabilities:
        """Probabilities of the failures at the last step."""
        failures = failure_names()
        return ModeProbabilities({name: mode.under_way for name, mode in self.modes.items() if name in failures})

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
            episodes += _episodes(mode, found[mode.name].probability, rows, trends)
    return Timeline(step, found, tuple(sorted(episodes, key=lambda e: e.onset.median)))


def _episodes(mode: Mode, p: np.ndarray, rows: RunSoFar, trends: RunTrends) -> list[Episode]:
    """Stretches in which a mode is more probable than not, or suspected; ``p`` is over the rows of the trend."""
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
        begin = float(step[first])
        severity_text = severity_short = mode.text(rows, trends, begin, until)
        if mode.is_failure and last == last_row:
            severity_short = mode.text(rows, trends, begin, until, level=False)
        shown = float(p[last] if last == last_row else p[peak])
        onset, end = interval(step[begins]), interval(closed)
        out.append(Episode(mode.name, shown, onset, end, goes_on, severity_text, severity_short))
    if out and not out[-1].over and (began := mode.began(rows)) is not None:
        before = [e for e in out[:-1] if e.end.median < began.median]  # one that ended since then is the same fall
        out = [*before, replace(out[-1], onset=began)]
    return out
