"""Courses of signals that are known to be there: `None`, the answer for too few values, fails the test at once."""

from __future__ import annotations

from typing import Any

from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.courses import courses_of as courses_or_none
from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.diagnosis.trend import trend as trend_or_none
from bayes_grpo.logs.run import Run


def there[T](found: T | None) -> T:
    """What was found, which has to be something."""
    assert found is not None
    return found


def courses_of(run: Run) -> Courses:
    """Courses of a run that has a reward."""
    return there(courses_or_none(run))


def trend(*args: Any, **kwargs: Any) -> Trend:
    """Course of a signal that has enough values."""
    return there(trend_or_none(*args, **kwargs))
