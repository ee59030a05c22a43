"""What the evidence of a mode is made of: quantities with their posteriors, and transforms of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.intervals import Interval, interval, probability_text
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.classes import PROGRESS
from bayes_grpo.events.borders import BORDERS


@dataclass(frozen=True)
class EvidenceQuantity(Result):
    """A physical quantity with its posterior.

    Attributes:
        name: Standard name.
        unit: Its unit, empty where it has none.
        meaning: What it is, in a clause.
        posterior: Median and interval.
    """

    name: str
    unit: str
    meaning: str
    posterior: Interval

    in_json = ("name", "unit", "meaning", "posterior.*")


@dataclass(frozen=True)
class ModeEvidence(Result):
    """Evidence of one mode.

    Attributes:
        mode: "reward_hacking", … or "progress", which all share.
        probability: That the mode's event holds (`bayes_grpo.events`), from its posterior alone; NaN where
            the log has no signal for it.
        quantities: Posteriors of the quantities behind it.
        used: Signals it rests on.
        missing: Signals that would say more.
        sentence: What it says, in words.
    """

    mode: str
    probability: float
    quantities: tuple[EvidenceQuantity, ...]
    used: tuple[str, ...]
    missing: tuple[str, ...]
    sentence: str

    def posterior(self, name: str) -> Interval | None:
        """Posterior of one of its quantities; None where the log did not give it."""
        return next((q.posterior for q in self.quantities if q.name == name), None)


def weighed_text(evidence: ModeEvidence, own: float | None) -> str:
    """How far the evidence of a mode speaks for it by itself, and what is left of that; "" where no signal tells.

    Args:
        evidence: The evidence.
        own: Probability that the mode is under way by everything that is known; None where it is the evidence's.
    """
    if np.isnan(evidence.probability) or evidence.mode == PROGRESS:
        return ""
    text = f"by itself {probability_text(evidence.probability)}"
    if own is not None and (own >= BORDERS.probable) != (evidence.probability >= BORDERS.probable):
        text += f", with everything else weighed {probability_text(own)}"
    return f" ({text})"


def quantity(name: str, draws: np.ndarray, unit: str, meaning: str) -> EvidenceQuantity:
    """A quantity from its draws."""
    return EvidenceQuantity(name, unit, meaning, interval(draws))
