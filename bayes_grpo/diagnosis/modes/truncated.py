"""Truncation: completions hit the length limit, so the scored ending is missing."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import Interval, interval, span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import RunTrends


class Truncated(Mode):
    """Truncated completions."""

    name = "truncated_completions"
    required_signal = "the share of truncated completions"
    remedies = ("longer limit", "read completions")

    def strength(self, rows: RunSoFar) -> float:
        """Share of completions that hit the length limit; where nearly all did, a few rows measure it."""
        cut = rows.signal("completions_clipped_ratio")
        if cut.rows < THRESHOLDS.least_rows:
            return np.nan
        every = float(cut.value[-2:].min()) >= THRESHOLDS.all_truncated  # each is a share of hundreds
        return np.inf if every else cut.now / THRESHOLDS.truncated

    def began(self, rows: RunSoFar) -> Interval | None:
        """The first row, where all show it."""
        cut = rows.signal("completions_clipped_ratio")
        return interval(cut.step[0]) if cut.value.min() > THRESHOLDS.truncated else None

    def text(self, rows: RunSoFar, trends: RunTrends, first: float, last: float, level: bool = True) -> str:
        """Share of truncated completions."""
        trend = trends.signals["completions_clipped_ratio"]
        share = interval(np.clip(trend.over(first, last), 0.0, 1.0))
        return f"{span_text(share, '.0%', level=level)} of the completions hit the length limit"


MODE = Truncated()
