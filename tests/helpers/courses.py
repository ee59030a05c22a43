"""Courses of signals that are known to be there: `None`, the answer for too few values, fails the test at once."""

from __future__ import annotations

from typing import Any

from bayes_grpo.diagnosis.evidence import Courses
from bayes_grpo.diagnosis.evidence import courses_of as courses_or_none
from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.diagnosis.trend import trend as trend_or_none
from bayes_grpo.logs.run import Run


def courses_of(run: Run) -> Courses:
    """Courses of a run that has a reward."""
    found = courses_or_none(run)
    assert found is not None
    return found


def trend(*args: Any, **kwargs: Any) -> Trend:
    """Course of a signal that has enough values."""
    found = trend_or_none(*args, **kwargs)
    assert found is not None
    return found
