"""What a step costs by the log itself: its time on so many GPUs, or the money that a trainer counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.kept import with_checkpoints
from bayes_grpo.decision.question import Question
from bayes_grpo.logs.run import Run

ROWS = 50
"""Rows at the end of the log that tell what a step costs; answers grow longer along a run, and steps with them."""
INTERRUPTED = 10.0
"""A step that took so many times the median waited for something that is no part of training, such as a restart."""


def priced(question: Question, run: Run) -> Question:
    """A question with what a run says of it: its checkpoints, and the cost of a step where a value came without one.

    Args:
        question: What a user asks.
        run: The run; `step_cost` or `total_cost` are taken for money, `step_time` for seconds on `question.gpus`.

    Returns:
        The question with the checkpoints that the run keeps, and with a cost and where it comes from where it lacks
        one.

    Raises:
        SettingError: GPUs without a logged time of a step, or a value without a cost in the log.
    """
    question = with_checkpoints(question, run)
    if question.cost is not None:
        return question
    if question.gpus is not None:
        seconds = _recent(run.signals.get("step_time"))
        if seconds is None:
            raise SettingError(
                "decision: found --gpus, and no time of a step in the log; give --gpu-hours-per-step or --cost-per-step"
            )
        told = f"{seconds:.3g} s a step ({_told(run, 'step_time')}) on {question.gpus:g} GPUs"
        return replace(question, gpus=None, gpu_hours_per_step=seconds / 3600.0 * question.gpus, cost_told=told)
    if question.value_per_reward is None:
        return question
    money = _recent(run.signals.get("step_cost"))
    if money is not None:
        return replace(question, cost_per_step=money, cost_told=f"{money:.3g} a step ({_told(run, 'step_cost')})")
    money = _slope(run)
    if money is not None:
        return replace(question, cost_per_step=money, cost_told=f"{money:.3g} a step ({_told(run, 'total_cost')})")
    timed = "step_time" in run.signals
    raise SettingError(
        "decision: found --value-per-reward without a cost; give --cost-per-step, or --gpu-hours-per-step with or "
        f"without --price-per-gpu-hour{', or --gpus: the log has the time of a step' if timed else ''}"
    )


def _recent(values: np.ndarray | None) -> float | None:
    """Mean of the last rows without those that were interrupted; None where nothing above 0 was logged."""
    if values is None:
        return None
    last = values[np.isfinite(values) & (values > 0.0)][-ROWS:]
    if not len(last):
        return None
    return float(np.mean(last[last <= INTERRUPTED * np.median(last)]))


def _slope(run: Run) -> float | None:
    """Money a step over the last rows of a running total; None where it does not grow."""
    total = run.signals.get("total_cost")
    if total is None:
        return None
    known = np.flatnonzero(np.isfinite(total))[-ROWS:]
    if len(known) < 2 or total[known[-1]] <= total[known[0]]:
        return None
    return float((total[known[-1]] - total[known[0]]) / (run.step[known[-1]] - run.step[known[0]]))


def _told(run: Run, signal: str) -> str:
    return f"last {ROWS} rows of {run.keys.get(signal, signal)!r} at most"
