"""Sentences of actions, a template over the fields of `_fields` or a function of the action for each kind.

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

Template = str | Callable[["Action"], str]


_OF_A_RUN = ("change_setting", "change_prompts", "log_signal")
"""Kinds that only a run can follow which goes on, or the next one."""


def action_clause(a: Action) -> str:
    """An action in words, without a full stop."""
    clause = _filled(_ACTIONS[a.kind], a)
    named = a.kind == "log_signal" and a.key  # a column that the log already has
    return f"in the next run, {clause}" if a.ended and a.kind in _OF_A_RUN and not named else clause


def _filled(template: Template, a: Action) -> str:
    return template.format(**_fields(a)) if isinstance(template, str) else template(a)


def _stop_first(a: Action) -> str:
    """Prefix of an action that needs the training stopped, unless it has ended."""
    return "" if a.ended else "stop, and "


def _fields(a: Action) -> dict[str, Any]:
    """Fields of a template: the numbers, the checkpoint or resume, the chance that going on pays."""
    n = a.numbers
    gain = ""
    if "p_gain" in n:
        gain = f"{percent(n['p_gain'])} chance of a gain above {n['threshold']:.2g} by step {n['until']:g}"
    return dict(n) | {
        "step": a.step,
        "stop": _stop_first(a),
        "at": step_name(a),
        "gain": gain,
        "pays": percent(n["pays"]) if "pays" in n else "",
        "score": "train reward" if a.subject == "reward" else "evaluation reward",
    }


_WAIT = "check again when the log has {rewards:.0f} rewards"
_PAYS = "{pays} chance that going on pays"


def _go_on(a: Action) -> str:
    template = {"costs": "go on to step {step:g}: " + _PAYS, "forecast": "go on: {gain}", "finding": "go on"}
    return _filled(template[a.reason], a)


def _no_gain(a: Action) -> str:
    what = "choose a checkpoint" if a.ended else "take this reward level, or change what limits it"
    return _filled(f"{what}; no further gain is expected: {{gain}}", a)


def _log_more(a: Action) -> str:
    more = "plan more steps" if a.subject == "steps" else "log more often"
    return _filled(f"go on, and {more}: at its planned end the log has {{rewards:.0f}} rewards, too few to judge", a)


def _watch(a: Action) -> str:
    if "rewards" in a.numbers:
        return _filled(_WAIT + "; if it still falls, stop and lower the learning rate", a)
    return "check again after 10% more steps; if it persists, stop and lower the learning rate"


def _plan_more_steps(a: Action) -> str:
    also = "" if a.subject == "steps" else ", or log more often"
    little = ": {rewards:.0f} rewards show little of a training" if a.numbers["rewards"] < THRESHOLDS.waste_rows else ""
    return _filled(f"plan more steps{also}{little}", a)


def _stop(a: Action) -> str:
    if a.reason == "costs":
        return _filled("stop: going on is not expected to pay ({pays} chance)", a)
    return "stop here if this reward level is enough"


def _fallen(a: Action, there: str) -> str:
    n = a.numbers
    worth = f"{there} is worth {amount(n['net'])} more than the present one"
    return f"the reward has fallen by {n['gain']:.2g} since, and {worth}"


def _go_back(a: Action) -> str:
    if a.reason == "costs":
        return f"stop, and go back to the checkpoint of about step {a.step:.0f}: {_fallen(a, 'that checkpoint')}"
    return _filled("{stop}go back to the checkpoint of about {at}, the best by {score}", a)


def _start_over(a: Action) -> str:
    if a.reason == "costs":
        return f"stop, and start over: {_fallen(a, 'the policy that it began with')}"
    why = "by the evaluation reward, no checkpoint is worth going back to"
    return _filled(f"{{stop}}start over with a corrected reward: {why}", a)


def _take_checkpoint(a: Action) -> str:
    if a.reason == "costs":
        return _filled("stop: " + _PAYS + "; take the checkpoint of step {step:g}", a)
    return _filled("{stop}take the checkpoint with the best evaluation reward (about {at})", a)


def _compare_resume(a: Action) -> str:
    check = "the optimizer state is loaded, the learning rate and the data order continue"
    changes = ", ".join(part.clause for part in a.parts)
    seen = f" (here {changes})" if changes else ""
    return f"{_stop_first(a)}compare both sides of the resume at {step_name(a)}: {check}{seen}"


_LOOK: Mapping[str, str] = {
    "batch": (
        "check the batch that caused it: an empty completion, a division by a zero standard deviation, the log of 0"
    ),
    "verifier": "test the verifier by hand on a right and a wrong answer: format, time limits, exceptions",
    "scorer": "check the scorer: score answers of different quality by hand, and see whether they differ",
    "completions": "read 20 high-reward completions of the last steps",
    "last_completions": "read the completions of the last steps",
    "weights": "read the completions; if they are noise, check the weights, adapters and tokenizer that are loaded",
    "prompts": "read completions of training and evaluation prompts, and compare how both are scored",
    "engine": (
        "use the same precision in trainer and inference engine, sync weights each step, correct by truncated "
        "importance sampling, and replay the routing of experts"
    ),
    "component": "check the falling component: its prompts, its verifier, its weight",
}
_UPDATE: Mapping[str, str] = {
    "": (
        "upgrade DeepSpeed (0.15.4 reports 0), and check that weights change: whether adapters are frozen, gradient "
        "checkpointing lacks input gradients, or the loss scale is 0"
    ),
    "evaluation": (
        "check that weights change, and that the evaluated policy is the trained one: its adapters, its checkpoint, "
        "the weights in the inference engine"
    ),
}
_PROMPTS: Mapping[str, str] = {
    "easier": "start with easier prompts, partial credit, or supervised fine-tuning",
    "harder": "use harder prompts, or drop those that are always solved",
    "mixed": "sample prompts with success rates of 20% to 80%, so that groups have nonzero variance",
}
_LOG: Mapping[str, str] = {
    "heldout": "log an evaluation reward every 10 to 20 steps",
    "kl": "log the KL to the reference",
}


def _rate(a: Action) -> str:
    """Another learning rate."""
    n = a.numbers
    assert a.factor is not None
    rate = f"the learning rate to {a.factor:g} times its value"
    if "learning_rate" in n:
        rate = f"the learning rate from {n['learning_rate']:.3g} to {a.factor * n['learning_rate']:.3g}"
    if a.factor < 1.0:
        return f"lower {rate}"
    return f"raise {rate}, and watch the KL"


def _groups(a: Action) -> str:
    than = f" than {a.numbers['group_size']:g}" if "group_size" in a.numbers else ""
    return f"use larger groups{than}, or resample prompts until groups have nonzero variance"


def _limit(a: Action) -> str:
    pays = "; some truncated completions earn reward, so check the scoring" if a.numbers.get("truncated_pays") else ""
    return f"raise the completion length limit, or ask for shorter completions{pays}"


_SETTINGS: Mapping[str, Template] = {
    "learning_rate": _rate,
    "group_size": _groups,
    "prompts_per_step": "use more prompts per step if noise hides the rise (noise of one row: {noise:.2g})",
    "max_completion_length": _limit,
    "staleness": "train on fresher samples: fewer updates between sampling and training",
    "entropy": "raise the upper clip range or the sampling temperature, or add an entropy bonus",
    "kl_weight": "raise the weight of the KL term, or stop at a KL budget",
}


def _log_signal(a: Action) -> str:
    if a.key:
        return f"name the column with --column {a.subject}={a.key} if it is the right one"
    return _LOG[a.subject]


_ACTIONS: Mapping[str, Template] = {
    "go_on": _go_on,
    "go_on_if_cheap": "go on only if its steps are cheap: {gain}",
    "go_on_for_rare_gain": (
        "go on to step {step:g} only for a rare large gain: it pays on average, and with {pays} chance alone"
    ),
    "look_again": "go on, and " + _WAIT,
    "log_more": _log_more,
    "wait": _WAIT,
    "pass_training": "pass the rows of the training too, with their reward, or wait for them",
    "pass_whole_log": "pass the whole log: these rows begin at step {first:g}",
    "watch": _watch,
    "plan_more_steps": _plan_more_steps,
    "no_further_gain": _no_gain,
    "stop": _stop,
    "go_back": _go_back,
    "start_over": _start_over,
    "take_checkpoint": _take_checkpoint,
    "score_checkpoints": "{stop}score the kept checkpoints on evaluation prompts to choose one",
    "compare_checkpoints": "{stop}score the checkpoints before and after the onset on evaluation prompts",
    "compare_resume": _compare_resume,
    "restart": (
        "stop; restart from an earlier checkpoint in bfloat16 or float32 with clipped gradients: weights that have "
        "seen a NaN cannot be recovered"
    ),
    "new_run": "plan a next run with more steps, other prompts or another learning rate",
    "look": lambda a: _LOOK[a.subject],
    "check_update": lambda a: _UPDATE[a.subject],
    "change_setting": lambda a: _filled(_SETTINGS[a.setting], a),
    "change_prompts": lambda a: _PROMPTS[a.subject],
    "log_signal": _log_signal,
    "judge_by_task": "judge the run by the task's own score, and lower the weight of the format reward",
}
"""Kind → its template."""
