"""Interface of a failure mode, one file in `bayes_grpo.diagnosis.modes` each, and the timeline of a run.

A mode is a predicate on the drawn paths of a run: for every draw and every step it holds or not. Its probability at a
step is

    P = least + (most - least) · share of the draws in which it holds,

`least` the rate of a mode where its definition does not hold, `most` where it clearly holds: rounded shares of labeled
public logs, the only learned numbers. Definitions generalize to logs of new authors; weights learned from few authors
did not. Modes do not exclude one another. All draws see the whole log, so an episode is dated by what follows it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.imports import modules_in
from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis import modes
from bayes_grpo.diagnosis.records import FindingKind
from bayes_grpo.diagnosis.status import MODES, ModeProbabilities
from bayes_grpo.diagnosis.view import RunView
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.series import stretches
from bayes_grpo.signals.thresholds import THRESHOLDS

HELD_OUT = "gold or evaluation reward"
"""A requirement of modes that is no signal under one name."""


class Calibration(NamedTuple):
    """Probabilities of a mode where its definition does not hold, where no signal could show it, and where it holds."""

    least: float
    unseen: float
    most: float

    def at(self, share: np.ndarray) -> np.ndarray:
        """Probability where the definition holds in a share of the draws."""
        return self.least + (self.most - self.least) * share


MEASURED = Calibration(0.0, 0.0, 0.95)
"""Calibration of a mode that a logged quantity defines: nothing is learned, but a log may be misread."""


@dataclass(frozen=True)
class Mode:
    """One way in which a run fails or stalls. Each file in `modes` defines one, ``MODE``.

    Attributes:
        name: Standard name, as in results.
        holds: Of a view: True where it is under way at each of its steps, (draws, n); None where no signal can show it.
        text: Of a view, the first and the last step that count: its severity, a clause with the run's numbers; ""
            without a measure.
        remedies: Names of `actions.ACTIONS`, the most useful first.
        wants: Useful signals, by their canonical names, or `HELD_OUT`.
        chances: Map from the share of draws to a probability.
        is_failure: Whether it needs an action.
        certain: Of a view: whether a direct measurement shows it, whatever the labels of other logs say.
        dates: Of a view, the last step before a stretch and its last: the first and last step that a measurement gives
            it; None where the draws date it.
    """

    name: FindingKind
    holds: Callable[[RunView], np.ndarray | None]
    text: Callable[[RunView, float, float], str]
    remedies: tuple[str, ...]
    wants: tuple[str, ...] = ()
    chances: Calibration = MEASURED
    is_failure: bool = True
    certain: Callable[[RunView], bool] = lambda view: False
    dates: Callable[[RunView, float, float], tuple[float, float] | None] = lambda view, after, last: None


@cache
def all_modes() -> tuple[Mode, ...]:
    """Every mode found in the package `bayes_grpo.diagnosis.modes`: the four failures first, the rest by name."""
    found = [module.MODE for module in modules_in(modes)]
    place = {name: i for i, name in enumerate(MODES)}
    return tuple(sorted(found, key=lambda m: (place.get(m.name, len(place)), m.name)))


def failure_names() -> frozenset[str]:
    """Names of the modes that need an action."""
    return frozenset(mode.name for mode in all_modes() if mode.is_failure)


def probabilities_of(view: RunView | None) -> ModeProbabilities:
    """Probabilities of the four failures at the last row, and of other failures where the log shows them."""
    if view is not None:
        return timeline_of(view).now
    return ModeProbabilities({mode.name: mode.chances.unseen for mode in all_modes() if mode.name in MODES})


def probabilities_after(run: Run, rows: int) -> ModeProbabilities:
    """Of a run after its first so many rewards, without those that came later."""
    step, _ = run.rewards
    return probabilities_of(RunView.of(run.until(float(step[rows - 1]) if rows else -np.inf)))


def failure_of(diagnosed: ModeProbabilities) -> str | None:
    """The likelier of two failures that settings cause, where it is more probable than not; else None."""
    p = {mode: diagnosed.probability.get(mode, 0.0) for mode in ("policy_concentration", "dynamical_instability")}
    likeliest = max(p, key=p.__getitem__)
    return likeliest if p[likeliest] > THRESHOLDS.probable else None


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

    mode: FindingKind
    probability: float
    onset: Interval
    end: Interval
    goes_on: float
    severity_text: str

    @property
    def probable(self) -> bool:
        """True if it is more probable than not; less probable ones are suspected."""
        return self.probability >= THRESHOLDS.probable

    @property
    def over(self) -> bool:
        """True if it has probably ended."""
        return self.goes_on < THRESHOLDS.probable


@dataclass(frozen=True, eq=False)
class ModeTimeline(Result):
    """One mode over a run.

    Attributes:
        mode: Its name.
        probability: That it is under way at each step, shape (n,).
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

    def for_few_rows(self) -> Timeline:
        """The same of so few rows that only what is more probable than not is seen."""
        seen = {name: mode for name, mode in self.modes.items() if mode.under_way >= THRESHOLDS.probable}
        return Timeline(self.step, _in_order(_unseen(len(self.step)) | seen), self.episodes)

    def probable(self, over: bool) -> list[Episode]:
        """Episodes that are more probable than not, over or not."""
        return [e for e in self.episodes if e.probable and e.over == over]


def timeline_of(view: RunView) -> Timeline:
    """The timeline of one run."""
    found = _unseen(len(view.steps))
    episodes: list[Episode] = []
    for mode in all_modes():
        holds = mode.holds(view)
        if holds is not None:
            p = (MEASURED if mode.certain(view) else mode.chances).at(holds.mean(axis=0))
            found[mode.name] = ModeTimeline(mode.name, p, True)
            episodes += _episodes(mode, view, holds, p)
    return Timeline(view.steps, _in_order(found), tuple(sorted(episodes, key=lambda e: e.onset.median)))


def _unseen(steps: int) -> dict[str, ModeTimeline]:
    """The modes with a probability where no signal shows them: the four failures, and what a reward does."""
    known = (mode for mode in all_modes() if mode.name in MODES or not mode.is_failure)
    return {mode.name: ModeTimeline(mode.name, np.full(steps, mode.chances.unseen), False) for mode in known}


def _in_order(found: Mapping[str, ModeTimeline]) -> dict[str, ModeTimeline]:
    return {mode.name: found[mode.name] for mode in all_modes() if mode.name in found}


def _episodes(mode: Mode, view: RunView, holds: np.ndarray, p: np.ndarray) -> Iterator[Episode]:
    """Stretches in which a mode is more probable than not, or suspected, dated by the draws in which it holds there."""
    last_row = len(p) - 1
    blocks = view.reward.last_step
    probable = stretches(p >= THRESHOLDS.probable)
    suspected = [x for x in stretches(p >= THRESHOLDS.suspect) if not any(x[0] <= a <= x[1] for a, _ in probable)]
    for first, last in [*probable, *suspected]:
        peak = last_row if last == last_row else first + int(np.argmax(p[first : last + 1]))
        begins, ends = _around(holds[holds[:, peak]], peak)
        goes_on = float(np.mean(ends == last_row)) if len(ends) else 0.0
        if goes_on < THRESHOLDS.probable:
            ends = ends[ends < last_row]
        dates = mode.dates(view, float(blocks[first - 1]) if first else -np.inf, float(blocks[last]))
        begin = float(view.steps[first]) if first else view.first_step
        until = view.last_step if last == last_row else float(view.steps[last])
        yield Episode(
            mode=mode.name,
            probability=float(p[peak]),
            onset=interval(view.steps[begins] if dates is None else dates[0]),
            end=interval(view.steps[ends] if dates is None else dates[1]),
            goes_on=goes_on,
            severity_text=mode.text(view, begin, until),
        )


def _around(holds: np.ndarray, peak: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last place of the stretch around a place where a condition holds in every draw, shape (draws,) each."""
    before = holds[:, peak::-1]
    after = holds[:, peak:]
    back = np.where(before.all(axis=1), before.shape[1], np.argmin(before, axis=1))
    ahead = np.where(after.all(axis=1), after.shape[1], np.argmin(after, axis=1))
    return peak - back + 1, peak + ahead - 1
