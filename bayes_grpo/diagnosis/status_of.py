"""Status of a run: one word, the reason, and the one action to take now.

The first cause that applies decides: NaN values, a constant reward, a lost reward, other failures, a falling component,
an evaluation reward that falls or stays, then warnings, then the state of a run without failure. Forecast and costs may
replace the action for a run without failure (`bayes_grpo.analysis`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from bayes_grpo.diagnosis.actions import ACTIONS, advice
from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.logged import fall_of
from bayes_grpo.diagnosis.mode import Episode, Timeline, failure_names
from bayes_grpo.diagnosis.records import Action, Finding, FindingKind
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import MODES, Status, StatusWord
from bayes_grpo.diagnosis.story import kind_of, over_findings, resume_at
from bayes_grpo.diagnosis.thresholds import THRESHOLDS

BROKE = ("dynamical_instability", "lost_values")
"""Modes whose end the line names, of those that are over."""


def status_of(timeline: Timeline, rows: RunSoFar, facts: Facts, happened: Sequence[Finding] = ()) -> Status:
    """The status of a diagnosis.

    Args:
        timeline: Of the run.
        rows: Its rows.
        facts: Inputs of the actions' conditions.
        happened: Sudden events that are over.
    """
    on = (e for e in timeline.probable(over=False) if timeline.modes[e.mode].under_way >= THRESHOLDS.probable)
    case = _Case(timeline, rows, facts, {e.mode: e for e in on})
    causes = (_not_numbers, _failing, _beneath, _held_out, _solved, _other, _signs, _suspected)
    line = next((line for cause in causes if (line := cause(case)) is not None), None) or _calm(case)
    past = () if line.alarming else happened or over_findings(timeline, BROKE)
    return replace(line, earlier=tuple(past[:2]))


class _Case(NamedTuple):
    """What the status of a run is decided by; ``now`` has its modes that are more probable than not."""

    timeline: Timeline
    rows: RunSoFar
    facts: Facts
    now: Mapping[str, Episode]

    def line(self, status: StatusWord, found: Finding, *, of: str = "", first: Action | None = None) -> Status:
        """A line with the actions of a finding's mode, or of the situation ``of``; ``first`` goes before them."""
        do, *rest = [*([] if first is None else [first]), *advice(of or found.mode, self.facts)]
        return Status(status, found, do, tuple(x for x in rest if x != do))

    def of_episode(self, status: StatusWord, e: Episode) -> Status:
        """A line with a mode, its onset and its severity."""
        return self.line(status, self.begun(Finding(kind=kind_of(e.mode), severity=e.severity_text), e))

    def begun(self, found: Finding, e: Episode) -> Finding:
        """A finding with the probability and the onset of an episode, and the resume behind it."""
        at, resumed = self.facts.step_name(round(e.onset.median)), self.facts.resumed
        parts = found.parts
        if resumed is not None and e.mode in resumed.modes:
            parts = (*parts, resume_at(self.facts.step_name(resumed.step)))
        return replace(found, step=e.onset, at=at, parts=parts, probability=e.probability)


def _not_numbers(case: _Case) -> Status | None:
    facts, e = case.facts, case.now.get("lost_values")
    if not facts.not_finite:
        return None
    found = Finding(kind="not_finite", signals=facts.not_finite, probability=0.95)
    if e is not None:
        at = facts.step_name(round(e.onset.median))
        found = replace(found, step=e.onset, at=at, probability=e.probability)
    return case.line("failed", found)


def _failing(case: _Case) -> Status | None:
    """A failure that is more probable than not."""
    rows, facts, y = case.rows, case.facts, case.rows.reward
    found = [case.now[mode] for mode in MODES if mode in case.now]
    if not found:
        return None
    if facts.constant and (e := case.now.get("advantage_degeneracy")) is not None:
        constant = Finding(kind="constant_reward", numbers={"now": float(y.value[-1])}, probability=e.probability)
        return case.line("failing", constant)
    if (e := case.now.get("dynamical_instability")) is not None:
        if rows.loss > 1.0:
            if facts.stuck is not None:
                stuck = Finding(
                    kind="stuck_reward",
                    signals=(rows.reward_key,),
                    step=e.onset,
                    at=facts.step_name(facts.stuck),
                    numbers={"now": float(y.value[-1]), "evaluation": rows.held_out.now},
                    probability=e.probability,
                )
                return case.line("failed", stuck, of="stuck")
            lost = fall_of(rows.reward_key, y, "lost_reward", parts=facts.falls[:1])
            return case.line("failed", case.begun(lost, e))
        if strong := tuple(s.finding for s in facts.signs if s.strong)[:1]:
            return case.line("failing", Finding(kind="instability_signs", parts=strong, probability=e.probability))
    return case.of_episode("failing", max(found, key=lambda x: (x.mode != "advantage_degeneracy", x.probability)))


def _beneath(case: _Case) -> Status | None:
    """A component or environment that falls under a total that does not."""
    falls = case.facts.falls
    if not falls or case.rows.loss > 1.0:
        return None
    found = replace(falls[0], numbers={**falls[0].numbers, "total_holds": 1.0}, probability=0.85)
    return case.line("watch", found, of="component falls")


def _held_out(case: _Case) -> Status | None:
    """An evaluation reward that falls, or stays while the train reward rises."""
    rows, facts, y, held_out = case.rows, case.facts, case.rows.reward, case.rows.held_out
    if facts.solved or not (facts.held_out_falls or facts.held_out_stays):
        return None
    name = "gold_reward" if held_out is rows.signal("gold_reward") else "eval_reward"
    rose = {"train_start": y.start, "train_now": y.now}
    p = case.timeline.modes["reward_hacking"].under_way
    if facts.held_out_falls or held_out.best - held_out.now > THRESHOLDS.gain_errors * held_out.error:
        others = tuple(s.finding for s in facts.signs if s.finding.signals != ("eval_reward",))
        numbers, parts = (rose, ()) if rows.rose else ({}, others[:1])
        fell = fall_of(name, held_out, "evaluation_fell", numbers=numbers, parts=parts, probability=p)
        return case.line("watch", fell, of="evaluation falls")
    numbers = {"now": held_out.now, **rose}
    stays = Finding(kind="evaluation_stays", signals=(name,), numbers=numbers, probability=p)
    return case.line("watch", stays, of="evaluation stays")


def _solved(case: _Case) -> Status | None:
    """A reward at its maximum, or high with most groups all correct: success with little gradient."""
    rows, facts = case.rows, case.facts
    idle = facts.waste > THRESHOLDS.half and facts.rows >= THRESHOLDS.waste_rows
    solved = facts.at_top or (facts.level > THRESHOLDS.near_top and idle)
    if not solved or facts.rows < THRESHOLDS.direct_rows:
        return None
    p = 1.0 - max(case.timeline.modes[mode].under_way for mode in ("reward_hacking", "dynamical_instability"))
    numbers = {"waste": facts.waste} if idle else {}
    if rows.uses_eval or facts.solved:
        numbers["now"] = rows.held_out.now if rows.held_out.rows else rows.reward.now
        return case.line("done", Finding(kind="solved", numbers=numbers, probability=p), of="solved")
    kind: FindingKind = "at_ceiling" if facts.at_top else "mostly_solved"
    numbers["level"] = facts.level
    return case.line("done", Finding(kind=kind, numbers=numbers, probability=p), of="mostly solved")


def _other(case: _Case) -> Status | None:
    """The most probable finding outside the four failures."""
    failures = failure_names() - set(MODES)
    found = [e for e in case.now.values() if e.mode in failures]
    e = max(found, key=lambda e: (e.mode == "truncated_completions", e.probability), default=None)
    return None if e is None else case.of_episode("watch", e)


def _signs(case: _Case) -> Status | None:
    """A strong sign of instability, or two."""
    facts, signs = case.facts, case.facts.signs
    if not any(s.strong for s in signs) and len(signs) < 2:
        return None
    parts = tuple(s.finding for s in signs[:2])
    found = Finding(kind="instability_signs", parts=parts, probability=facts.failing)
    return case.line("watch", found, of="ended" if facts.ended else "instability signs")


def _suspected(case: _Case) -> Status | None:
    """A failure that the log can show, with a probability below one half."""
    p = {m: case.timeline.modes[m].under_way for m in MODES if case.timeline.modes[m].seen}
    mode = max(p, key=p.__getitem__, default="")
    if not mode or p[mode] < THRESHOLDS.suspect or case.facts.rows < THRESHOLDS.trend_rows:
        return None
    possible = Finding(kind=kind_of(mode), probability=p[mode])
    return case.line("watch", possible, first=ACTIONS["watch it"].of(case.facts))


def _calm(case: _Case) -> Status:
    """No failure that the log can show."""
    rows, facts, y = case.rows, case.facts, case.rows.reward
    rises, rests = (case.timeline.modes[name].under_way for name in ("growing", "plateaued"))
    calm = 1.0 - facts.failing
    levels = {"start": y.start, "now": y.now, "crept": float(facts.crept)}

    def found(kind: FindingKind, p: float, **numbers: float) -> Finding:
        return Finding(kind=kind, signals=(rows.reward_key,), numbers=levels | numbers, probability=p)

    if facts.ended and facts.rows >= THRESHOLDS.direct_rows:
        planned = {} if facts.planned is None else {"planned": facts.planned}
        at = None if facts.rate_spent is None else facts.step_name(facts.rate_spent)
        ended = replace(found("ended" if facts.rose else "ended_flat", calm, **planned), at=at)
        return case.line("done", ended, of="ended" if facts.rose else "ended flat")
    if facts.rows >= THRESHOLDS.direct_rows and rises >= THRESHOLDS.probable and (rises >= rests or not facts.resting):
        return case.line("fine", found("rising", rises))
    if rests >= THRESHOLDS.probable and facts.rose and facts.early:
        planned = {} if facts.rows_planned is None else {"planned": facts.rows_planned}
        return case.line("fine", found("holding", calm, rewards=facts.rows, **planned), of="rests early")
    if rests >= THRESHOLDS.probable and facts.rose:
        return case.line("done", found("at_rest", rests), of="at rest")
    if rests >= THRESHOLDS.probable:
        return case.line("watch", found("flat", rests))
    if facts.rose and facts.rows >= THRESHOLDS.trend_rows:
        return case.line("fine", found("risen", calm))
    p, half = min(max(rises, 1.0 - rises), calm), y.rows // 2
    if y.value.min() == y.value.max():
        constant = found("constant_so_far", p, now=float(y.value[-1]), rewards=y.rows)
        return case.line("unclear", constant, of="all wrong so far" if facts.all_wrong else "")
    if rows.late_change > 1.0 and rises < THRESHOLDS.probable:
        return case.line("unclear", found("came_back", p, least=float(y.means.min())))
    if THRESHOLDS.least_rows <= half < THRESHOLDS.waste_rows // 2 and y.value[half:].max() < y.value[:half].min():
        early, late = float(y.value[:half].mean()), float(y.value[half:].mean())
        falls = found("falls_early", p, early=early, late=late, rewards=y.rows)
        return case.line("unclear", falls, of="falls early")
    return case.line("unclear", found("too_early", p))
