"""The result of a plan: the next run's settings, what they are expected to bring, and how much of that is prior."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import LEVEL, Interval, percent
from bayes_grpo.common.results import Result, fields_of, frame_of
from bayes_grpo.planning.outcomes import ReferenceOutcomes

if TYPE_CHECKING:
    import pandas as pd

LEAST_BETTER = 0.8
"""Probability of being better than the present settings from which on others are recommended."""
WORDS = {
    "group_size": "group size",
    "prompts_per_step": "prompts a step",
    "learning_rate": "learning rate",
    "refresh_interval": "refresh interval",
}


@dataclass(frozen=True)
class Candidate:
    """Settings of a next run and what they are expected to bring.

    Attributes:
        settings: Setting → value.
        steps: Steps that it is run for, within the budget.
        expected: Expected reward at their end, runs that fail counted with what they leave; NaN, as the next three are,
            where it is beyond what the run has shown (`Plan.shown`).
        next_run: Reward of one run there: with seed and fluctuation.
        gain: Reward gained over the present settings.
        expected_gain: Its mean.
        p_better: Probability that it is better than the present settings; a tie counts half.
        failure_risk: Failure probability, learned from public runs (`bayes_grpo.risk`).
        fails: Its interval: share of such runs that fail.
        tried: Whether some public run moved each setting as far.
        evidence: Source of that probability, in words.
    """

    settings: Mapping[str, float]
    steps: float
    expected: float
    next_run: Interval
    gain: Interval
    expected_gain: float
    p_better: float
    failure_risk: float
    fails: Interval
    tried: bool
    evidence: str


def amount_of(name: str, value: float) -> str:
    """A planned setting as one reads it: counts in full, rates to three digits."""
    return f"{value:.3g}" if name == "learning_rate" else f"{value:g}"


@dataclass(frozen=True, eq=False)
class Plan(Result):
    """The next run.

    Attributes:
        run: Name of the present run.
        signal: "reward" or "eval_reward".
        present: The present settings.
        candidates: All candidates, the best first; those that fail too probably last.
        budget: Largest cost, in steps of the present run.
        risk: Largest P(fails) of what is recommended.
        present_hacked: Probability that the reward by which the plan judges is hacked, where that is more probable than
            not; 0 otherwise.
        cautions: What not to believe, one sentence each.
        reference_runs: What became of reference runs at their settings; None without any.
        rate_known: Whether the present learning rate is known; else the candidates' are times it.
        shown: Level above which no reward is expected: the highest mean of a tenth of the rows where the reward's
            highest value is unknown; infinite where it is known.
    """

    run: str
    signal: str
    present: Mapping[str, float]
    candidates: tuple[Candidate, ...]
    budget: float
    risk: float
    cautions: tuple[str, ...]
    reference_runs: ReferenceOutcomes | None = None
    present_hacked: float = 0.0
    rate_known: bool = True
    shown: float = math.inf

    interval_level = LEVEL
    also_in_json = ("sentence", "verdict", "interval_level", "recommended")

    @property
    def recommended(self) -> Candidate:
        """The largest expected gain of what is better with a probability of `LEAST_BETTER` and unlikely to fail."""
        return self.candidates[0]

    @property
    def kept(self) -> Candidate:
        """The present settings."""
        return next(c for c in self.candidates if c.settings == self.present)

    @property
    def verdict(self) -> str:
        """One of "change" and "keep"."""
        return "keep" if self.recommended is self.kept else "change"

    @property
    def answer(self) -> str:
        """The recommendation; of a reward that is hacked, that first."""
        if self.present_hacked:
            return f"The present reward is being hacked ({percent(self.present_hacked)}); fix it before all else."
        best = self.recommended
        if self.verdict == "keep":
            p = self.kept.failure_risk
            risky = f", which have a {percent(p)} risk of failure" if p > self.risk else ""
            return f"For the next run, no candidate is clearly better than the present settings{risky}."
        return f"For the next run, try {self.changes(best)}: {percent(best.failure_risk)} risk of failure."

    @property
    def why(self) -> str:
        """What the best candidate is expected to bring."""
        best, g = self.recommended, self.recommended.gain
        if self.verdict == "keep":
            p = max((c.p_better for c in self.candidates if c is not best), default=0.0)
            return f"Chance that other settings are better at the same cost: at most {percent(p)}."
        if math.isnan(best.expected_gain):
            level = f"above {self.shown:.3g}, the highest level of this run"
            return f"Its expected reward is {level}; {percent(best.p_better)} chance of being better."
        return (
            f"Expected gain at the same cost {best.expected_gain:+.3g} [{g.low:+.3g}, {g.high:+.3g}]; "
            f"{percent(best.p_better)} chance of being better."
        )

    @property
    def sentence(self) -> str:
        """Recommendation and gain."""
        return f"{self.answer} {self.why}"

    def changes(self, candidate: Candidate) -> str:
        """What a candidate changes, in words."""
        moved = [
            f"{WORDS[name]} {amount_of(name, value)} (now {amount_of(name, self.present[name])})"
            if self.rate_known or name != "learning_rate"
            else f"{amount_of(name, value)} times the present learning rate"
            for name, value in candidate.settings.items()
            if value != self.present[name]
        ]
        return " and ".join([", ".join(moved[:-1]), moved[-1]] if len(moved) > 1 else moved) or "the present settings"

    def to_frame(self) -> pd.DataFrame:
        """One row a candidate, the best first; its settings are the index."""
        rows = ({**c.settings, **fields_of(c, "settings")} for c in self.candidates)
        return frame_of(rows, list(self.present))
