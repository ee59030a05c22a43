"""Few rows: direct measurements of a step where one or two stand alone, and of the last of some more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.modes.engine_gap import sampler_range
from bayes_grpo.diagnosis.records import Action, Finding
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.logs.run import Run
from bayes_grpo.signals.thresholds import THRESHOLDS

SINGLE_STEPS = 2
"""Rows up to which a log is a look at a step and not at a run."""
_ALL = 0.95
"""Share of the completions from which a length limit cuts them all."""
_NEAR_LIMIT, _ROUND = 0.9, 64
"""Share of the longest completion's length that the mean has, and multiple that is its length, where a limit cuts."""
_CERTAIN = 0.95


def status_of_rows(run: Run) -> Status:
    """The status of a log of one or two rows, by its last one."""
    found = tuple(_findings(run))
    rows = max(len(run.step), len(run.eval_step))
    numbers = {"rows": float(rows)}
    for name in ("eval_reward", "reward"):
        if not np.isnan(value := _last(run, name)):
            numbers[name] = value
    later = Action(kind="wait", numbers={"rewards": float(THRESHOLDS.waste_rows)})
    if not found:
        return Status("unclear", Finding(kind="few_rows", numbers=numbers, probability=1.0), later)
    whole = Finding(kind="few_rows", numbers=numbers, probability=_CERTAIN, parts=found)
    actions = [_DO[part.kind] for part in found if part.kind in _DO]
    first, *rest = (*actions, later)
    return Status("watch", whole, first, tuple(rest))


_DO = {
    "not_finite": Action(kind="look", subject="batch"),
    "high_kl": Action(kind="change_setting", setting="kl_weight"),
    "truncated_step": Action(kind="change_setting", setting="max_completion_length"),
    "near_limit": Action(kind="change_setting", setting="max_completion_length"),
    "no_variance": Action(kind="change_prompts", subject="mixed"),
    "zero_gradient": Action(kind="check_update"),
    "no_reward": Action(kind="look", subject="verifier"),
    "few_weights": Action(kind="look", subject="engine"),
    "sampler_gap": Action(kind="look", subject="engine"),
}


def _findings(run: Run) -> list[Finding]:
    """Findings of the last values, the most urgent first."""
    out = []
    broken = tuple(name for name in ("reward", "loss", "grad_norm") if run.not_finite(name)[-1:].any())
    if broken:
        out.append(Finding(kind="not_finite", signals=broken, probability=_CERTAIN))
    kl = _last(run, "kl")
    if kl > THRESHOLDS.high_kl:
        out.append(Finding(kind="high_kl", numbers={"now": kl}, probability=_CERTAIN))
    cut = _truncation(run)
    if cut is not None and cut.numbers.get("share", 0.0) >= _ALL:
        out.append(cut)
    equal = _last(run, "frac_reward_zero_std")
    if equal >= THRESHOLDS.dead_groups or any(_last(run, name) == 0.0 for name in ("reward_std", "advantage_max")):
        spread = tuple(plain(key, 60) for key in run.unused if key.lower().endswith(("/std", "_std")))[:1]
        out.append(Finding(kind="no_variance", signals=spread, numbers={"share": 1.0}, probability=_CERTAIN))
    elif equal >= THRESHOLDS.waste:
        out.append(Finding(kind="no_variance", numbers={"share": equal}, probability=_CERTAIN))
    elif _last(run, "grad_norm") == 0.0 and _last(run, "reward_std") > 0.0:
        out.append(Finding(kind="zero_gradient", probability=_CERTAIN))
    if cut is not None and cut not in out:
        out.append(cut)
    if _last(run, "reward") == 0.0:
        out.append(Finding(kind="no_reward", probability=_CERTAIN))
    share = _last(run, "importance_ess")
    if share < THRESHOLDS.half:
        out.append(Finding(kind="few_weights", numbers={"share": share}, probability=_CERTAIN))
    return [*out, *_sampler_gaps(run)]


def late_findings(run: Run) -> tuple[Finding, ...]:
    """What the last of a few rows show of the entropy and of groups without variance, the most urgent first."""
    out = []
    entropy = _known(run, "entropy")
    if len(entropy) > SINGLE_STEPS and 0.0 <= entropy[-1] < THRESHOLDS.spent * entropy[0]:
        numbers = {"best": float(entropy[0]), "now": float(entropy[-1])}
        out.append(Finding(kind="signal_fell", signals=("entropy",), numbers=numbers, probability=_CERTAIN))
    equal = _known(run, "frac_reward_zero_std")
    if len(equal) > SINGLE_STEPS and equal[-SINGLE_STEPS:].min() > THRESHOLDS.waste:
        out.append(Finding(kind="no_variance", numbers={"share": float(equal[-1])}, probability=_CERTAIN))
    return tuple(out)


def _sampler_gaps(run: Run) -> Iterator[Finding]:
    """Mismatch of sampler and trainer, or a mean importance weight, outside its healthy range."""
    for name in ("engine_mismatch", "importance_ratio"):
        healthy, value = sampler_range(run, name), _last(run, name)
        if healthy is not None and not (np.isnan(value) or healthy.low <= value <= healthy.high):
            numbers = {"now": value, "low": healthy.low, "high": healthy.high}
            yield Finding(kind="sampler_gap", signals=(name,), numbers=numbers, probability=_CERTAIN)


def _truncation(run: Run) -> Finding | None:
    """A length limit that cuts many completions, by their share or by a mean close to a round maximum."""
    cut, length, longest = (
        _last(run, name) for name in ("completions_clipped_ratio", "completion_length", "completion_length_max")
    )
    if cut >= THRESHOLDS.truncated:
        numbers = {"share": cut} | ({} if np.isnan(length) else {"length": length})
        return Finding(kind="truncated_step", numbers=numbers, probability=_CERTAIN)
    if np.isnan(cut) and length >= _NEAR_LIMIT * longest and longest % _ROUND == 0.0:
        numbers = {"length": length, "longest": longest}
        return Finding(kind="near_limit", numbers=numbers, probability=_CERTAIN)
    return None


def _last(run: Run, name: str) -> float:
    """The last value of a column; NaN without one."""
    known = _known(run, name)
    return float(known[-1]) if len(known) else np.nan


def _known(run: Run, name: str) -> np.ndarray:
    """The finite values of a column, shape (n,)."""
    values = run.eval_reward if name == "eval_reward" else run.values(name)
    return values[np.isfinite(values)]
