"""What came of the parts of a page: a value, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bayes_grpo.analysis.advice import advised
from bayes_grpo.checking.result import Check
from bayes_grpo.comparison.result import Comparison
from bayes_grpo.decision.result import Decision
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.status import TopLine
from bayes_grpo.fitting.result import Fit
from bayes_grpo.fitting.summary import Summary
from bayes_grpo.forecasting.result import Forecast
from bayes_grpo.forecasting.summary import ForecastSummary
from bayes_grpo.planning.result import StabilityReport


@dataclass(frozen=True, eq=False)
class Answer[T]:
    """What came of one part.

    Attributes:
        value: The result; None where there is none.
        reason: Why there is none; "" where there is one.
        seconds: Time that it took.
    """

    value: T | None
    reason: str = ""
    seconds: float = 0.0


class Fitted(NamedTuple):
    """A fit and what it says."""

    fit: Fit
    summary: Summary


class Forecasted(NamedTuple):
    """A forecast, what it says, the decision where one was asked for, and where its horizon comes from."""

    forecast: Forecast
    summary: ForecastSummary
    decision: Decision | None
    until_from: str


class Stable(NamedTuple):
    """Stability at the run's own settings, and how its curvature was found."""

    report: StabilityReport
    note: str


class Found(NamedTuple):
    """What came of all parts of a run."""

    fit: Answer[Fitted]
    laws: Answer[Comparison]
    check: Answer[Check]
    forecast: Answer[Forecasted]
    diagnosis: Answer[Diagnosis]
    stability: Answer[Stable]

    @property
    def top(self) -> TopLine | None:
        """How the run stands, given all that was found; None where nobody could say."""
        diagnosis, ahead = self.diagnosis.value, self.forecast.value
        if diagnosis is None:
            return None
        return diagnosis.top if ahead is None else advised(diagnosis.top, ahead.summary, ahead.decision)
