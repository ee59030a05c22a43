"""What would have been said earlier: the same diagnosis at cuts of the log, each of which sees no row after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.classes import ANSWERS, MODES
from bayes_grpo.diagnosis.classify import Posterior, most_likely, posterior
from bayes_grpo.diagnosis.features import MIN_ROWS, gather_all
from bayes_grpo.diagnosis.layer import Layer
from bayes_grpo.diagnosis.mode import label_of
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
        return tuple(most_likely({k: p[i] for k, p in self.probability.items()}) for i in range(len(self.step)))

    @property
    def sentence(self) -> str:
        """Which answer would have been given until when."""
        spans = [list(part) for _, part in groupby(zip(self.answers, self.step, strict=True), key=lambda x: x[0])]
        last = spans[-1]
        said = [f"{label_of(part[0][0])} until step {part[-1][1]:g}" for part in spans[:-1]]
        return ", then ".join([*said, f"{label_of(last[0][0])} from step {last[0][1]:g} on"])


def history_of(run: Run, now: Posterior, cuts: int, prior: Mapping[str, float], layer: Layer | None) -> History | None:
    """Diagnoses a run at cuts spread evenly over its rewards.

    All cuts are gathered together: their courses are as many small linear solves, their dampings one batch of the one
    compiled program.

    Args:
        run: The run, up to now.
        now: What is said now, of the whole run: the last cut.
        cuts: How many; fewer where the log has fewer rows.
        prior: Probabilities of all answers.
        layer: Learned numbers; the shipped ones if None.

    Returns:
        The history; None where the log is too short for an earlier cut.
    """
    step = run.step[np.isfinite(run.reward)] if run.has_reward else run.eval_step[np.isfinite(run.eval_reward)]
    rows = np.unique(np.round(len(step) * np.arange(1, cuts) / cuts).astype(int))
    rows = rows[(rows >= MIN_ROWS) & (rows < len(step))]
    if not len(rows):
        return None
    gathered = gather_all([run.until(float(step[n - 1])) for n in rows])
    found = [posterior({} if g is None else g.features, prior, layer) for g in gathered] + [now]
    steps = [*step[rows - 1], max(float(s[-1]) for s in (run.step, run.eval_step) if len(s))]
    return History(
        np.array(steps),
        np.array([*rows, len(step)]),
        {name: np.array([p.probability[name] for p in found]) for name in ANSWERS},
        {mode: np.array([p.own[mode] for p in found]) for mode in MODES},
    )
