"""The result of a diagnosis: probabilities, evidence, onsets, remedies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.strict_json import json_safe
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.evidence import Evidence


@dataclass(frozen=True)
class Onset:
    """When a failure began.

    Attributes:
        step: Median and interval of the step.
        mark: What is taken for its beginning.
    """

    step: Interval
    mark: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis:
    """What is wrong with a run, if anything.

    Attributes:
        sentence: The verdict.
        answer: Most probable of `ANSWERS`.
        probability: Answer → probability; sums to 1.
        own: Mode → probability that it is under way, alone or beside another; of a mode without a learned likelihood
            that of its evidence, where the log has a signal for it.
        evidence: Name → evidence: "progress" and the modes; empty without enough rows.
        onsets: Mode → when it began, for every mode above `SUSPECT`.
        remedies: Mode → what to do, likewise.
        missing: Signals the log lacks, and what they would tell.
        prior: The prior used.
        meta: Run, source, rows, steps, interval level.
        notes: What a reader should know: assumptions and the reader's notes.
        courses: Courses of the signals, for pictures; None without enough rows.
    """

    sentence: str
    answer: str
    probability: Mapping[str, float]
    own: Mapping[str, float]
    evidence: Mapping[str, Evidence]
    onsets: Mapping[str, Onset]
    remedies: Mapping[str, tuple[str, ...]]
    missing: tuple[str, ...]
    prior: Mapping[str, float]
    meta: Mapping[str, Any]
    notes: tuple[str, ...]
    courses: Courses | None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready content; the courses are left out."""
        return json_safe(
            {
                "sentence": self.sentence,
                "answer": self.answer,
                "probability": dict(self.probability),
                "own": dict(self.own),
                "evidence": {k: e.to_dict() for k, e in self.evidence.items()},
                "onset": {k: {**o.step._asdict(), "mark": o.mark} for k, o in self.onsets.items()},
                "remedies": dict(self.remedies),
                "missing": self.missing,
                "prior": dict(self.prior),
                "meta": dict(self.meta),
                "notes": self.notes,
            }
        )
