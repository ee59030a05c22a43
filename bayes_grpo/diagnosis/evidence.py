"""What the evidence of a mode is made of: quantities with their posteriors, and transforms of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.intervals import Interval, interval, percent
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.classes import PROGRESS
from bayes_grpo.diagnosis.thresholds import THRESHOLDS


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
        probability: That the mode is under way, the same as everywhere; NaN where the log has no signal for it.
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


def weighed_text(evidence: ModeEvidence) -> str:
    """The probability of a mode behind its name; "" where no signal tells."""
    if np.isnan(evidence.probability) or evidence.mode == PROGRESS:
        return ""
    return f" ({percent(evidence.probability)})"


def quantity(name: str, draws: np.ndarray, unit: str, meaning: str) -> EvidenceQuantity:
    """A quantity from its draws."""
    return EvidenceQuantity(name, unit, meaning, interval(draws))


_DUST = 1e-8
"""A number below this is what is left of 0 in the trend of a signal that is constant."""


def left_text(name: str, left: Interval) -> str:
    """What is left of a quantity: a percentage of its start, or a multiple where it has more than doubled."""
    if left.median > THRESHOLDS.doubled:
        return f"the {name} is {left.median:.3g} [{left.low:.3g}, {left.high:.3g}] ({left.level:.0%}) times its start"
    return f"{left.median:.0%} [{left.low:.0%}, {left.high:.0%}] ({left.level:.0%}) of the starting {name} is left"


def without_dust(found: Interval) -> Interval:
    """An interval whose ends are 0 where they are 0 but for rounding."""
    return found._replace(**{k: 0.0 for k in ("median", "low", "high") if abs(getattr(found, k)) < _DUST})


def span_text(found: Interval, digits: str = ".2g") -> str:
    """Median and interval with its level."""
    found = without_dust(found)
    return f"{found.median:{digits}} [{found.low:{digits}}, {found.high:{digits}}] ({found.level:.0%})"
