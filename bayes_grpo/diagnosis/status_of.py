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
from bayes_grpo.diagnosis.logged import fall_text
from bayes_grpo.diagnosis.mode import Episode, Timeline, failure_names, label_of
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import CANNOT_TELL, MODES, Status, StatusWord
from bayes_grpo.diagnosis.story import over_texts
from bayes_grpo.diagnosis.thresholds import THRESHOLDS

BROKE = ("dynamical_instability", "lost_values")
"""Modes whose end the line names, of those that are over."""


def status_of(timeline: Timeline, rows: RunSoFar, facts: Facts, happened: Sequence[str] = ()) -> Status:
    """The status of a diagnosis.

    Args:
        timeline: Of the run.
        rows: Its rows.
        facts: Inputs of the actions' conditions.
        happened: Sudden events that are over, a clause each.
    """
    on = (e for e in timeline.probable(over=False) if timeline.modes[e.mode].under_way >= THRESHOLDS.probable)
    case = _Case(timeline, rows, facts, {e.mode: e for e in on})
    causes = (_not_numbers, _failing, _beneath, _held_out, _solved, _other, _signs, _suspected)
    line = next((line for cause in causes if (line := cause(case)) is not None), None) or _calm(case)
    past = () if line.alarming else happened or over_texts(timeline, BROKE)
    return replace(line, earlier=f"Earlier: {'; '.join(past[:2])}.") if past else line


class _Case(NamedTuple):
    """What the status of a run is decided by; ``now`` has its modes that are more probable than not."""

    timeline: Timeline
    rows: RunSoFar
    facts: Facts
    now: Mapping[str, Episode]

    def line(
        self, status: StatusWord, finding: str, p: float, text: str, evidence: str, *, of: str = "", first: str = ""
    ) -> Status:
        """A line with the actions of a finding, or of ``of``; ``first`` goes before them."""
        do, *rest = [*([first] if first else []), *advice(of or finding, self.facts)]
        headline = f"{text[:1].upper()}{text[1:]}."
        return Status(status, finding, p, headline, do, evidence, tuple(x for x in rest if x != do))

    def of_episode(self, status: StatusWord, e: Episode) -> Status:
        """A line with the name of a mode, its onset and its severity."""
        text = f"{label_of(e.mode)}{self.since(e)}{e.severity}"
        return self.line(status, e.mode, e.probability, text, "the failure probabilities")

    def since(self, e: Episode) -> str:
        """Onset of an episode in words, with its interval and the resume behind it."""
        step, *other = self.facts.step_text(round(e.onset.median)).split(" (")
        low, high = (f"{x:.0f}" for x in (e.onset.low, e.onset.high))
        bounds = "" if low == high else f" [{low}, {high}]"
        resumed, after = self.facts.resumed, ""
        if resumed is not None and e.mode in resumed.modes:
            after = f", after the resume at {self.facts.step_text(resumed.step)}"
        return " (".join([f" since about {step}{bounds}", *other]) + after


def _not_numbers(case: _Case) -> Status | None:
    facts, found = case.facts, case.now.get("lost_values")
    if not facts.not_finite:
        return None
    since = "" if found is None else f" since about {facts.step_text(round(found.onset.median))}"
    names = " and ".join(name.replace("_", " ") for name in facts.not_finite)
    text = f"{names} {'are' if len(facts.not_finite) > 1 else 'is'} NaN{since}"
    return case.line("failed", "lost_values", 0.95 if found is None else found.probability, text, "the logged values")


def _failing(case: _Case) -> Status | None:
    """A failure that is more probable than not."""
    rows, facts, y = case.rows, case.facts, case.rows.reward
    found = [case.now[mode] for mode in MODES if mode in case.now]
    if not found:
        return None
    if facts.constant and (e := case.now.get("advantage_degeneracy")) is not None:
        text = f"The reward is {y.value[-1]:.4g} in every row and in every group, so the gradient is zero"
        return case.line("failing", e.mode, e.probability, text, "the reward's rows")
    if (e := case.now.get("dynamical_instability")) is not None:
        if rows.loss > 1.0:
            if facts.stuck is not None:
                text = f"{rows.reward_name} fell to {y.value[-1]:g} at {facts.step_text(facts.stuck)} and stays there"
                text += f", while the evaluation reward is at {rows.held_out.now:.2g}"
                return case.line("failed", e.mode, e.probability, text, "the reward's rows", of="stuck")
            text = "; ".join([fall_text(rows.reward_name, y) + case.since(e), *facts.falls[:1]])
            return case.line("failed", e.mode, e.probability, text, "the reward's running means")
        if strong := next((s.words for s in facts.signs if s.strong), ""):
            return case.line("failing", e.mode, e.probability, strong, "the logged signals")
    return case.of_episode("failing", max(found, key=lambda x: (x.mode != "advantage_degeneracy", x.probability)))


def _beneath(case: _Case) -> Status | None:
    """A component or environment that falls under a total that does not."""
    falls = case.facts.falls
    if not falls or case.rows.loss > 1.0:
        return None
    text = f"{falls[0]} while the total reward holds"
    return case.line("watch", "component_falls", 0.85, text, "the reward components", of="component falls")


def _held_out(case: _Case) -> Status | None:
    """An evaluation reward that falls, or stays while the train reward rises."""
    rows, facts, y, held_out = case.rows, case.facts, case.rows.reward, case.rows.held_out
    if facts.solved or not (facts.held_out_falls or facts.held_out_stays):
        return None
    name = "gold reward" if held_out is rows.signal("gold_reward") else "evaluation reward"
    rose = f"the train reward rose from {y.start:.2g} to {y.now:.2g}"
    if facts.held_out_falls or held_out.best - held_out.now > THRESHOLDS.gain_errors * held_out.error:
        others = [s.words for s in facts.signs if "evaluation" not in s.words]
        rose = f" while {rose}" if rows.rose else "".join(f"; {words}" for words in others[:1])
        text, what = fall_text(f"the {name}", held_out) + rose, "evaluation falls"
    else:
        text, what = f"{rose} while the {name} stays at {held_out.now:.2g}", "evaluation stays"
    p = case.timeline.modes["reward_hacking"].under_way
    return case.line("watch", "reward_hacking", p, text, "train and evaluation reward", of=what)


def _solved(case: _Case) -> Status | None:
    """A reward at its maximum, or high with most groups all correct: success with little gradient."""
    rows, facts = case.rows, case.facts
    idle = facts.waste > THRESHOLDS.half and facts.rows >= THRESHOLDS.waste_rows
    solved = facts.at_top or (facts.level > THRESHOLDS.near_top and idle)
    if not solved or facts.rows < THRESHOLDS.direct_rows:
        return None
    p = 1.0 - max(case.timeline.modes[mode].under_way for mode in ("reward_hacking", "dynamical_instability"))
    share = f"; {facts.waste:.0%} of the groups have zero reward variance" if idle else ""
    if rows.uses_eval or facts.solved:
        score = rows.held_out if rows.held_out.rows else rows.reward
        text = f"the evaluation reward is at {score.now:.2g}: the task is solved{share}"
        return case.line("done", "plateaued", p, text, "the evaluation reward", of="solved")
    text = f"mostly solved: the train reward is at {facts.level:.0%} of its range{share}"
    if facts.at_top:
        ceiling = f"the train reward is at its ceiling ({facts.level:.0%} of its range)"
        text = f"{ceiling}; only an evaluation can show more"
    return case.line("done", "plateaued", p, text, "the reward's level", of="mostly solved")


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
    text, of = "; ".join(s.words for s in signs[:2]), "ended" if facts.ended else "instability signs"
    return case.line("watch", "dynamical_instability", facts.failing, text, "the logged signals", of=of)


def _suspected(case: _Case) -> Status | None:
    """A failure that the log can show, with a probability below one half."""
    p = {m: case.timeline.modes[m].under_way for m in MODES if case.timeline.modes[m].seen}
    mode = max(p, key=p.__getitem__, default="")
    if not mode or p[mode] < THRESHOLDS.suspect or case.facts.rows < THRESHOLDS.trend_rows:
        return None
    text, again = f"{label_of(mode)} is possible, but less likely than not", ACTIONS["watch it"].text(case.facts)
    return case.line("watch", mode, p[mode], text, "the failure probabilities", first=f"{again}.")


def _calm(case: _Case) -> Status:
    """No failure that the log can show."""
    rows, facts, y = case.rows, case.facts, case.rows.reward
    rises, rests = (case.timeline.modes[name].under_way for name in ("growing", "plateaued"))
    start, level, calm, means = f"{y.start:.3g}", f"{y.now:.3g}", 1.0 - facts.failing, "the reward's running means"
    risen = "risen, but within one row's noise" if facts.crept else "not clearly risen"
    flat = f"the reward has {'not risen' if y.now <= y.start else risen}"
    if facts.ended and facts.rows >= THRESHOLDS.direct_rows:
        at = "" if facts.planned is None else f"the {facts.planned:g} planned steps are over"
        if facts.rate_spent is not None:
            at = f"the learning rate reached zero at {facts.step_text(facts.rate_spent)}"
        found, what, of = "plateaued", f"{flat} (from {start} to {level})", "ended flat"
        if facts.rose:
            found, what, of = "growing", f"the reward rose from {start} to {level}", "ended"
        return case.line("done", found, calm, f"{at}; {what}", "the schedule and the reward", of=of)
    if facts.rows >= THRESHOLDS.direct_rows and rises >= THRESHOLDS.probable and (rises >= rests or not facts.resting):
        return case.line("fine", "growing", rises, "the reward is rising; no failure detected", means)
    if rests >= THRESHOLDS.probable and facts.rose and facts.early:
        planned = "" if facts.rows_planned is None else f" of {facts.rows_planned:.0f} planned"
        text = f"the reward holds at {level} after {facts.rows}{planned} rewards; no failure detected"
        return case.line("fine", "plateaued", calm, text, "the plan" if planned else means, of="rests early")
    if rests >= THRESHOLDS.probable and facts.rose:
        return case.line("done", "plateaued", rests, f"the reward has plateaued at {level}", "the reward", of="at rest")
    if rests >= THRESHOLDS.probable:
        return case.line("watch", "plateaued", rests, f"{flat}: from {start} to {level}", means)
    if facts.rose and facts.rows >= THRESHOLDS.trend_rows:
        text = f"the reward has risen from {start} to {level}; no failure detected"
        return case.line("fine", "growing", calm, text, means)
    text, of, half = "no failure detected; too early to tell whether the reward is rising", "", y.rows // 2
    if y.value.min() == y.value.max():
        so_far = f"{rows.reward_name} is {y.value[-1]:.4g} in all {y.rows} rows so far"
        text = f"{so_far}; too early to tell whether it stays there"
        of = "all wrong so far" if facts.all_wrong else ""
    elif rows.late_change > 1.0 and rises < THRESHOLDS.probable:
        text = f"the reward is back at {level} after {y.means.min():.3g}; too early to tell whether it rises further"
    elif THRESHOLDS.least_rows <= half < THRESHOLDS.waste_rows // 2 and y.value[half:].max() < y.value[:half].min():
        fell = f"{rows.reward_name} fell from {y.value[:half].mean():.3g} to {y.value[half:].mean():.3g}"
        text = f"no failure detected, but {fell}; {y.rows} rows are too few to tell a fall from noise"
        of = "falls early"
    return case.line("unclear", CANNOT_TELL, min(max(rises, 1.0 - rises), calm), text, "the number of rows", of=of)
