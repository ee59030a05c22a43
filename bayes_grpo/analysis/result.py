"""What an analysis of a run has found: each part a value, or the reason why there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bayes_grpo.analysis.advice import advised
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.text import plain

if TYPE_CHECKING:
    from bayes_grpo.checking.result import Check
    from bayes_grpo.comparison.result import Comparison
    from bayes_grpo.decision.result import Decision
    from bayes_grpo.diagnosis.result import Diagnosis
    from bayes_grpo.diagnosis.status import Status
    from bayes_grpo.fitting.result import Fit
    from bayes_grpo.fitting.summary import Summary
    from bayes_grpo.forecasting.result import Forecast
    from bayes_grpo.forecasting.summary import ForecastSummary
    from bayes_grpo.planning.result import StabilityReport

_LONGEST = 600
"""Characters of a reason."""


@dataclass(frozen=True, eq=False)
class Part[T]:
    """One part of an analysis.

    Attributes:
        value: The result; None where there is none.
        reason: Why there is none; "" where there is one.
        seconds: Time that it took.
        error: What went wrong; None where nothing did, or nothing was computed.
    """

    value: T | None = None
    reason: str = "Left out on request."
    seconds: float = 0.0
    error: Exception | None = None

    @classmethod
    def of(cls, make: Callable[[], T]) -> Part[T]:
        """The computed part, or the reason why it is missing."""
        begin = time.perf_counter()
        try:
            return cls(make(), "", time.perf_counter() - begin)
        except Exception as error:  # an unexpected error in one part must not stop the others
            known = isinstance(error, BayesGrpoError)
            text = str(error) if known else f"Failed unexpectedly: {type(error).__name__}: {error}"
            return cls(None, plain(text, _LONGEST), time.perf_counter() - begin, error)

    @property
    def required(self) -> T:
        """The value.

        Raises:
            Exception: There is none: the error that cost it.
        """
        if self.value is None:
            raise self.error or BayesGrpoError(self.reason)
        return self.value


class Fitted(NamedTuple):
    """A fit and its summary."""

    fit: Fit
    summary: Summary


class Forecasted(NamedTuple):
    """A forecast.

    Attributes:
        forecast: Its paths.
        summary: Its numbers.
        decision: When to stop; None without a cost and a value.
        undecided: Why there is no decision about stopping; "" where there is one or no costs were given.
    """

    forecast: Forecast
    summary: ForecastSummary
    decision: Decision | None
    undecided: str = ""


class Stable(NamedTuple):
    """Stability at the run's own settings, and how its curvature was found."""

    report: StabilityReport
    note: str


@dataclass(frozen=True, eq=False)
class Analysis:
    """What was found of a run.

    Attributes:
        fit: A regime's posterior.
        regimes: Regimes compared.
        check: What the fit misses.
        forecast: The rewards to come, and when to stop.
        diagnosis: Which failure is under way.
        stability: How stable the run's settings are.
    """

    fit: Part[Fitted] = Part()
    regimes: Part[Comparison] = Part()
    check: Part[Check] = Part()
    forecast: Part[Forecasted] = Part()
    diagnosis: Part[Diagnosis] = Part()
    stability: Part[Stable] = Part()

    @property
    def status(self) -> Status | None:
        """How the run stands, given all that was found; None without a diagnosis."""
        diagnosis, ahead = self.diagnosis.value, self.forecast.value
        if diagnosis is None:
            return None
        return diagnosis.status if ahead is None else advised(diagnosis.status, ahead.summary, ahead.decision)
