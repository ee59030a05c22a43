"""What would have been said earlier: the same diagnosis at cuts of the log, each of which sees no row after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.classes import ANSWERS, MODES
from bayes_grpo.diagnosis.classify import ClassPosterior, answers_of
from bayes_grpo.diagnosis.gather import gather_all
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.smoothing import LEAST_VALUES
from bayes_grpo.logs.run import Run


@dataclass(frozen=True, eq=False)
class History(Result):
    """Probabilities at cuts of a log.

    Attributes:
        step: Last step that each cut sees, shape (cuts,); the last cut is the whole log.
        rows: Rewards that each cut sees, shape (cuts,).
        probability: Answer → its probability at each cut, shape (cuts,).
        own: Mode → probability that it is under way, alone or beside another, shape (cuts,).
    """

    step: np.ndarray
    rows: np.ndarray
    probability: Mapping[str, np.ndarray]
    own: Mapping[str, np.ndarray]

    in_json = ("step", "rows", ("answer", "answers"), "probability", "own", "sentence")

    @property
    def answers(self) -> tuple[str, ...]:
        """The most probable answer at each cut."""
        return tuple(max(ANSWERS, key=lambda name: self.probability[name][i]) for i in range(len(self.step)))

    @property
    def sentence(self) -> str:
        """Which answer would have been given until when."""
        spans = [list(part) for _, part in groupby(zip(self.answers, self.step, strict=True), key=lambda x: x[0])]
        last = spans[-1]
        said = [f"{label_of(part[0][0])} until step {part[-1][1]:g}" for part in spans[:-1]]
        return ", then ".join([*said, f"{label_of(last[0][0])} from step {last[0][1]:g} on"])


def history_of(run: Run, now: ClassPosterior, cuts: int, prior: Mapping[str, float] | None = None) -> History | None:
    """Diagnoses a run at cuts spread evenly over its rewards.

    Args:
        run: The run, up to now.
        now: What is said now, of the whole run: the last cut.
        cuts: How many; fewer where the log has fewer rows.
        prior: Probabilities of all answers.

    Returns:
        The history; None where the log is too short for an earlier cut.
    """
    step = reward_steps(run)
    rows = np.unique(np.round(len(step) * np.arange(1, cuts) / cuts).astype(int))
    rows = rows[(rows >= LEAST_VALUES) & (rows < len(step))]
    if not len(rows):
        return None
    found = [*answers_after(run, rows, prior), now]
    steps = [*step[rows - 1], max(float(s[-1]) for s in (run.step, run.eval_step) if len(s))]
    return History(
        np.array(steps),
        np.array([*rows, len(step)]),
        {name: np.array([p.probability[name] for p in found]) for name in ANSWERS},
        {mode: np.array([p.own[mode] for p in found]) for mode in MODES},
    )


def answers_after(run: Run, rows: Iterable[int], prior: Mapping[str, float] | None = None) -> list[ClassPosterior]:
    """What would have been said after the first so many rewards of a run, for several such numbers.

    All are gathered together: their trends are as many small linear solves, their dampings one batch of the one
    compiled program.

    Args:
        run: The run.
        rows: Numbers of rewards.
        prior: Probabilities of all answers; the default ones if None.
    """
    step = reward_steps(run)
    gathered = gather_all([run.until(float(step[n - 1]) if n else -np.inf) for n in rows])
    return [answers_of(None if g is None else g.trends, prior)[1] for g in gathered]


def reward_steps(run: Run) -> np.ndarray:
    """Steps of the rewards that count: train rewards, or held-out ones where there are none."""
    step, reward = (run.step, run.reward) if run.has_reward else (run.eval_step, run.eval_reward)
    return step[np.isfinite(reward)]
