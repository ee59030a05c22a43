"""Status of a run without a failure that its log can show: risen, at rest, ended, or with too little information."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.actions import ACTIONS
from bayes_grpo.diagnosis.facts import Facts
from bayes_grpo.diagnosis.few_rows import late_findings
from bayes_grpo.diagnosis.records import Finding, FindingKind
from bayes_grpo.diagnosis.status import Answer
from bayes_grpo.signals.thresholds import THRESHOLDS


def calm(facts: Facts) -> Answer:
    """No failure that the log can show."""
    view = facts.view
    path = view.reward
    rises = facts.under_way("growing")
    rests = facts.under_way("plateaued")
    calm = 1.0 - facts.failing
    rise = view.rise[:, -1]
    crept = float((rise > 0.0).mean()) >= THRESHOLDS.sure
    rose = crept and float((rise > THRESHOLDS.material).mean()) >= THRESHOLDS.probable
    levels = {
        "start": float(np.median(path.start)),
        "now": float(np.median(path.now)),
        "crept": float(crept),
        "probably": float(rose),
    }

    def finding(kind: FindingKind, p: float, **numbers: float) -> Finding:
        return Finding(kind=kind, signals=(view.paths.reward_key,), numbers=levels | numbers, probability=p)

    if path.logged.constant and not facts.ended:
        if facts.all_wrong or not facts.constant:
            return Answer("unclear", finding("constant_so_far", calm, rewards=facts.rows), "constant so far")
        # Sampled answers do not score alike row after row: a level above the lowest that never changes is not measured.
        return Answer("watch", finding("unmeasured", float("nan"), rewards=facts.rows), "unmeasured")
    if facts.ended and facts.rows >= THRESHOLDS.direct_rows:
        planned = {} if facts.planned is None else {"planned": facts.planned}
        spent = facts.spent_rate
        at = None if spent is None or spent.zero_step is None else facts.step_name(spent.zero_step)
        rate = {} if spent is None else {"rate_left": spent.share}
        ended = replace(finding("ended" if rose else "ended_flat", calm, **planned, **rate), at=at)
        return Answer("done", ended, "ended" if rose else "ended flat")
    if rises >= THRESHOLDS.probable and rises >= rests:
        clearly = rises >= 1.0 - THRESHOLDS.suspect
        return Answer("fine", finding("rising" if clearly or not facts.rose else "rising_on", rises))
    if rests >= THRESHOLDS.probable and facts.early and (facts.rose or facts.level > THRESHOLDS.near_top):
        planned = {} if facts.rows_planned is None else {"planned": facts.rows_planned}
        return Answer("fine", finding("holding", calm, rewards=facts.rows, **planned), "rests early")
    if rests >= THRESHOLDS.probable and facts.rose:
        return Answer("done", finding("at_rest", rests), "at rest")
    if rests >= THRESHOLDS.probable and facts.rows >= THRESHOLDS.waste_rows:
        return Answer("watch", finding("flat", rests))
    if facts.rose or crept:
        return Answer("fine", finding("risen", calm))
    doubt = min(max(rises, 1.0 - rises), calm)
    if facts.rows < THRESHOLDS.direct_rows:
        return _few(facts, finding("too_early", doubt))
    if float((rise < 0.0).mean()) >= THRESHOLDS.sure:
        return Answer("unclear", finding("slipped", doubt), "ends low")
    if facts.rows < THRESHOLDS.waste_rows:
        return Answer("unclear", finding("too_early", doubt))
    change = interval(path.change())
    hidden = {"change": change.median, "low": change.low, "high": change.high, "rewards": facts.rows}
    return Answer("unclear", finding("noise_hides", doubt, **hidden))


_HOLLOW: tuple[FindingKind, ...] = ("form_without_task", "apparent_gain")
"""Modes in which a reward that rises is no progress, but of form alone."""
_FIRST_OF = {"signal_fell": "entropy term", "no_variance": "mixed prompts", "zero_gradient": "update path"}
"""Kind of what few rows show → name of the action that it asks for first."""


def _few(facts: Facts, early: Finding) -> Answer:
    """Few rows whose paths tell nothing: what the last ones show of a reward that ends no higher than it began."""
    value = facts.view.reward.logged.value
    mode = max(_HOLLOW, key=facts.under_way)
    if (p := facts.under_way(mode)) >= THRESHOLDS.suspect_early:
        severity = next((e.severity_text for e in reversed(facts.timeline.episodes) if e.mode == mode), "")
        return Answer("watch", Finding(kind=mode, probability=p, severity=severity))
    if value[-1] > value[0]:
        return Answer("unclear", early)
    shown = late_findings(facts.view.run)
    if not shown:
        return Answer("unclear", early, "ends low" if value[-1] == value.min() else "")
    levels = {"first": float(value[0]), "most": float(value.max()), "last": float(value[-1]), "rewards": facts.rows}
    numbers = {**early.numbers, **levels}
    finding = replace(early, kind="ends_low", numbers=numbers, parts=shown, probability=float("nan"))
    return Answer("watch", finding, "ends low", ACTIONS[_FIRST_OF[shown[0].kind]].of(facts))
