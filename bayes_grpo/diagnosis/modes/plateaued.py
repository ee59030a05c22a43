"""A plateau: the reward moves no more. No failure, and seen in what all modes share, but there are remedies."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.diagnosis.advice import fails_at, rate_times, setting_text, span_text
from bayes_grpo.diagnosis.components import reward_functions
from bayes_grpo.diagnosis.evidence import ModeEvidence
from bayes_grpo.diagnosis.mode import Mode, steps_between
from bayes_grpo.diagnosis.rows import RunRows
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.events.borders import BORDERS


class Plateaued(Mode):
    """A reward at rest."""

    name = "plateaued"
    label = "plateaued"
    is_failure = False
    is_defined = True

    def strength(self, rows: RunRows) -> float:
        """Enough rows, and over their last half the reward has not risen by more than its noise."""
        y = rows.reward
        if y.rows < BORDERS.waste_rows:
            return 0.0
        middle = float(y.means[(len(y.means) - 1) // 2])
        moved = abs(y.now - middle)
        return min(y.rows / BORDERS.waste_rows, 2.0) / max(moved / (BORDERS.going_errors * y.error), 0.5)

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """Where the reward stands over it."""
        level = trends.reward.at(steps_between(first, last)).mean(axis=1)
        return f"the reward stands at {span_text(interval(level), '.2g')}"

    def remedies(self, trends: RunTrends, evidence: ModeEvidence, onset: Interval | None) -> tuple[str, ...]:
        """Louder updates, quieter batches, or the end."""
        functions = reward_functions(trends)
        back = None if functions is None else functions.taken_back
        cancel = ()
        if functions is not None and back is not None and float(np.median(back)) > BORDERS.cancels:
            cancel = (f"weigh the reward functions anew: {functions.sentence}",)
        level = float(trends.share(trends.reward.mean[-1]))
        if level > BORDERS.solved:
            return (*cancel, f"the task is solved (reward {level:.0%} of its range): stop, or take harder prompts")
        louder = ()
        if trends.swinging <= BORDERS.probable:
            louder = (f"raise {rate_times(trends.run, 2.0)} ({fails_at(trends.run, 2.0, False)}){_drift(trends)}",)
        return (
            *cancel,
            *louder,
            _quieter(trends),
            "stop here if the level is what you need: the log shows no growth to wait for",
        )


def _drift(trends: RunTrends) -> str:
    """Whether the policy moved away from its reference while the reward stood still."""
    kl = trends.signals.get("kl")
    if kl is None:
        return ", if the KL hardly grew"
    return f", unless the KL's change of {span_text(interval(kl.change()))} over the log is more than you allow"


def _quieter(trends: RunTrends) -> str:
    """How small a trend the noise of a row hides, and what more prompts would do."""
    trend, prompts = trends.reward, trends.run.settings.prompts_per_step
    more = setting_text("B", prompts)
    batch = f" ({more}; {4 * float(prompts.value):g} would halve it)" if prompts.value else ""
    return f"more prompts a step, if noise hides the trend: a row's noise is {trend.noise_sd:.2g}{batch}"


MODE = Plateaued()
