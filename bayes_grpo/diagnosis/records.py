"""Findings of a run and actions, as records; `finding_words` and `action_words` make their sentences.

Code decides by `kind`, numbers and steps, never by a sentence. Imports nothing that computes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bayes_grpo.common.intervals import Interval
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import StepName
from bayes_grpo.diagnosis.action_words import action_clause
from bayes_grpo.diagnosis.finding_words import FAILURES, KINDS, finding_clauses
from bayes_grpo.diagnosis.wording import as_sentence

FindingKind = Literal[
    # Modes: without an onset merely possible, with an end an earlier episode.
    "reward_hacking", "advantage_degeneracy", "policy_concentration", "dynamical_instability",
    "apparent_gain", "engine_gap", "growing", "idle_steps", "lost_gradient", "lost_values", "one_sided_groups",
    "plateaued", "truncated_completions", "form_without_task", "length_collapse",
    # What a log shows of them.
    "not_finite", "constant_reward", "lost_reward", "instability_signs", "signal_fell", "signal_grew",
    "component_fell", "goal_parts", "scheduled_weight", "swings", "evaluation_fell", "evaluation_stays",
    "solved", "mostly_solved", "at_ceiling", "evaluation_constant",
    # Runs without failure.
    "ended", "ended_flat", "rising", "rising_on", "risen", "holding", "at_rest", "flat",
    # Logs with too little information.
    "too_early", "ends_low", "slipped", "noise_hides", "constant_so_far", "unmeasured", "falls_early", "few_rows",
    # What one row shows.
    "high_kl", "noise_written", "truncated_step", "no_variance", "zero_gradient", "no_reward", "sampler_gap",
    # What needs a look next to a status.
    "idle_groups", "idle_rows", "one_length", "one_score",
    # Events that are over, and changes at a resume.
    "dip", "jump", "resumed", "signal_changed",
    # Why a loss or clip ratio reads as zero, what a KL below zero means, how old completions are.
    "reads_zero", "negative_kl", "freshness", "unpaid_parts",
]  # fmt: skip
"""Kinds of findings."""


@dataclass(frozen=True, kw_only=True)
class Finding(Result):
    """Something that a log shows.

    Attributes:
        kind: What it is.
        signals: Signals, components or environments that show it.
        step: When it began; None where the log does not date it, or it has no beginning.
        at: The middle of that as the log counts steps; None likewise.
        numbers: Name → value, as its template in `finding_words` uses them; rewards, steps, counts, shares of 1.
        probability: Probability that it is so; NaN for something that is merely seen.
        severity: How bad it is by the measure of its mode, a clause; "" without one.
        parts: Findings that belong to it, such as signs of an instability or a resume behind a fall.
    """

    kind: FindingKind
    signals: tuple[str, ...] = ()
    step: Interval | None = None
    at: StepName | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    probability: float = math.nan
    severity: str = ""
    parts: tuple[Finding, ...] = ()

    also_in_json = ("mode", "sentence")
    not_in_json = ("at",)

    @classmethod
    def of(cls, kind: FindingKind, *signals: str, probability: float = math.nan, **numbers: float) -> Finding:
        """A finding without a step, of signals and numbers by their names."""
        return cls(kind=kind, signals=signals, numbers=numbers, probability=probability)

    @property
    def mode(self) -> str:
        """Mode that it belongs to, `CANNOT_TELL`, or its kind where it belongs to none."""
        known = KINDS.get(self.kind)
        return self.kind if known is None or not known.mode else known.mode

    @property
    def basis(self) -> str:
        """Basis of a status with it."""
        known = KINDS.get(self.kind)
        return FAILURES if known is None else known.basis

    @property
    def clause(self) -> str:
        """It in words, without a capital and a full stop."""
        return ": ".join(x for x in finding_clauses(self) if x)

    @property
    def sentence(self) -> str:
        """It in words."""
        return as_sentence(self.clause)

    @property
    def lead(self) -> str:
        """The first clause of its sentence, as a sentence."""
        return as_sentence(finding_clauses(self)[0])

    @property
    def detail(self) -> str:
        """The rest of its sentence, as a sentence; "" where there is none."""
        return as_sentence(finding_clauses(self)[1])


ActionKind = Literal[
    "go_on", "go_on_if_cheap", "go_on_for_rare_gain", "no_further_gain", "look_again", "log_more", "wait",
    "watch", "plan_more_steps", "pass_whole_log", "pass_training",
    "stop", "go_back", "start_over", "take_checkpoint", "score_checkpoints", "compare_checkpoints", "compare_resume",
    "restart", "new_run", "look", "check_update", "change_setting", "change_prompts", "log_signal", "judge_by_task",
]  # fmt: skip
"""Kinds of actions."""
_GOING_ON: tuple[ActionKind, ...] = ("go_on", "go_on_if_cheap", "go_on_for_rare_gain", "look_again", "log_more")
_STOPPING: tuple[ActionKind, ...] = (
    "stop", "go_back", "start_over", "take_checkpoint", "score_checkpoints", "compare_checkpoints", "compare_resume",
    "restart", "new_run",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Action(Result):
    """Something to do.

    Attributes:
        kind: What to do.
        step: Step of the checkpoint, resume or end that it names; None without one.
        at: The same as the log counts steps; None likewise.
        setting: Setting that it changes; "" for none.
        factor: Factor by which it changes the setting; None where it names none.
        subject: What it looks at, logs or replaces: a part of the run, a column of the log, a kind of prompts; "" for
            none.
        key: Key of the log that may be the column it names; "" without one.
        reason: What it follows from: what was found, the forecast, or the costs given.
        numbers: Name → value, as its template in `action_words` uses them.
        parts: Findings that it names.
        ended: Whether the run has ended, so that no training is to stop and a setting is one of the next run.
    """

    kind: ActionKind
    step: float | None = None
    at: StepName | None = None
    setting: str = ""
    factor: float | None = None
    subject: str = ""
    key: str = ""
    reason: Literal["finding", "forecast", "costs"] = "finding"
    numbers: Mapping[str, float] = field(default_factory=dict)
    parts: tuple[Finding, ...] = ()
    ended: bool = False

    also_in_json = ("sentence",)
    not_in_json = ("at",)

    @property
    def goes_on(self) -> bool:
        """True if the training is to go on unchanged."""
        return self.kind in _GOING_ON

    @property
    def stops(self) -> bool:
        """True if the training is to stop."""
        return self.kind in _STOPPING

    @property
    def clause(self) -> str:
        """It in words, without a full stop."""
        return action_clause(self)

    @property
    def sentence(self) -> str:
        """It in words, as it follows "Do now:"."""
        return f"{self.clause}."
