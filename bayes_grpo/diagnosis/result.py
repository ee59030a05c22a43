"""The result of a diagnosis: probabilities, evidence, onsets, remedies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bayes_grpo.common.about import AboutLog
from bayes_grpo.common.frames import frame_of
from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.classes import AnswerProbabilities
from bayes_grpo.diagnosis.evidence import ModeEvidence
from bayes_grpo.diagnosis.history import History
from bayes_grpo.diagnosis.status import TopLine
from bayes_grpo.diagnosis.timeline import Timeline
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.siblings.departure import Departure

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Onset(Result):
    """When a failure began.

    Attributes:
        step: Median and interval of the step.
        depth: How bad it is since, in words.
    """

    step: Interval
    depth: str

    in_json = ("step.*", "depth")


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis(AnswerProbabilities, Result):
    """What is wrong with a run, if anything.

    Attributes:
        top: The top line: how the run stands and the one thing to do now.
        sentence: The story: what is under way, what happened before, what could not be seen.
        answer: Most probable of `ANSWERS`.
        probability: Answer → probability; sums to 1.
        own: Mode → probability that it is under way, alone or beside another; of a mode without a learned likelihood
            that of its evidence, where the log has a signal for it.
        evidence: Name → evidence: "progress" and the modes; empty without enough rows.
        onsets: Mode → when it began, for every mode above `BORDERS.suspect`.
        remedies: Mode → what to do, likewise.
        missing: Signals the log lacks, and what they would tell.
        prior: The prior used.
        about: Which log was looked at.
        notes: What a reader should know: assumptions and the reader's notes.
        trends: Trends of the signals, for pictures; None without enough rows.
        timeline: Every mode over time, with its episodes; None likewise.
        history: What would have been said at cuts of the log; None where it was not asked for or the log is too short.
        gain: What its gain is made of, by its rollouts; None where none were given.
        beside: The run beside its siblings at the same steps; None where none were asked for.
        suggested: Column that was not recognized → keys of the log that it may be.
    """

    top: TopLine
    sentence: str
    answer: str
    probability: Mapping[str, float]
    own: Mapping[str, float]
    evidence: Mapping[str, ModeEvidence]
    onsets: Mapping[str, Onset]
    remedies: Mapping[str, tuple[str, ...]]
    missing: tuple[str, ...]
    prior: Mapping[str, float]
    about: AboutLog
    notes: tuple[str, ...]
    trends: RunTrends | None
    timeline: Timeline | None
    history: History | None
    gain: Decomposition | None = None
    beside: Departure | None = None
    suggested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    in_json = (
        "top",
        "sentence",
        "answer",
        "probability",
        "own",
        "failing",
        "evidence",
        ("onset", "onsets"),
        "timeline",
        "remedies",
        "missing",
        "prior",
        ("meta", "about"),
        "notes",
        "history",
        "gain",
        ("siblings", "beside"),
    )

    @property
    def leads(self) -> str:
        """The answer that is marked wherever all of them stand: the failure of the top line, else the most probable."""
        return self.top.finding if self.top.alarming else self.answer

    def to_frame(self) -> pd.DataFrame:
        """One row an answer: its probability, that the mode is under way at all, when it began, and what to do."""
        unknown = Interval(math.nan, math.nan, math.nan, LEVEL)
        return frame_of(
            (
                {
                    "answer": answer,
                    "probability": p,
                    "prior": self.prior.get(answer, math.nan),
                    "own": self.own.get(answer, math.nan),
                    "onset": self.onsets[answer].step if answer in self.onsets else unknown,
                    "remedies": "; ".join(self.remedies.get(answer, ())),
                }
                for answer, p in self.probability.items()
            ),
            "answer",
        )
