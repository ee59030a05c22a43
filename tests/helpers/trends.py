"""Courses of signals that are known to be there: `None`, the answer for too few values, fails the test at once."""

from __future__ import annotations

from typing import Any

from bayes_grpo.diagnosis.trend import RunTrends, Trend
from bayes_grpo.diagnosis.trend import fit_trend as trend_or_none
from bayes_grpo.diagnosis.trend import trends_of as trends_or_none
from bayes_grpo.logs.run import Run


def there[T](found: T | None) -> T:
    """What was found, which has to be something."""
    assert found is not None
    return found


def trends_of(run: Run) -> RunTrends:
    """Courses of a run that has a reward."""
    return there(trends_or_none(run))


def fit_trend(*args: Any, **kwargs: Any) -> Trend:
    """Trend of a signal that has enough values."""
    return there(trend_or_none(*args, **kwargs))
