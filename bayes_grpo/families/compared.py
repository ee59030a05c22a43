"""The result of a comparison of two recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval, probability_text
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.families.recipes import FURTHER, SURE

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RecipeAnswer(Result):
    """Which recipe is better by one measure.

    Attributes:
        at: "step", "completions", "end" (of each run's own log) or "plateau"; of a part its name.
        words: The same in words.
        a: A's mean over seeds, reward.
        b: B's.
        difference: B less A.
        p_better: Probability that B's mean over seeds is higher.
        spread: Standard deviation between seeds, reward.
        further: Further seeds of each recipe that would settle it with probability .8; None where 64 would not, or none
            is needed.
    """

    at: str
    words: str
    a: Interval
    b: Interval
    difference: Interval
    p_better: float
    spread: Interval
    further: int | None

    in_json = (..., "verdict")

    @property
    def verdict(self) -> str:
        """One of "B is better", "A is better" and "cannot tell"."""
        if self.p_better >= SURE:
            return "B is better"
        return "A is better" if self.p_better <= 1.0 - SURE else "cannot tell"

    @property
    def numbers(self) -> str:
        """Probability and difference."""
        d = self.difference
        better = f"P(B better than A) {probability_text(self.p_better)}"
        return f"{better}, difference {d.median:+.3g} [{d.low:+.3g}, {d.high:+.3g}]"


@dataclass(frozen=True, eq=False)
class RecipeCurve:
    """A run in the picture: its side, its rows, and its latent reward's median and interval there."""

    side: str
    name: str
    step: np.ndarray
    reward: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Counts(NamedTuple):
    """Runs of each recipe."""

    a: int
    b: int


@dataclass(frozen=True, eq=False)
class Compared(Result):
    """Two recipes, a few seeds each.

    Attributes:
        signal: "reward" or "eval_reward".
        counts: Runs of A and of B.
        not_comparable: Why the totals are no comparison; "" where they are one.
        differs: What differs between the recipes besides: settings and length.
        answers: By the total: at a step, at equal completions, at the end, at the plateau.
        parts: By what both sides log besides: held-out reward, gold reward, accuracy, parts of the reward.
        curves: The runs.
        spread_from: Where the spread between seeds comes from.
        cautions: What not to believe, one sentence each.
    """

    signal: str
    counts: Counts
    not_comparable: str
    differs: tuple[str, ...]
    answers: tuple[RecipeAnswer, ...]
    parts: tuple[RecipeAnswer, ...]
    curves: tuple[RecipeCurve, ...]
    spread_from: str
    cautions: tuple[str, ...]

    in_json = ("sentence", ("interval_level", LEVEL), ...)
    not_in_json = ("curves",)

    def answer(self, at: str) -> RecipeAnswer:
        """One answer by its place, or by the name of a part; `KeyError` where there is none."""
        return {x.at: x for x in (*self.answers, *self.parts)}[at]

    @property
    def sentence(self) -> str:
        """The first answer in words; where the totals are no comparison, those of the parts."""
        level = f"({LEVEL:.0%} interval, mean over seeds)"
        if self.not_comparable:
            shared = "; ".join(f"{x.words}: {x.verdict}, {x.numbers}" for x in self.parts)
            by = (
                f"By what both log, last fifth of the rows: {shared} {level}." if shared else "Both log no shared part."
            )
            return f"The totals are no comparison: {self.not_comparable}. {by}"
        x = self.answers[0]
        if x.verdict != "cannot tell":
            return f"{x.verdict} {x.words}: {x.numbers} {level}."
        if x.further is None:
            more = f"{FURTHER[-1]} further seeds of each would probably not settle it either"
        else:
            more = f"{x.further} further seed{'s' * (x.further > 1)} of each would settle it with probability 0.8"
        return f"Cannot tell which is better {x.words}: {x.numbers} {level}; {more}."

    def to_frame(self) -> pd.DataFrame:
        """One row an answer."""
        return frame_of((*self.answers, *self.parts), "at")
