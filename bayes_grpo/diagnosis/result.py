"""The result of a diagnosis: probabilities, evidence, onsets, remedies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import starmap
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.results import LogSubject, Result, frame_of
from bayes_grpo.diagnosis.mode import Timeline
from bayes_grpo.diagnosis.records import Action, Finding
from bayes_grpo.diagnosis.status import ModeProbabilities, Status
from bayes_grpo.diagnosis.wording import joined
from bayes_grpo.signals.parts import PartTrend
from bayes_grpo.signals.run_paths import RunPaths

if TYPE_CHECKING:
    import pandas as pd
    from xarray import DataTree

    from bayes_grpo.rollouts.decomposition import Decomposition


@dataclass(frozen=True)
class Onset(Result):
    """When a failure began.

    Attributes:
        step: Median and interval of the step.
        severity_text: Its severity since then, in words.
    """

    step: Interval
    severity_text: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis(ModeProbabilities, Result):
    """Failures of a run with their probabilities.

    Attributes:
        status: The status and the one action to take now.
        events: Dips, jumps and resumes, in the order of their steps.
        probability: Mode → probability that it is under way, whatever else is: the four failures, and others where the
            log has a signal for them. They do not exclude one another and do not sum to one.
        evidence: Name → what the log shows, a clause: "progress" and the modes; empty without enough rows.
        onsets: Mode → when it began, for every mode above `THRESHOLDS.suspect`.
        remedies: Mode → what to do, likewise.
        missing: Useful signals that the log lacks.
        empty: Useful signals that are NaN in every row.
        single: Useful signals with one value.
        about: The log.
        notes: Assumptions and the notes of the log reader.
        paths: Paths of the signals, for pictures; None without enough rows.
        timeline: Every mode over time, with its episodes; None likewise.
        gain: Decomposition of its gain by rollouts; None without rollouts.
        zeros: A loss or clip ratio that reads as 0; None without one.
        suggested: Column that was not recognized → candidate keys of the log.
        parts: Reward functions and environments, the largest contribution first; empty where fewer than two are logged.
    """

    status: Status
    events: tuple[Finding, ...] = ()
    probability: Mapping[str, float]
    evidence: Mapping[str, str] = field(default_factory=dict)
    onsets: Mapping[str, Onset] = field(default_factory=dict)
    remedies: Mapping[str, tuple[Action, ...]] = field(default_factory=dict)
    missing: tuple[str, ...]
    empty: tuple[str, ...]
    single: tuple[str, ...]
    about: LogSubject
    notes: tuple[str, ...]
    paths: RunPaths | None = None
    timeline: Timeline | None = None
    gain: Decomposition | None = None
    zeros: Finding | None = None
    suggested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parts: tuple[PartTrend, ...] = ()

    also_in_json = ("sentence", "failing")
    not_in_json = ("paths", "suggested")

    @property
    def sentence(self) -> str:
        """The status, earlier events, and the parts of the gain, in words."""
        events = joined(x.clause for x in self.events)
        gain = self.gain.sentence if self.gain else ""
        parts = (self.status.headline, f"Earlier: {events}." if events else self.status.past, gain)
        return " ".join(part for part in parts if part)

    def to_frame(self) -> pd.DataFrame:
        """One row a mode: the probability that it is under way, when it began, and what to do."""

        def row(mode: str, p: float) -> dict[str, Any]:
            remedies = (x.clause for x in self.remedies.get(mode, ()))
            onset = self.onsets[mode].step if mode in self.onsets else interval(math.nan)
            return {"mode": mode, "probability": p, "onset": onset, "remedies": joined(remedies)}

        return frame_of(starmap(row, self.probability.items()), "mode")

    def to_datatree(self) -> DataTree:
        """Draws of the reward's trend (`posterior`) and the probability of each mode (`constant_data`), by step."""
        import xarray as xr

        if self.paths is None or self.timeline is None:
            raise FitError(f"{self.about.rows} rows have no trend, so this diagnosis has no tree")
        step = {"step": self.timeline.step}
        p = [m.probability for m in self.timeline.modes.values()]
        trend = xr.Dataset({"reward": (("chain", "draw", "step"), self.paths.reward.draws[None])}, step)
        chances = xr.Dataset({"probability": (("mode", "step"), p)}, step | {"mode": [*self.timeline.modes]})
        return xr.DataTree.from_dict({"posterior": trend, "constant_data": chances})
