"""A signal's course that is known to be there: `None`, the answer for too few values, fails the test at once."""

from __future__ import annotations

from typing import Any

from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.diagnosis.trend import trend as trend_or_none


def trend(*args: Any, **kwargs: Any) -> Trend:
    """Course of a signal that has enough values."""
    found = trend_or_none(*args, **kwargs)
    assert found is not None
    return found
