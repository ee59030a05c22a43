"""Status of a run: one word, its meaning, and the action. Imports nothing that computes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from bayes_grpo.common.intervals import percent
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.records import Action, Finding, FindingKind
from bayes_grpo.diagnosis.wording import joined
from bayes_grpo.signals.thresholds import THRESHOLDS

MODES: tuple[FindingKind, ...] = (
    "reward_hacking",
    "advantage_degeneracy",
    "policy_concentration",
    "dynamical_instability",
)
"""The four failures."""

StatusWord = Literal["fine", "watch", "failing", "failed", "done", "unclear"]

MEANING: Mapping[StatusWord, str] = {
    "fine": "the reward rises or holds, and the log shows no failure",
    "watch": "no failure is established, but one is possible or something needs a look",
    "failing": "a failure is more probable than not, and can be fixed",
    "failed": "the reward has lost half or more of what it had",
    "done": "the reward has plateaued, the task is solved, or the planned steps are over, and the log shows no failure",
    "unclear": "the log has too little information",
}
"""Status → what it means, for a first reading."""
ALARMING: tuple[StatusWord, ...] = ("failing", "failed")
"""Statuses that warrant paging."""
SEVERITY: Mapping[str, int] = {"fine": 0, "done": 0, "unclear": 0, "watch": 1, "failing": 2, "failed": 3}
"""Status → how bad it is, as a number for a tracker's alert."""


class ModeProbabilities:
    """Probabilities of the failures of a run, and base of results that have them.

    Attributes:
        probability: Mode → probability that it is under way, whatever else is.
    """

    probability: Mapping[str, float]

    def __init__(self, probability: Mapping[str, float]) -> None:
        """Of one look at a run."""
        self.probability = probability

    @property
    def failing(self) -> float:
        """Probability that any of the four failures is under way, were they independent."""
        return 1.0 - math.prod(1.0 - self.probability.get(mode, 0.0) for mode in MODES)

    def alarming(self, limit: float) -> tuple[str, ...]:
        """Failures with at least this probability; where only all together reach it, the most probable one."""
        found = tuple(mode for mode in MODES if self.probability[mode] >= limit)
        return found or ((max(MODES, key=self.probability.__getitem__),) if self.failing >= limit else ())


@dataclass(frozen=True)
class Status(Result):
    """Status of a run and the action.

    Attributes:
        status: One of `MEANING`.
        finding: What it is about.
        action: The one action to take now.
        actions: Further actions, the most useful first.
        earlier: Earlier events and episodes that are over.
        looks: What needs a look next to the finding, and is no alarm.
    """

    status: StatusWord
    finding: Finding
    action: Action
    actions: tuple[Action, ...] = ()
    earlier: tuple[Finding, ...] = ()
    looks: tuple[Finding, ...] = ()

    also_in_json = ("probability", "sentence", "headline", "evidence", "meaning")

    @property
    def probability(self) -> float:
        """Probability of the finding; of any failure where no single one is probable."""
        return self.finding.probability

    @property
    def meaning(self) -> str:
        """Meaning of the status word."""
        return MEANING[self.status]

    @property
    def alarming(self) -> bool:
        """True if the status warrants paging."""
        return self.status in ALARMING

    @property
    def headline(self) -> str:
        """The finding, a sentence."""
        return self.finding.sentence

    @property
    def evidence(self) -> str:
        """Basis of status and action."""
        also = {"finding": "", "forecast": " and the forecast", "costs": " and the costs given"}
        return self.finding.basis + also[self.action.reason]

    @property
    def past(self) -> str:
        """Failures that are over, a sentence; "" without any."""
        return f"Earlier: {joined(x.clause for x in self.earlier)}." if self.earlier else ""

    @property
    def also(self) -> str:
        """Further findings that need a look, a sentence each; "" without any."""
        return " ".join(x.sentence for x in self.looks)

    @property
    def sentence(self) -> str:
        """The line in words."""
        parts = (f"{self.named}: {self.headline}", self.past, self.also, f"Do now: {self.action.sentence}")
        return " ".join(part for part in parts if part)

    @property
    def chance(self) -> float | None:
        """The probability that is printed with the status; None with too little information or a mere sign."""
        sign = self.status == "watch" and not self.probability >= THRESHOLDS.suspect  # a mere sign has NaN
        return None if self.status == "unclear" or sign else self.probability

    @property
    def named(self) -> str:
        """The status with its probability, such as "FAILED (88%)"."""
        return self.status.upper() + ("" if self.chance is None else f" ({percent(self.chance)})")


class Answer(NamedTuple):
    """Answer of a cause.

    Attributes:
        status: The status.
        finding: Its finding.
        situation: Key of `actions.SITUATIONS` or a mode, whose actions apply; "" for the finding's mode.
        first: Action that goes before these; None for none.
    """

    status: StatusWord
    finding: Finding
    situation: str = ""
    first: Action | None = None
