"""Truncation: completions run into the length limit, so that the end that is scored is never written."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity
from bayes_grpo.diagnosis.mode import Mode, steps_between
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trends import RunTrends


class Truncated(Mode):
    """Truncated completions."""

    name = "truncated_completions"
    label = "truncated completions"
    signals = ("completions_clipped_ratio", "completion_length")
    shown_by = "the share of truncated completions"
    is_measured = True

    def measured(self, trends: RunTrends) -> np.ndarray | None:
        """Whether the share of completions that run into the limit is above its border."""
        trend = trends.signals.get("completions_clipped_ratio")
        return None if trend is None else trend.at(trends.reward.step) > THRESHOLDS.truncated

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """Share of truncated completions."""
        trend = trends.signals["completions_clipped_ratio"]
        share = interval(np.clip(trend.at(steps_between(first, last)).mean(axis=1), 0.0, 1.0))
        return f"{share.median:.0%} [{share.low:.0%}, {share.high:.0%}] of the completions run into the limit"

    def evidence(self, trends: RunTrends) -> ModeEvidence | None:
        """Share of truncated completions at the end of the log; None where it is not logged."""
        trend = trends.signals.get("completions_clipped_ratio")
        if trend is None:
            return None
        end = np.clip(trend.end, 0.0, 1.0)
        found = quantity("truncated", end, "", "share of completions that run into the limit, at the end of the log")
        p = found.posterior
        said = f"{p.median:.0%} [{p.low:.0%}, {p.high:.0%}] ({p.level:.0%}) of the completions run into the limit"
        return ModeEvidence(
            self.name, float(np.mean(end > THRESHOLDS.truncated)), (found,), ("completions_clipped_ratio",), (), said
        )


MODE = Truncated()
