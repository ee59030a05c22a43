"""Which rows a smooth law may describe: those since the last break of the reward, or none, with the reason.

No law of a rising reward knows a collapse. Fitted across one it calls a dead run stable, and what it says of the
plateau is an average of before and after. So a fit begins where the reward was last near its best, if it has fallen
since, and at the bottom of a fall from which it came back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayes_grpo.common.errors import BayesGrpoError, FitError
from bayes_grpo.events.fallen import fallen_of, last_lost
from bayes_grpo.events.learning_rate import rate_spent_at
from bayes_grpo.events.smoothing import fit_trend
from bayes_grpo.events.trend import Trend, span_of
from bayes_grpo.fitting.summary import Summary
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.reward_range import both_ends
from bayes_grpo.rows.rows_of import rows_of

LEAST_LAW_ROWS = 8
"""Rows since a break that a law needs; fewer say no more than that it happened."""

ENDED = "The learning rate came to its end at about step {:g}: the level is that of a constant one."


@dataclass(frozen=True, eq=False)
class LawSpan:
    """The rows of a run that a law may describe.

    Attributes:
        run: The run with these rows; settings and the rows' own steps are kept.
        since: Step after which they begin; None where they are all.
        told: What came before, a sentence; "" where they are all.
        refused: Why no law may be fitted; "" where one may.
    """

    run: Run
    since: float | None = None
    told: str = ""
    refused: str = ""

    def checked(self) -> Run:
        """The run to fit.

        Raises:
            FitError: No law may be fitted.
        """
        if self.refused:
            raise FitError(self.refused)
        return self.run

    def leads(self, summary: Summary) -> Summary:
        """What a fit says, led by what happened before its rows, and by the end of the learning rate followed."""
        spent = rate_spent_at(self.run.step, self.run.signals.get("learning_rate"))
        ended = "" if spent is None else ENDED.format(spent)
        return replace(summary, verdict=" ".join(x for x in (self.told, summary.verdict, ended) if x))


def law_span(run: Run, signal: str = "auto") -> LawSpan:
    """The rows of a run that a smooth law may describe.

    Args:
        run: The run.
        signal: "auto", "reward" (train) or "eval" (held-out).

    Returns:
        The rows since the last break of the reward. A log that cannot be fitted for other reasons is handed back whole.
    """
    try:
        table = rows_of(run, signal)
    except BayesGrpoError:
        return LawSpan(run)
    trend = fit_trend(table.step, table.y, seed=1)
    if trend is None:
        return LawSpan(run)
    ends = both_ends(table, dict(run.settings.items()))
    span, low = (ends.high - ends.low, ends.low) if ends.known else (span_of(trend.value), np.nan)
    fallen, lost = fallen_of(trend, span, low), last_lost(trend, span, low)
    if fallen is not None:
        since = fallen.best_step
        told = f"The reward fell from {fallen.best:.2g} to {fallen.now:.2g} after step {since:.0f}."
    elif lost is not None and lost[1] < trend.step[-1]:
        since = _bottom(trend, *lost)
        told = f"The reward was lost from about step {lost[0]:.0f} to {lost[1]:.0f} and came back."
    else:
        return LawSpan(run)
    later = int(np.sum(table.step > since))
    if later < LEAST_LAW_ROWS:
        reason = f"{run.source}: {told} {later} rows came since step {since:.0f}, and a law needs {LEAST_LAW_ROWS}"
        return LawSpan(run, since, told, f"{reason}; fit the rows before: --at {since:.0f}, or all of them: --whole")
    return LawSpan(after(run, since), since, f"{told} Since step {since:.0f}:")


def after(run: Run, step: float) -> Run:
    """The run from an optimizer step on, without the rows up to it."""
    kept, evals = run.step > step, run.eval_step > step
    return replace(
        run,
        step=run.step[kept],
        reward=run.reward[kept],
        window=run.window[kept],
        signals={k: v[kept] for k, v in run.signals.items()},
        components={k: v[kept] for k, v in run.components.items()},
        eval_step=run.eval_step[evals],
        eval_reward=run.eval_reward[evals],
    )


def _bottom(trend: Trend, first: float, last: float) -> float:
    """Step between two at which a trend is lowest."""
    inside = np.flatnonzero((trend.step >= first) & (trend.step <= last))
    return float(trend.step[inside[int(np.argmin(trend.mean[inside]))]])
