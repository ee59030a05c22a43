"""Status of a run: one word, the reason, and the one action to take now.

The first cause that applies decides: NaN values, a constant reward, a lost reward, other failures, a falling component,
an evaluation reward that falls or stays, then warnings, then the state of a run without failure. Forecast and costs may
replace the action for a run without failure (`bayes_grpo.analysis`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bayes_grpo.diagnosis.actions import ACTIONS, advice
from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.logged import fall_text
from bayes_grpo.diagnosis.mode import failure_names, label_of
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.status import CANNOT_TELL, MODES, ModeProbabilities, Status, StatusWord
from bayes_grpo.diagnosis.story import over_texts
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.timeline import Episode, Timeline

BROKE = ("dynamical_instability", "lost_values")
"""Modes whose end the line names, of those that are over."""
TOO_EARLY = "No failure detected; too early to tell whether the reward is rising."


def status_of(estimate: ModeProbabilities, timeline: Timeline | None, rows: RunSoFar, facts: Facts) -> Status:
    """The status of a diagnosis.

    Args:
        estimate: Probabilities of the modes.
        timeline: Of the run; None where its log has too few rewards.
        rows: Its rows.
        facts: Inputs of the actions' conditions.
    """
    if timeline is None:
        text = "The log has fewer than three rewards."
        do = f"{ACTIONS['look again'].text(facts)}."
        return Status("unclear", CANNOT_TELL, 1.0, text, do, "the number of rewards")
    on = {e.mode: e for e in timeline.probable(over=False)}
    now = {mode: e for mode, e in on.items() if estimate.probability.get(mode, e.probability) >= THRESHOLDS.probable}
    line = (
        _not_numbers(now, facts)
        or _failing(now, rows, facts)
        or _beneath(rows, facts)
        or _held_out(rows, facts, estimate)
        or _solved(facts, rows, estimate)
        or _other(now, facts)
        or _signs(facts)
        or _suspected(estimate, timeline, facts)
        or _calm(timeline, rows, facts)
    )
    past = () if line.alarming else facts.happened or over_texts(timeline, BROKE)
    return replace(line, earlier=f"Earlier: {'; '.join(past[:2])}.") if past else line


def _line(
    status: StatusWord, finding: str, p: float, text: str, facts: Facts, evidence: str, *, of: str = "", first: str = ""
) -> Status:
    """A line with the actions of a finding, or of ``of``; ``first`` goes before them."""
    do, *rest = [*([first] if first else []), *advice(of or finding, facts)]
    return Status(status, finding, p, f"{text}.", do, evidence, tuple(x for x in rest if x != do))


def _not_numbers(now: Mapping[str, Episode], facts: Facts) -> Status | None:
    if not facts.not_finite:
        return None
    found = now.get("lost_values")
    since = "" if found is None else f" since about {facts.step_text(round(found.onset.median))}"
    names = " and ".join(name.replace("_", " ") for name in facts.not_finite)
    text = f"{names} {'are' if len(facts.not_finite) > 1 else 'is'} NaN{since}"
    p = 0.95 if found is None else found.probability
    return _line("failed", "lost_values", p, _upper(text), facts, "the logged values")


def _failing(now: Mapping[str, Episode], rows: RunSoFar, facts: Facts) -> Status | None:
    """A failure that is more probable than not."""
    found = [now[mode] for mode in MODES if mode in now]
    if not found:
        return None
    y = rows.reward
    if facts.constant and "advantage_degeneracy" in now:
        e = now["advantage_degeneracy"]
        text = f"The reward is {y.value[-1]:.4g} in every row and in every group, so the gradient is zero"
        return _line("failing", e.mode, e.probability, text, facts, "the reward's rows")
    e = now.get("dynamical_instability")
    if e is not None:
        named = "The evaluation reward" if rows.uses_eval else "The reward"
        if rows.loss > 1.0:
            text = "; ".join([fall_text(named, y) + _since(e, facts), *facts.falls[:1]])
            return _line("failed", e.mode, e.probability, text, facts, "the reward's running means")
        strong = next((s.words for s in facts.signs if s.strong), "")
        if strong:
            return _line("failing", e.mode, e.probability, _upper(strong), facts, "the logged signals")
    worst = max(found, key=lambda x: (x.mode != "advantage_degeneracy", x.probability))
    text = f"{_upper(label_of(worst.mode))}{_since(worst, facts)}"
    text += f": {worst.severity_text}" if worst.severity_text else ""
    return _line("failing", worst.mode, worst.probability, text, facts, "the failure probabilities")


def _beneath(rows: RunSoFar, facts: Facts) -> Status | None:
    if not facts.falls or rows.loss > 1.0:
        return None
    text = f"{_upper(facts.falls[0])} while the total reward holds"
    return _line("watch", "component_falls", 0.85, text, facts, "the reward components", of="component falls")


def _solved(facts: Facts, rows: RunSoFar, estimate: ModeProbabilities) -> Status | None:
    """A reward at its maximum, or high with most groups all correct: success with little gradient."""
    idle = facts.waste > THRESHOLDS.half and facts.rows >= THRESHOLDS.waste_rows
    if not (facts.at_top or (facts.high and idle)) or facts.rows < THRESHOLDS.direct_rows:
        return None
    p = 1.0 - max(estimate.probability["reward_hacking"], estimate.probability["dynamical_instability"])
    share = f"; {facts.waste:.0%} of the groups have zero reward variance" if idle else ""
    if rows.uses_eval or facts.solved:
        score = rows.held_out if rows.held_out.rows else rows.reward
        text = f"The evaluation reward is at {score.now:.2g}"
        return _line(
            "done", "plateaued", p, f"{text}: the task is solved{share}", facts, "the evaluation reward", of="solved"
        )
    if facts.at_top:
        text = f"The train reward is at its ceiling ({facts.level:.0%} of its range); only an evaluation can show more"
    else:
        text = f"Mostly solved: the train reward is at {facts.level:.0%} of its range{share}"
    return _line("done", "plateaued", p, text, facts, "the reward's level", of="mostly solved")


def _other(now: Mapping[str, Episode], facts: Facts) -> Status | None:
    """The most probable finding outside the four failures."""
    failures = failure_names() - set(MODES)
    found = [e for e in now.values() if e.mode in failures]
    if not found:
        return None
    e = max(found, key=lambda e: (e.mode == "truncated_completions", e.probability))
    text = f"{_upper(label_of(e.mode))}{_since(e, facts)}"
    text += f": {e.severity_text}" if e.severity_text else ""
    return _line("watch", e.mode, e.probability, text, facts, "the failure probabilities")


def _signs(facts: Facts) -> Status | None:
    strong = [s for s in facts.signs if s.strong]
    if not strong and len(facts.signs) < 2:
        return None
    text = "; ".join(s.words for s in facts.signs[:2])
    return _line(
        "watch",
        "dynamical_instability",
        facts.failing,
        _upper(text),
        facts,
        "the logged signals",
        of="ended" if facts.ended else "instability signs",
    )


def _held_out(rows: RunSoFar, facts: Facts, estimate: ModeProbabilities) -> Status | None:
    """An evaluation reward that falls, or stays while the train reward rises."""
    y, held_out = rows.reward, rows.held_out
    if facts.solved or not (facts.held_out_falls or facts.held_out_stays):
        return None
    name = "gold reward" if "gold_reward" in rows.signals else "evaluation reward"
    rose = f"the train reward rose from {y.start:.2g} to {y.now:.2g}"
    if facts.held_out_falls or held_out.best - held_out.now > THRESHOLDS.gain_errors * held_out.error:
        others = [s.words for s in facts.signs if "evaluation" not in s.words]
        rose = f" while {rose}" if rows.rose else "".join(f"; {words}" for words in others[:1])
        text, what = fall_text(f"The {name}", held_out) + rose, "evaluation falls"
    else:
        text, what = f"{_upper(rose)} while the {name} stays at {held_out.now:.2g}", "evaluation stays"
    p = estimate.probability["reward_hacking"]
    return _line("watch", "reward_hacking", p, text, facts, "train and evaluation reward", of=what)


def _suspected(estimate: ModeProbabilities, timeline: Timeline, facts: Facts) -> Status | None:
    """A failure that the log can show, with a probability below one half."""
    seen = [m for m in MODES if timeline.modes[m].seen and estimate.probability[m] >= THRESHOLDS.suspect]
    if not seen or facts.rows < THRESHOLDS.trend_rows:
        return None
    mode = max(seen, key=estimate.probability.__getitem__)
    text = f"{_upper(label_of(mode))} is possible, but less likely than not"
    again = f"{ACTIONS['watch it'].text(facts)}."
    return _line("watch", mode, estimate.probability[mode], text, facts, "the failure probabilities", first=again)


def _calm(timeline: Timeline, rows: RunSoFar, facts: Facts) -> Status:
    """No failure that the log can show."""
    y = rows.reward
    level, calm = f"{y.now:.3g}", 1.0 - facts.failing
    ends = f"{y.start:.3g} at the start, {level} now"
    risen = (
        "not risen"
        if y.now <= y.start
        else "risen, but not clearly beyond one row's noise"
        if facts.crept
        else "not clearly risen"
    )
    rises, rests = (timeline.modes[name].under_way for name in ("growing", "plateaued"))
    if facts.ended and facts.rows >= THRESHOLDS.direct_rows:
        if facts.rate_spent is not None:
            at = f"The learning rate reached zero at {facts.step_text(facts.rate_spent)}"
        else:
            at = f"The {facts.planned:g} planned steps are over"
        if facts.rose:
            text = f"{at}; the reward rose from {y.start:.3g} to {level}"
            return _line("done", "growing", calm, text, facts, "the schedule and the reward", of="ended")
        text = f"{at}; the reward has {risen} ({ends})"
        return _line("done", "plateaued", calm, text, facts, "the schedule and the reward", of="ended flat")
    if facts.rows >= THRESHOLDS.direct_rows and rises >= THRESHOLDS.probable and (rises >= rests or not facts.resting):
        text = "The reward is rising; no failure detected"
        return _line("fine", "growing", rises, text, facts, "the reward's running means")
    if rests >= THRESHOLDS.probable and facts.rose:
        return _line(
            "done", "plateaued", rests, f"The reward has plateaued at {level}", facts, "the reward", of="at rest"
        )
    if rests >= THRESHOLDS.probable:
        return _line(
            "watch", "plateaued", rests, f"The reward has {risen}: {ends}", facts, "the reward's running means"
        )
    if facts.rose and facts.rows >= THRESHOLDS.trend_rows:
        text = f"The reward has risen from {y.start:.3g} to {level}; no failure detected"
        return _line("fine", "growing", calm, text, facts, "the reward's running means")
    text = TOO_EARLY[:-1]
    if y.value.min() == y.value.max():
        named = "evaluation reward" if rows.uses_eval else "reward"
        text = f"The {named} is {y.value[-1]:.4g} in all {y.rows} rows so far; too early to tell whether it stays there"
    return _line("unclear", CANNOT_TELL, min(max(rises, 1.0 - rises), calm), text, facts, "the number of rows")


def _since(e: Episode, facts: Facts) -> str:
    step, *other = facts.step_text(round(e.onset.median)).split(" (")
    span = f"{e.onset.low:.0f}, {e.onset.high:.0f}"
    bounds = "" if span.split(", ")[0] == span.split(", ")[1] else f" [{span}]"
    resumed = facts.resumed
    behind = resumed is not None and e.mode in resumed.modes
    after = f", after the resume at {facts.step_text(resumed.step)}" if resumed is not None and behind else ""
    return " (".join([f" since about {step}{bounds}", *other]) + after


def _upper(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
