"""Runs that a family leaves out, and whether they failed: what fails first has too few rows to say so otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import probability_text
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.fallen import rows_collapsed
from bayes_grpo.diagnosis.history import failure_of
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.logs.run import Run


class Refused(NamedTuple):
    """A run that the law cannot be put on.

    Attributes:
        run: The run.
        why: The reason.
        settings: Varied settings that are known of it.
    """

    run: Run
    why: str
    settings: Mapping[str, float]

    @property
    def sentence(self) -> str:
        """That it is left out, and why."""
        return f"left out: {plain(self.run.name, 80)}: {plain(self.why, 400)}"


@dataclass(frozen=True)
class LeftOutRun(Result):
    """A run that a family left out.

    Attributes:
        name: Its name.
        why: Why the law could not be put on it.
        settings: Varied settings that are known of it.
        failed: What failed, in words; "" where nothing is seen to have.
    """

    name: str
    why: str
    settings: dict[str, float]
    failed: str


def outcome_of(left_out: Refused) -> LeftOutRun:
    """A run that was left out, with what its rewards and its own diagnosis say of it.

    Args:
        left_out: The run.
    """
    return LeftOutRun(left_out.run.name, left_out.why, dict(left_out.settings), _failed(left_out.run))


def _failed(run: Run) -> str:
    # A law needs more rows than a diagnosis, which may rest on signals that every step has.
    for kind, y in (("train", run.reward), ("held-out", run.eval_reward)):
        rows = y[np.isfinite(y)]
        if len(rows) >= 2 * THRESHOLDS.least_rows and rows_collapsed(rows):
            return f"the {kind} reward collapsed"
    try:
        found = failure_of(run)
    except FitError:
        return ""
    return "" if found is None else f"{label_of(found.mode)}, probability {probability_text(found.probability)}"
