"""Idle steps: rows in which no group has a spread, so that the step has no gradient, and what they cost."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.modes.advantage_degeneracy import dead_rows
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import TREND_DRAWS
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.diagnosis.waste import dead_share

_NEAR = 12
"""Rows nearest to a row of the trend that count with it."""


class IdleSteps(Mode):
    """Steps without any gradient."""

    name = "idle_steps"
    label = "steps without a gradient"
    signals = ("step_time",)
    is_measured = True

    def measured(self, trends: RunTrends) -> np.ndarray | None:
        """Whether more of the rows near are idle than its border allows."""
        dead = dead_rows(trends, all_rows=True)
        if dead is None:
            return None
        steps, trend = trends.reward.raw_step[-len(dead) :], trends.reward.step
        near = np.abs(trend[:, None] - steps[None, :]).argsort(axis=1, kind="stable")[:, :_NEAR]
        count = dead[near].sum(axis=1)
        u = (np.arange(TREND_DRAWS) + 0.5) / TREND_DRAWS
        share = betaincinv(0.5 + count, 0.5 + near.shape[1] - count, u[:, None])  # Jeffreys' prior
        return share > THRESHOLDS.dead

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """How many rows, and the time they took."""
        dead = dead_rows(trends, all_rows=True)
        if dead is None:
            return ""
        steps = trends.reward.raw_step[-len(dead) :]
        inside = (steps >= first) & (steps <= last)
        return _told(trends, dead & inside, int(inside.sum()), steps) if (dead & inside).any() else ""

    def evidence(self, trends: RunTrends) -> ModeEvidence | None:
        """Share of idle rows over the log; None where no signal tells."""
        dead = dead_rows(trends, all_rows=True)
        if dead is None or not dead.any():
            return None
        found = quantity("idle_rows", dead_share(dead), "", "share of rows without any gradient")
        said = _told(trends, dead, len(dead), trends.reward.raw_step[-len(dead) :])
        now = self.measured(trends)
        return ModeEvidence(self.name, np.nan if now is None else float(now[:, -1].mean()), (found,), (), (), said)


def _told(trends: RunTrends, dead: np.ndarray, of: int, steps: np.ndarray) -> str:
    """Rows without a gradient, with their time where the log has it."""
    run = trends.run
    text = f"{int(dead.sum())} of {of} rows have no gradient"
    seconds = run.signals.get("step_time")
    if seconds is None or not np.isfinite(seconds).any():
        return text
    spent = np.nan_to_num(np.interp(steps, run.step, np.where(np.isfinite(seconds), seconds, np.nanmedian(seconds))))
    hours = spent * np.interp(steps, run.step, run.window) / 3600.0
    idle, all_hours = float(hours[dead].sum()), float(hours.sum())
    return f"{text}: {idle:.2g} hours of each GPU, of {all_hours:.2g} that the run has taken"


MODE = IdleSteps()
