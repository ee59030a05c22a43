"""Sentences of actions: one table from kind to template, by what an action names or follows from where that matters.

Called where a sentence is shown; nothing reads one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.intervals import percent
from bayes_grpo.common.text import amount
from bayes_grpo.diagnosis.wording import step_name
from bayes_grpo.signals.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from bayes_grpo.diagnosis.records import Action

_OF_A_RUN = ("change_setting", "change_prompts", "log_signal")
"""Kinds that only a run can follow which goes on, or the next one."""


def action_clause(a: Action) -> str:
    """An action in words, without a full stop."""
    names = (f"{a.kind} {x}" for x in (a.reason, a.setting or a.subject))
    template = next((_ACTIONS[x] for x in names if x in _ACTIONS), None) or _ACTIONS[a.kind]
    clause = template.format(**_fields(a)) if isinstance(template, str) else template(a)
    named = a.kind == "log_signal" and a.key  # a column that the log already has
    return f"in the next run, {clause}" if a.ended and a.kind in _OF_A_RUN and not named else clause


def _fields(a: Action) -> dict[str, Any]:
    """Fields of a template: the numbers, the checkpoint or resume, the chance that going on pays."""
    n = a.numbers
    fields = {
        "step": a.step,
        "stop": "" if a.ended else "stop, and ",
        "at": step_name(a.at, a.step),
        "score": "train reward" if a.subject == "reward" else "evaluation reward",
    }
    if "p_gain" in n:
        gain = f"{percent(n['p_gain'])} chance of a gain above {n['threshold']:.2g} by step {n['until']:g}"
        fields["gain"] = gain
    if "pays" in n:
        fields["pays"] = f"{percent(n['pays'])} chance"
    if "net" in n:
        fields["fallen"] = f"the reward has fallen by {n['gain']:.2g} since, and"
        fields["worth"] = f"is worth {amount(n['net'])} more than the present one"
    return {**n, **fields}


_WAIT = "check again when the log has {rewards:.0f} rewards"


def _no_gain(a: Action) -> str:
    what = "choose a checkpoint" if a.ended else "take this reward level, or change what limits it"
    return f"{what}; no further gain is expected: {_fields(a)['gain']}"


def _watch(a: Action) -> str:
    when = "check again after 10% more steps; if it persists"
    if "rewards" in a.numbers:
        when = f"{_WAIT.format(**a.numbers)}; if it still falls"
    return f"{when}, stop and lower the learning rate"


def _plan_more_steps(a: Action) -> str:
    also = "" if a.subject == "steps" else ", or log more often"
    rewards = a.numbers["rewards"]
    little = f": {rewards:.0f} rewards show little of a training" if rewards < THRESHOLDS.waste_rows else ""
    return f"plan more steps{also}{little}"


def _compare_resume(a: Action) -> str:
    check = "the optimizer state is loaded, the learning rate and the data order continue"
    changes = ", ".join(part.clause for part in a.parts)
    here = f" (here {changes})" if changes else ""
    return f"{{stop}}compare both sides of the resume at {{at}}: {check}".format(**_fields(a)) + here


def _rate(a: Action) -> str:
    """Another learning rate."""
    n = a.numbers
    assert a.factor is not None
    rate = f"the learning rate to {a.factor:g} times its value"
    if "learning_rate" in n:
        rate = f"the learning rate from {n['learning_rate']:.3g} to {a.factor * n['learning_rate']:.3g}"
    return f"lower {rate}" if a.factor < 1.0 else f"raise {rate}, and watch the KL"


def _groups(a: Action) -> str:
    than = f" than {a.numbers['group_size']:g}" if "group_size" in a.numbers else ""
    return f"use larger groups{than}, or resample prompts until groups have nonzero variance"


def _limit(a: Action) -> str:
    pays = "; some truncated completions earn reward, so check the scoring" if a.numbers.get("truncated_pays") else ""
    return f"raise the completion length limit, or ask for shorter completions{pays}"


_LOG_SIGNAL = {"heldout": "log an evaluation reward every 10 to 20 steps", "kl": "log the KL to the reference"}


def _log_signal(a: Action) -> str:
    if a.key:
        return f"name the column with --column {a.subject}={a.key} if it is the right one"
    return _LOG_SIGNAL[a.subject]


_TOO_FEW = ": at its planned end the log has {rewards:.0f} rewards, too few to judge"
_ACTIONS: Mapping[str, str | Callable[[Action], str]] = {
    "go_on": "go on",
    "go_on forecast": "go on: {gain}",
    "go_on costs": "go on to step {step:g}: {pays} that going on pays",
    "go_on_if_cheap": "go on only if its steps are cheap: {gain}",
    "go_on_for_rare_gain": (
        "go on to step {step:g} only for a rare large gain: it pays on average, and with {pays} alone"
    ),
    "look_again": "go on, and " + _WAIT,
    "log_more steps": "go on, and plan more steps" + _TOO_FEW,
    "log_more": "go on, and log more often" + _TOO_FEW,
    "wait": _WAIT,
    "pass_training": "pass the rows of the training too, with their reward, or wait for them",
    "pass_whole_log": "pass the whole log: these rows begin at step {first:g}",
    "watch": _watch,
    "plan_more_steps": _plan_more_steps,
    "no_further_gain": _no_gain,
    "stop": "stop here if this reward level is enough",
    "stop costs": "stop: going on is not expected to pay ({pays})",
    "go_back": "{stop}go back to the checkpoint of about {at}, the best by {score}",
    "go_back costs": "stop, and go back to the checkpoint of about step {step:.0f}: {fallen} that checkpoint {worth}",
    "start_over": (
        "{stop}start over with a corrected reward: by the evaluation reward, no checkpoint is worth going back to"
    ),
    "start_over costs": "stop, and start over: {fallen} the policy that it began with {worth}",
    "take_checkpoint": "{stop}take the checkpoint with the best evaluation reward (about {at})",
    "take_checkpoint costs": "stop: {pays} that going on pays; take the checkpoint of step {step:g}",
    "score_checkpoints": "{stop}score the kept checkpoints on evaluation prompts to choose one",
    "compare_checkpoints": "{stop}score the checkpoints before and after the onset on evaluation prompts",
    "compare_resume": _compare_resume,
    "restart": (
        "stop; restart from an earlier checkpoint in bfloat16 or float32 with clipped gradients: weights that have "
        "seen a NaN cannot be recovered"
    ),
    "new_run": "plan a next run with more steps, other prompts or another learning rate",
    "look batch": (
        "check the batch that caused it: an empty completion, a division by a zero standard deviation, the log of 0"
    ),
    "look verifier": "test the verifier by hand on a right and a wrong answer: format, time limits, exceptions",
    "look scorer": "check the scorer: score answers of different quality by hand, and see whether they differ",
    "look completions": "read 20 high-reward completions of the last steps",
    "look": "read the completions of the last steps",
    "look weights": (
        "read the completions; if they are noise, check the weights, adapters and tokenizer that are loaded"
    ),
    "look prompts": "read completions of training and evaluation prompts, and compare how both are scored",
    "look engine": (
        "use the same precision in trainer and inference engine, sync weights each step, correct by truncated "
        "importance sampling, and replay the routing of experts"
    ),
    "look component": "check the falling component: its prompts, its verifier, its weight",
    "check_update": (
        "upgrade DeepSpeed (0.15.4 reports 0), and check that weights change: whether adapters are frozen, gradient "
        "checkpointing lacks input gradients, or the loss scale is 0"
    ),
    "check_update evaluation": (
        "check that weights change, and that the evaluated policy is the trained one: its adapters, its checkpoint, "
        "the weights in the inference engine"
    ),
    "change_setting learning_rate": _rate,
    "change_setting group_size": _groups,
    "change_setting prompts_per_step": (
        "use more prompts per step if noise hides the rise (noise of one row: {noise:.2g})"
    ),
    "change_setting max_completion_length": _limit,
    "change_setting staleness": "train on fresher samples: fewer updates between sampling and training",
    "change_setting entropy": "raise the upper clip range or the sampling temperature, or add an entropy bonus",
    "change_setting kl_weight": "raise the weight of the KL term, or stop at a KL budget",
    "change_prompts easier": "start with easier prompts, partial credit, or supervised fine-tuning",
    "change_prompts harder": "use harder prompts, or drop those that are always solved",
    "change_prompts mixed": ("sample prompts with success rates of 20% to 80%, so that groups have nonzero variance"),
    "log_signal": _log_signal,
    "judge_by_task": "judge the run by the task's own score, and lower the weight of the format reward",
}
"""Kind, or kind with its reason, setting or subject → template over `_fields`, or a function of the action."""
