"""Few rows: direct measurements of a step where one or two stand alone, and of the last of some more."""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.modes.engine_gap import SAMPLER_SIGNALS, sampler_range
from bayes_grpo.diagnosis.records import Action, Finding, FindingKind
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.diagnosis.view import EVERY_ROW
from bayes_grpo.logs.run import Run
from bayes_grpo.signals.thresholds import THRESHOLDS

SINGLE_STEPS = 2
"""Rows up to which a log is a look at a step and not at a run."""
_CERTAIN = 0.95
_LATE_STEP = 10
_LATE_ROWS = 3
"""Step, and number of rows before it at the logged pace, from which on a log of a few rows is a part of one."""
_NOISE = (4.0, 13.0)
"""Nats a token: entropy of no model in use. A choice among all tokens at random has 12, a sum over tokens more."""


def status_of_rows(run: Run) -> Status:
    """The status of a log of one or two rows, by its last one."""
    found = tuple(_findings(run))
    rows = max(len(run.step), len(run.eval_step))
    numbers = {"rows": float(rows)}
    for name in ("eval_reward", "reward"):
        if not np.isnan(value := _last(run, name)):
            numbers[name] = value
    waiting = Action(kind="wait", numbers={"rewards": float(THRESHOLDS.waste_rows)})
    untrained = Action(kind="pass_training") if "eval_reward" in numbers and "reward" not in numbers else None
    later = untrained or part_of_a_log(run) or waiting
    if not found:
        return Status("unclear", Finding(kind="few_rows", numbers=numbers, probability=1.0), later)
    whole = Finding(kind="few_rows", numbers=numbers, probability=_CERTAIN, parts=found)
    actions = [_DO[part.kind] for part in found if part.kind in _DO]
    first, *rest = (*actions, later)
    return Status("watch", whole, first, tuple(rest))


def part_of_a_log(run: Run) -> Action | None:
    """To pass the whole log, of a few rows from the middle of one; None where they begin it."""
    steps = np.sort(np.unique(np.concatenate([run.step, run.eval_step])))
    if not len(steps):
        return None
    first = float(steps[0])
    row = float(np.median(np.diff(steps))) if len(steps) > 1 else 1.0
    if first < max(_LATE_STEP, _LATE_ROWS * row):
        return None
    return Action(kind="pass_whole_log", numbers={"first": first})


_DO = {
    "not_finite": Action(kind="look", subject="batch"),
    "high_kl": Action(kind="change_setting", setting="kl_weight"),
    "noise_written": Action(kind="look", subject="weights"),
    "truncated_step": Action(kind="change_setting", setting="max_completion_length"),
    "no_variance": Action(kind="change_prompts", subject="mixed"),
    "zero_gradient": Action(kind="check_update"),
    "no_reward": Action(kind="look", subject="verifier"),
    "sampler_gap": Action(kind="look", subject="engine"),
}


def _findings(run: Run) -> list[Finding]:
    """Findings of the last values, the most urgent first."""

    def add(kind: FindingKind, *signals: str, **numbers: float) -> None:
        out.append(Finding(kind=kind, signals=signals, numbers=numbers, probability=_CERTAIN))

    out: list[Finding] = []
    broken = [name for name in EVERY_ROW if run.not_finite(name)[-1:].any()]
    if broken:
        add("not_finite", *broken)
    kl = _last(run, "kl")
    if kl > THRESHOLDS.high_kl:
        add("high_kl", now=kl)
    equal = _last(run, "frac_reward_zero_std")
    if _last(run, "grad_norm") == 0.0 and _last(run, "reward_std") > 0.0 and not equal >= THRESHOLDS.waste:
        add("zero_gradient")
    if _NOISE[0] < (entropy := _last(run, "entropy")) < _NOISE[1]:
        add("noise_written", now=entropy)
    cut = _last(run, "completions_clipped_ratio")
    if cut >= THRESHOLDS.half:
        length = _last(run, "completion_length")
        add("truncated_step", share=cut, length=length)
    if equal >= THRESHOLDS.dead_groups or any(_last(run, name) == 0.0 for name in ("reward_std", "advantage_max")):
        spread = [plain(key, 60) for key in run.unused if key.lower().endswith(("/std", "_std"))]
        add("no_variance", *spread[:1], share=1.0)
    elif equal >= THRESHOLDS.waste:
        add("no_variance", share=equal)
    if _last(run, "reward") == 0.0:
        add("no_reward")
    for name in SAMPLER_SIGNALS:
        healthy = sampler_range(run, name)
        value = _last(run, name)
        if healthy is not None and (value < healthy.low or value > healthy.high):
            add("sampler_gap", name, now=value, low=healthy.low, high=healthy.high)
    return out


def late_findings(run: Run) -> tuple[Finding, ...]:
    """Findings of a few rows about the entropy, groups without variance and zero gradients, the most urgent first."""
    out = []
    entropy = _finite(run, "entropy")
    if len(entropy) > SINGLE_STEPS and 0.0 <= entropy[-1] < THRESHOLDS.spent * entropy[0]:
        numbers = {"best": float(entropy[0]), "now": float(entropy[-1])}
        out.append(Finding(kind="signal_fell", signals=("entropy",), numbers=numbers, probability=_CERTAIN))
    equal = _finite(run, "frac_reward_zero_std")
    if len(equal) > SINGLE_STEPS and equal[-SINGLE_STEPS:].min() > THRESHOLDS.waste:
        out.append(Finding(kind="no_variance", numbers={"share": float(equal[-1])}, probability=_CERTAIN))
    varied = run.values("reward_std") > 0.0
    still = (run.values("grad_norm") == 0.0) & varied
    if len(run.step) > SINGLE_STEPS and still.sum() >= THRESHOLDS.half * varied.sum() > 0.0:
        numbers = {"still": float(still.sum()), "varied": float(varied.sum())}
        out.append(Finding(kind="zero_gradient", numbers=numbers, probability=_CERTAIN))
    return tuple(out)


def _last(run: Run, name: str) -> float:
    """The last value of a column; NaN without one."""
    known = _finite(run, name)
    return float(known[-1]) if len(known) else np.nan


def _finite(run: Run, name: str) -> np.ndarray:
    """The finite values of a column, shape (n,)."""
    values = run.eval_reward if name == "eval_reward" else run.values(name)
    return values[np.isfinite(values)]
