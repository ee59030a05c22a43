"""Status of a run: one table of causes, from first to last; the first that applies decides.

A cause looks at the facts of a run and answers with a status, a finding and the situation whose actions apply, or with
None. Forecast and costs may replace the action for a run without failure (`bayes_grpo.analysis`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bayes_grpo.diagnosis.actions import ACTIONS, advice
from bayes_grpo.diagnosis.calm import calm
from bayes_grpo.diagnosis.facts import Facts, fall_of
from bayes_grpo.diagnosis.few_rows import late_findings
from bayes_grpo.diagnosis.goals import parted_goal
from bayes_grpo.diagnosis.looks import looks_of
from bayes_grpo.diagnosis.mode import Episode, failure_names
from bayes_grpo.diagnosis.modes.dynamical_instability import evaluation_lost
from bayes_grpo.diagnosis.records import Finding, FindingKind
from bayes_grpo.diagnosis.status import MODES, Answer, Status, StatusWord
from bayes_grpo.diagnosis.story import instability_over, resume_at, rows_not_finite
from bayes_grpo.diagnosis.strain import scheduled_part, swings
from bayes_grpo.signals.run_paths import never_changes
from bayes_grpo.signals.thresholds import THRESHOLDS

_EARLIER = 2
"""Earlier events that a status names."""
_CLEAR = 0.85
"""Probability of a finding that is no mode of its own: the share of labeled logs in which a clear one is meant."""


def status_of(facts: Facts, happened: Sequence[Finding] = ()) -> Status:
    """The status of a run, given sudden events that are over."""
    answers = (cause(facts) for cause in CAUSES)
    answer = next((x for x in answers if x is not None), None) or calm(facts)
    do, *rest = advice(answer.situation or answer.finding.mode, facts)
    if answer.first is not None:
        rest = [do, *rest]
        do = replace(answer.first, ended=facts.ended)
    status = Status(answer.status, answer.finding, do, tuple(x for x in rest if x != do))
    past = () if status.alarming else happened or instability_over(facts.timeline)
    lost = () if answer.finding.mode == "lost_values" else rows_not_finite(facts.view, facts.timeline)
    return replace(status, earlier=(*lost, *past)[:_EARLIER], looks=looks_of(facts, status))


def _under_way(facts: Facts, mode: str) -> Episode | None:
    """The episode of a mode that is more probable than not at the end."""
    if facts.under_way(mode) < THRESHOLDS.probable:
        return None
    found = [e for e in facts.timeline.episodes if e.mode == mode and e.probable and not e.over]
    return found[-1] if found else None


def _begun(facts: Facts, found: Finding, e: Episode) -> Finding:
    """A finding with the probability and the onset of an episode, and the resume behind it."""
    parts = found.parts
    resumed = facts.resumed
    if resumed is not None and e.mode in resumed.modes:
        parts = (*parts, resume_at(facts.step_name(resumed.step)))
    at = facts.step_name(round(e.onset.median))
    return replace(found, step=e.onset, at=at, parts=parts, probability=e.probability)


def _episode(facts: Facts, status: StatusWord, e: Episode) -> Answer:
    return Answer(status, _begun(facts, Finding(kind=e.mode, severity=e.severity_text), e))


def _not_finite(facts: Facts) -> Answer | None:
    if not facts.not_finite:
        return None
    found = Finding.of("not_finite", *facts.not_finite, probability=0.95)
    e = _under_way(facts, "lost_values")
    return Answer("failed", found if e is None else _begun(facts, found, e))


def _constant(facts: Facts) -> Answer | None:
    e = _under_way(facts, "advantage_degeneracy")
    if e is None or not facts.constant:
        return None
    now = float(facts.view.reward.logged.value[-1])
    return Answer("failing", Finding.of("constant_reward", now=now, probability=e.probability))


def _scheduled(facts: Facts) -> Answer | None:
    """A total that falls because the weight of one component is scheduled."""
    name = scheduled_part(facts.view)
    if name is None:
        return None
    path = facts.view.paths.components[name]
    everywhere = np.ones(len(path.now), bool)
    found = fall_of("scheduled_weight", name, path, everywhere, _CLEAR, **_total(facts))
    return Answer("watch", found, "scheduled weight")


def _total(facts: Facts) -> dict[str, float]:
    """Best and last level of the reward, for the fall of a part of it."""
    total = facts.view.reward
    return {"total_best": float(np.median(total.best)), "total_now": float(np.median(total.now))}


def _lost(facts: Facts) -> Answer | None:
    """A reward, or an evaluation reward, that has lost half of its gain or level."""
    e = _under_way(facts, "dynamical_instability")
    if e is None:
        return None
    view = facts.view
    evaluation = float(evaluation_lost(view)[:, -1].mean())
    if facts.lost >= max(evaluation, THRESHOLDS.half):
        found = fall_of("lost_reward", view.paths.reward_key, view.reward, view.reward.lost()[:, -1])
        return Answer("failed", _begun(facts, replace(found, parts=(*facts.falls[:1], *facts.signs[:1])), e))
    if evaluation >= THRESHOLDS.half and view.held_out is not None:
        found = fall_of("lost_reward", view.paths.held_out_key, view.held_out, view.held_out.lost()[:, -1])
        return Answer("failed", _begun(facts, replace(found, parts=facts.signs[:1]), e))
    if facts.signs:
        return Answer("failing", _begun(facts, Finding(kind="instability_signs", parts=facts.signs[:2]), e))
    return _episode(facts, "failing", e)


def _failing(facts: Facts) -> Answer | None:
    """The most probable of the other failures; degeneracy last, as others bring it about."""
    found = [e for mode in MODES if (e := _under_way(facts, mode)) is not None]
    e = max(found, key=lambda x: (x.mode != "advantage_degeneracy", x.probability), default=None)
    return None if e is None else _episode(facts, "failing", e)


def _part_falls(facts: Facts) -> Answer | None:
    """A component or environment that is lost under a total that is not."""
    if not facts.falls:
        return None
    part = facts.falls[0]
    total = _total(facts) if facts.fell >= THRESHOLDS.probable else {"total_holds": 1.0}
    found = replace(part, numbers={**part.numbers, **total}, probability=_CLEAR * part.probability)
    return Answer("watch", found, "component falls")


def _evaluation(facts: Facts) -> Answer | None:
    """An evaluation reward that falls, or stays while the train reward rises."""
    path = facts.view.held_out
    most = max(facts.held_out_falls, facts.held_out_stays)
    if path is None or facts.solved or most < THRESHOLDS.probable:
        return None
    name = facts.view.paths.held_out_key
    train = facts.view.reward
    rose = {"train_start": float(np.median(train.start)), "train_now": float(np.median(train.now))}
    p = _CLEAR * most
    if facts.held_out_falls >= THRESHOLDS.probable:
        found = fall_of("evaluation_fell", name, path, path.fell()[:, -1], p, **(rose if facts.rose else {}))
        return Answer("watch", replace(found, parts=() if facts.rose else facts.signs[:1]), "evaluation falls")
    found = Finding.of("evaluation_stays", name, now=float(np.median(path.now)), **rose, probability=p)
    return Answer("watch", found, "evaluation stays")


def _evaluation_constant(facts: Facts) -> Answer | None:
    """An evaluation reward that never changes under a train reward that does not rise: no update reaches the policy."""
    path = facts.view.held_out
    if path is None or facts.rose or not never_changes(path):
        return None
    name, rows = facts.view.paths.held_out_key, path.logged.rows
    now = float(path.logged.value[-1])
    found = Finding.of("evaluation_constant", name, now=now, evaluations=rows, probability=_CLEAR)
    return Answer("watch", found, "evaluation constant")


def _form(facts: Facts) -> Answer | None:
    """A reward of form without the task, which is neither solved nor at its ceiling."""
    e = _under_way(facts, "form_without_task")
    return None if e is None else _episode(facts, "watch", e)


def _swings(facts: Facts) -> Answer | None:
    """A reward that goes up and down again and again: it holds on average, so a look and no alarm."""
    share = float(swings(facts.view)[:, -1].mean())
    if share < THRESHOLDS.probable:
        return None
    path = facts.view.reward
    late = path.mean[len(path.mean) // 2 :]
    found = Finding.of(
        "swings",
        facts.view.paths.reward_key,
        low=float(late.min()),
        high=float(late.max()),
        times=float(np.median(path.returns()[:, -1])),
        probability=_CLEAR * share,
    )
    return Answer("watch", found, "swings")


def _solved(facts: Facts) -> Answer | None:
    """A reward at its maximum, or high with most groups all correct: success with little gradient."""
    idle = facts.waste > THRESHOLDS.half and facts.rows >= THRESHOLDS.waste_rows
    solved = facts.at_top or (facts.level > THRESHOLDS.near_top and idle)
    if not solved or facts.rows < THRESHOLDS.direct_rows:
        return None
    p = 1.0 - max(facts.under_way(mode) for mode in ("reward_hacking", "dynamical_instability"))
    numbers = {"waste": facts.waste} if idle else {}
    score = facts.view.paths.score
    if score is not None and (facts.view.paths.uses_eval or facts.solved):
        now = float(np.median(score.now))
        return Answer("done", Finding.of("solved", **numbers, now=now, probability=p), "solved")
    kind: FindingKind = "at_ceiling" if facts.at_top else "mostly_solved"
    return Answer("done", Finding.of(kind, **numbers, level=facts.level, probability=p), "mostly solved")


def _far(facts: Facts) -> Answer | None:
    """A policy that is far from the reference while the reward has not risen."""
    path = facts.view.signal("kl")
    if path is None or facts.rose:
        return None
    share = float((path.now > THRESHOLDS.high_kl).mean())
    if share < THRESHOLDS.probable:
        return None
    reward = facts.view.reward
    found = Finding.of(
        "high_kl",
        "kl",
        now=float(np.median(path.now)),
        reward_start=reward.display_value(reward.start),
        reward_now=reward.display_value(reward.now),
        probability=_CLEAR * share,
    )
    return Answer("watch", found, "far")


_WASTE = ("idle_steps", "one_sided_groups")
"""Modes that are no finding of their own where the reward clearly rises all the same."""
_LED_BY = ("truncated_completions", "engine_gap", "length_collapse")
"""Modes that come first among those outside the four failures."""


def _other(facts: Facts) -> Answer | None:
    """The most probable finding outside the four failures."""
    rises = facts.under_way("growing") > 1.0 - THRESHOLDS.suspect
    modes = failure_names() - set(MODES) - (set(_WASTE) if rises else set())
    found = [e for mode in modes if (e := _under_way(facts, mode)) is not None]
    e = max(found, key=lambda e: (e.mode in _LED_BY, e.probability, e.mode), default=None)
    if e is None:
        return None
    answer = _episode(facts, "watch", e)
    if not facts.rose and facts.under_way("growing") < THRESHOLDS.probable:
        return answer
    path = facts.view.reward
    levels = {"reward_start": path.display_value(path.start), "reward_now": path.display_value(path.now)}
    return answer._replace(finding=replace(answer.finding, numbers=levels))


def _signs(facts: Facts) -> Answer | None:
    """A strong sign of instability, or two, while the reward holds: a look, no alarm."""
    strong = any(x.signals[0] in ("grad_norm", "loss", "kl") for x in facts.signs)
    if not strong and len(facts.signs) < 2:
        return None
    found = Finding(kind="instability_signs", parts=facts.signs[:2], probability=facts.failing)
    return Answer("watch", found, "ended" if facts.ended else "instability signs")


def _goal(facts: Facts) -> Answer | None:
    """A goal next to the reward that does not share its rise."""
    parted = parted_goal(facts.view)
    if parted is None:
        return None
    return Answer("watch", replace(parted, probability=_CLEAR * parted.probability), "goal parts")


_FIRST_LOOK = {"reward_hacking": "read completions", "advantage_degeneracy": "mixed prompts"}
"""Mode that is merely possible → name of the look that tells more, where waiting tells nothing."""


def _suspected(facts: Facts) -> Answer | None:
    """A failure that the log can show, with a probability below one half; of a few rows a fall alone."""
    p: dict[FindingKind, float] = {m: facts.under_way(m) for m in MODES if facts.timeline.modes[m].seen}
    mode = max(p, key=p.__getitem__, default=None)
    if mode is None or p[mode] < THRESHOLDS.suspect:
        return None
    if mode == "dynamical_instability" and facts.fell >= THRESHOLDS.suspect:
        return _fell(facts)
    if facts.rows < THRESHOLDS.direct_rows:
        return None
    possible = Finding(kind=mode, probability=p[mode])
    waits = "score checkpoints" if facts.ended else "watch it"
    return Answer("watch", possible, first=ACTIONS[_FIRST_LOOK.get(mode, waits)].of(facts))


def _fell(facts: Facts) -> Answer:
    """A reward that may have fallen: its size, and how probable a loss is."""
    path = facts.view.reward
    fell = path.fell()[:, -1]
    lost = facts.under_way("dynamical_instability")
    logged = path.logged.value
    parts = facts.signs[:1]
    levels = {"now": float(np.median(path.now[fell] if fell.any() else path.now))}
    if facts.rows < THRESHOLDS.direct_rows:  # the rows are all that is known: levels of draws that fell lie between
        levels = {"best": float(logged.max()), "now": float(logged[-1])}
        parts = parts or late_findings(facts.view.run)
    found = fall_of("falls_early", facts.view.paths.reward_key, path, fell, float(fell.mean()), lost=lost, **levels)
    return Answer("watch", replace(found, parts=parts), "falls early")


def _falls(facts: Facts) -> Answer | None:
    """A reward that lies below its best without having lost half."""
    if not facts.falling or (facts.rose and not facts.clearly_fell):
        return None
    answer = _fell(facts)
    return answer._replace(situation="ended") if facts.ended else answer


CAUSES: tuple[Callable[[Facts], Answer | None], ...] = (
    _not_finite, _scheduled, _constant, _lost, _failing, _part_falls, _evaluation_constant, _evaluation, _form, _swings,
    _solved, _far, _other, _signs, _goal, _suspected, _falls,
)  # fmt: skip
"""All causes, the first to apply decides; `calm` follows them."""
