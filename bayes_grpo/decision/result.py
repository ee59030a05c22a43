"""The result of a decision: what stopping at every step is worth, and the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayes_grpo.common.intervals import percent
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.common.text import amount
from bayes_grpo.decision.checkpoints import Choice
from bayes_grpo.diagnosis.records import Action, ActionKind
from bayes_grpo.diagnosis.wording import as_sentence
from bayes_grpo.signals.thresholds import THRESHOLDS

if TYPE_CHECKING:
    import pandas as pd


_COLUMNS = ("step", "gain", "net", "net_low", "net_high")
"""Columns of the table of stopping steps."""


@dataclass(frozen=True)
class Back(Result):
    """A checkpoint to go back to, because the reward has fallen since: the last step near the best reward.

    ``gain`` is how much higher the reward was there, ``net`` what that is worth. ``at_once`` is True where that was in
    the first rows: it is the policy that the run began with.
    """

    step: float
    gain: float
    net: float
    at_once: bool = False

    @property
    def action(self) -> Action:
        """The action."""
        kind: ActionKind = "start_over" if self.at_once else "go_back"
        return Action(kind=kind, step=self.step, reason="costs", numbers={"gain": self.gain, "net": self.net})

    @property
    def sentence(self) -> str:
        """The action in words."""
        return as_sentence(self.action.clause)


@dataclass(frozen=True, eq=False)
class Decision(Result):
    """The value of a stop at every step, in the unit of the costs given.

    Attributes:
        cost_per_step: C; None where no cost is given.
        value_per_reward: V.
        step: Stopping steps, the first of them now, the last the end of the forecast, shape (h,).
        gain: Expected gain of reward at each, shape (h,).
        net: Expected net value of each, shape (h,).
        net_low: Lower end of its interval, shape (h,).
        net_high: Upper end, shape (h,).
        recommended: Step of the largest expected net value; None where no cost is given.
        pays_at: The step whose net value decides whether continuing pays: the one of the largest expected net value,
            or the best of the later ones where that is now.
        probability_pays: Probability that the net value at `pays_at` is above 0.
        level: Probability inside the intervals.
        back: A checkpoint that is worth more than going on; None where there is none, or any checkpoint can be had.
        choice: Which of the checkpoints so far to take; None where none are kept.
        assumed: Assumptions of the forecast.
        warnings: Limits of the results, as sentences.
    """

    cost_per_step: float | None
    value_per_reward: float
    step: np.ndarray
    gain: np.ndarray
    net: np.ndarray
    net_low: np.ndarray
    net_high: np.ndarray
    recommended: float | None
    pays_at: float
    probability_pays: float
    level: float
    back: Back | None = None
    choice: Choice | None = None
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    also_in_json = ("sentence", "table")
    not_in_json = _COLUMNS

    @property
    def table(self) -> list[dict[str, float]]:
        """One entry a stopping step."""
        columns = [getattr(self, name).tolist() for name in _COLUMNS]
        return [dict(zip(_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]

    @property
    def now(self) -> float:
        """Last logged step."""
        return float(self.step[0])

    @property
    def until(self) -> float:
        """Last step of the forecast."""
        return float(self.step[-1])

    def expected(self, step: float) -> float:
        """Expected net value of stopping at a step of the table."""
        return float(self.net[self._row(step)])

    def _row(self, step: float) -> int:
        return int(np.argmin(np.abs(self.step - step)))

    @property
    def stops_now(self) -> bool:
        """True where a stop at once is recommended."""
        return self.recommended is not None and self.recommended <= self.now

    @property
    def at_odds(self) -> bool:
        """True if going on pays on average and yet more probably not."""
        return self.recommended is not None and not self.stops_now and self.probability_pays < THRESHOLDS.probable

    @property
    def sentence(self) -> str:
        """The decision in words."""
        return " ".join(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The decision in words, a sentence each: what to do first, then what it is worth."""
        if self.recommended is None or self.cost_per_step is None:
            return self._value_sentences
        fixed = self._stop_sentences(self.recommended, self.cost_per_step)
        if self.choice is not None:
            return (*fixed, self.choice.sentence) if self.stops_now else fixed
        if self.back is not None:
            first, *rest = fixed
            return (self.back.sentence, f"Without it: {first[0].lower()}{first[1:]}", *rest)
        return fixed

    @property
    def _value_sentences(self) -> tuple[str, ...]:
        """The step of the highest expected reward and the checkpoint to take, without a recommendation."""
        gain = float(self.gain[self._row(self.pays_at)])
        above = f"{percent(self.probability_pays)} chance to be above the present one"
        peak = f"The best later step, {self.pays_at:g}, changes the expected reward by {gain:+.3g}: {above}."
        choice = () if self.choice is None else (self.choice.sentence,)
        return "No stop is recommended: no cost of a step is given (--cost-per-step).", peak, *choice

    def _stop_sentences(self, recommended: float, cost_per_step: float) -> tuple[str, ...]:
        """The recommended step in words, whatever checkpoint is taken there."""
        pays = percent(self.probability_pays)
        to_end = amount(self.expected(self.until))
        if self.stops_now:
            text = (
                f"The best later step, {self.pays_at:g}, has an expected net value of "
                f"{amount(self.expected(self.pays_at))} and a {pays} chance to pay"
            )
            if self.until != self.pays_at:
                text += f"; continuing to step {self.until:g} is worth {to_end}"
            return f"Stop now, at step {self.now:g}: no later step is expected to pay.", f"{text}."
        more = recommended - self.now
        row = self._row(recommended)
        end = recommended == self.until
        first = (
            f"{'Continue to the end,' if end else 'Stop at'} step {recommended:g}: {more:g} more steps cost "
            f"{amount(more * cost_per_step)}."
        )
        text = (
            f"Expected net value {amount(float(self.net[row]))} "
            f"[{amount(float(self.net_low[row]))}, {amount(float(self.net_high[row]))}] ({self.level:.0%}), above 0 "
            f"with probability {pays}"
        )
        if self.at_odds:
            text += ": a rare large gain carries the mean"
        return first, text + ("." if end else f"; continuing to step {self.until:g} is worth {to_end}.")

    def to_frame(self) -> pd.DataFrame:
        """One row a stopping step: gain, net value and its interval."""
        table = frame_of(self.table, "step")
        table.attrs["interval_level"] = self.level
        return table
