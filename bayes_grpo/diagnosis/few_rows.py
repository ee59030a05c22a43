"""Few rows: direct measurements of a step where one or two stand alone, and of the last of some more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.modes.engine_gap import SAMPLER_SIGNALS, sampler_range
from bayes_grpo.diagnosis.records import Action, Finding
from bayes_grpo.diagnosis.status import Status
from bayes_grpo.diagnosis.view import EVERY_ROW
from bayes_grpo.logs.run import Run
from bayes_grpo.signals.thresholds import THRESHOLDS

SINGLE_STEPS = 2
"""Rows up to which a log is a look at a step and not at a run."""
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
    few = Finding(kind="few_rows", numbers=numbers, probability=0.95 if found else 1.0, parts=found)
    first, *rest = (*(_DO[part.kind] for part in found if part.kind in _DO), later)
    return Status("watch" if found else "unclear", few, first, tuple(rest))


def part_of_a_log(run: Run) -> Action | None:
    """To pass the whole log, of a few rows from the middle of one; None where they begin it."""
    steps = np.unique(np.concatenate([run.step, run.eval_step]))
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


_certain = partial(Finding.of, probability=0.95)


def _findings(run: Run) -> Iterator[Finding]:
    """Findings of the last values, the most urgent first."""
    if broken := [name for name in EVERY_ROW if run.not_finite(name)[-1:].any()]:
        yield _certain("not_finite", *broken)
    if (kl := _last(run, "kl")) > THRESHOLDS.high_kl:
        yield _certain("high_kl", now=kl)
    equal = _last(run, "frac_reward_zero_std")
    if _last(run, "grad_norm") == 0.0 and _last(run, "reward_std") > 0.0 and not equal >= THRESHOLDS.waste:
        yield _certain("zero_gradient")
    if _NOISE[0] < (entropy := _last(run, "entropy")) < _NOISE[1]:
        yield _certain("noise_written", now=entropy)
    if (cut := _last(run, "completions_clipped_ratio")) >= THRESHOLDS.half:
        yield _certain("truncated_step", share=cut, length=_last(run, "completion_length"))
    if equal >= THRESHOLDS.dead_groups or any(_last(run, name) == 0.0 for name in ("reward_std", "advantage_max")):
        spread = [plain(key, 60) for key in run.unused if key.lower().endswith(("/std", "_std"))]
        yield _certain("no_variance", *spread[:1], share=1.0)
    elif equal >= THRESHOLDS.waste:
        yield _certain("no_variance", share=equal)
    if _last(run, "reward") == 0.0:
        yield _certain("no_reward")
    for name in SAMPLER_SIGNALS:
        healthy = sampler_range(run, name)
        value = _last(run, name)
        if healthy is not None and (value < healthy.low or value > healthy.high):
            yield _certain("sampler_gap", name, now=value, low=healthy.low, high=healthy.high)


def late_findings(run: Run) -> tuple[Finding, ...]:
    """Findings of a few rows about the entropy, groups without variance and zero gradients, the most urgent first."""
    out = []
    entropy = _finite(run, "entropy")
    if len(entropy) > SINGLE_STEPS and 0.0 <= entropy[-1] < THRESHOLDS.spent * entropy[0]:
        out.append(_certain("signal_fell", "entropy", best=float(entropy[0]), now=float(entropy[-1])))
    equal = _finite(run, "frac_reward_zero_std")
    if len(equal) > SINGLE_STEPS and equal[-SINGLE_STEPS:].min() > THRESHOLDS.waste:
        out.append(_certain("no_variance", share=float(equal[-1])))
    varied = run.values("reward_std") > 0.0
    still = (run.values("grad_norm") == 0.0) & varied
    if len(run.step) > SINGLE_STEPS and still.sum() >= THRESHOLDS.half * varied.sum() > 0.0:
        out.append(_certain("zero_gradient", still=float(still.sum()), varied=float(varied.sum())))
    return tuple(out)


def _last(run: Run, name: str) -> float:
    """The last value of a column; NaN without one."""
    known = _finite(run, name)
    return float(known[-1]) if len(known) else np.nan


def _finite(run: Run, name: str) -> np.ndarray:
    """The finite values of a column, shape (n,)."""
    values = run.eval_reward if name == "eval_reward" else run.values(name)
    return values[np.isfinite(values)]
