"""Which checkpoints a run keeps, by its user, its folder or its settings, and how they were evaluated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayes_grpo.decision.checkpoints import Checkpoints, score_noise
from bayes_grpo.decision.question import Question
from bayes_grpo.logs.finding import checkpoints_beside
from bayes_grpo.logs.run import Run

LEAST_SCORES = 2
"""Fewer held-out scores than this tell no checkpoints apart."""


def with_checkpoints(question: Question, run: Run) -> Question:
    """A question with the checkpoints of a run, where it keeps any.

    Args:
        question: What a user asks; its own word on the checkpoints comes first.
        run: The run: `checkpoint-*` beside its log, and its setting ``save_steps``.

    Returns:
        The same question where nobody says that checkpoints are kept.
    """
    last = float(max(run.step[-1:].max(initial=0.0), run.eval_step[-1:].max(initial=0.0)))
    there = np.array([x for x in checkpoints_beside(run.source) if x <= last], float)
    every, told = question.checkpoints, "as stated"
    if every is None and run.settings.save_steps.value is not None:
        every, told = float(run.settings.save_steps.value), run.settings.save_steps.note or "save_steps of the run"
    if question.checkpoints is not None or not len(there):
        there = np.arange(1.0, np.floor(last / every) + 1.0) * every if every is not None else there
    else:
        told = f"{len(there)} checkpoints beside the log"
        every = every or float(np.median(np.diff(there))) if len(there) > 1 else every
    planned = run.settings.total_steps.value
    if not len(there) and (every is None or (planned is not None and every >= float(planned))):
        return question
    kept = Checkpoints(there, np.inf if every is None else every, told=told)
    if question.selector != "reward" and len(run.eval_step) >= LEAST_SCORES:
        low, high = (getattr(run.settings, name).value for name in ("reward_low", "reward_high"))
        ends = (0.0 if low is None else float(low), 1.0 if high is None else float(high))
        noise = np.nan if question.prompts is None else score_noise(run.eval_reward, question.prompts, *ends)
        kept = kept._replace(scored=run.eval_step, score=run.eval_reward, noise=noise)
    return replace(question, kept=kept)
