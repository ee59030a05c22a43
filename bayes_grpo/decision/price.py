"""What a run says of a question: which checkpoints it keeps, and what a step costs by its time or its money."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.decision.checkpoints import Checkpoints, score_noise
from bayes_grpo.decision.question import Question
from bayes_grpo.logs.finding import saved_checkpoints
from bayes_grpo.logs.run import Run

ROWS = 50
"""Rows at the end of the log that tell what a step costs; answers grow longer along a run, and steps with them."""
INTERRUPTED = 10.0
"""A step that took so many times the median waited for something that is no part of training, such as a restart."""
LEAST_SCORES = 2
"""Fewer held-out scores than this do not distinguish checkpoints."""


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
        source = f"{seconds:.3g} s a step ({_source_of(run, 'step_time')}) on {question.gpus:g} GPUs"
        return replace(question, gpus=None, gpu_hours_per_step=seconds / 3600.0 * question.gpus, cost_told=source)
    if question.value_per_reward is None:
        return question
    money = _recent(run.signals.get("step_cost"))
    if money is not None:
        return replace(question, cost_per_step=money, cost_told=f"{money:.3g} a step ({_source_of(run, 'step_cost')})")
    money = _slope(run)
    if money is not None:
        return replace(question, cost_per_step=money, cost_told=f"{money:.3g} a step ({_source_of(run, 'total_cost')})")
    timed = "step_time" in run.signals
    raise SettingError(
        "decision: found --value-per-reward without a cost; give --cost-per-step, or --gpu-hours-per-step with or "
        f"without --price-per-gpu-hour{', or --gpus: the log has the time of a step' if timed else ''}"
    )


def with_checkpoints(question: Question, run: Run) -> Question:
    """A question with the checkpoints of a run, where it keeps any.

    Args:
        question: The user's question; its checkpoints take precedence.
        run: The run: `checkpoint-*` next to its log, and its setting ``save_steps``.

    Returns:
        The question with the checkpoints, or unchanged where the run keeps none.
    """
    last = float(max(run.step[-1:].max(initial=0.0), run.eval_step[-1:].max(initial=0.0)))
    there = np.array([x for x in saved_checkpoints(run.source) if x <= last], float)
    every, source = question.checkpoints, "as given"
    if every is None and run.settings.save_steps.value is not None:
        every, source = float(run.settings.save_steps.value), run.settings.save_steps.note or "save_steps of the run"
    if question.checkpoints is not None or not len(there):
        there = np.arange(1.0, np.floor(last / every) + 1.0) * every if every is not None else there
    else:
        source = f"{len(there)} checkpoints next to the log"
        every = every or float(np.median(np.diff(there))) if len(there) > 1 else every
    planned = run.settings.total_steps.value
    if not len(there) and (every is None or (planned is not None and every >= float(planned))):
        return question
    kept = Checkpoints(there, np.inf if every is None else every, source=source)
    if question.selector != "reward" and len(run.eval_step) >= LEAST_SCORES:
        low, high = (getattr(run.settings, name).value for name in ("reward_low", "reward_high"))
        ends = (0.0 if low is None else float(low), 1.0 if high is None else float(high))
        noise = np.nan if question.prompts is None else score_noise(run.eval_reward, question.prompts, *ends)
        kept = kept._replace(scored=run.eval_step, score=run.eval_reward, noise=noise)
    return replace(question, kept=kept)


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


def _source_of(run: Run, signal: str) -> str:
    return f"last {ROWS} rows of {run.keys.get(signal, signal)!r} at most"
