"""Sentences of findings and actions: one template a kind. Called where a sentence is shown; nothing reads one.

A finding has two clauses, what was found and its detail, which a sentence joins by a colon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import Interval, percent
from bayes_grpo.common.text import StepName, amount

if TYPE_CHECKING:
    from bayes_grpo.diagnosis.records import Action, Finding
    from bayes_grpo.diagnosis.status import Status

LABELS: Mapping[str, str] = {
    "reward_hacking": "reward hacking",
    "advantage_degeneracy": "advantage degeneracy",
    "policy_concentration": "policy concentration",
    "dynamical_instability": "dynamical instability",
    "apparent_gain": "gain in formatting, not correctness",
    "engine_gap": "trainer-inference mismatch",
    "growing": "growing",
    "idle_steps": "steps without reward variance",
    "lost_gradient": "zero gradient norm despite reward variance",
    "lost_values": "NaN or infinite values",
    "one_sided_groups": "prompts too easy or too hard",
    "plateaued": "plateaued",
    "truncated_completions": "truncated completions",
    "form_without_task": "format without the task",
    "length_collapse": "shrinking completions",
}
"""Mode → its name in words."""
_SIGNALS: Mapping[str, str] = {
    "eval_reward": "the evaluation reward",
    "grad_norm": "the gradient norm",
    "kl": "the KL",
}
_CHECK_RESUME = "the optimizer state is loaded, the learning rate and the data order continue"


def label_of(name: str) -> str:
    """A mode in words."""
    return LABELS.get(name, name.replace("_", " "))


def signal_words(name: str) -> str:
    """A signal in a sentence, such as "the gradient norm"."""
    return _SIGNALS.get(name, f"the {name.replace('_', ' ')}")


def as_sentence(clause: str) -> str:
    """A clause with a capital and a full stop; "" of none."""
    return f"{clause[:1].upper()}{clause[1:]}." if clause else ""


def finding_clauses(f: Finding) -> tuple[str, str]:
    """A finding in words: what was found, and its detail or ""."""
    if f.kind in LABELS:
        return _mode(f)
    made = _FINDINGS[f.kind](f)
    return (made, "") if isinstance(made, str) else made


def action_clause(a: Action) -> str:
    """An action in words, without a full stop."""
    return _ACTIONS[a.kind](a)


def basis_of(status: Status) -> str:
    """What a status rests on, such as "the failure probabilities"."""
    kind = status.finding.kind
    planned = kind == "holding" and "planned" in status.finding.numbers
    basis = "the plan" if planned else _BASIS.get(kind, "the failure probabilities")
    return (
        basis + {"finding": "", "forecast": " and the forecast", "costs": " and the costs given"}[status.action.reason]
    )


def joined(clauses: Iterable[str]) -> str:
    """Clauses of one sentence."""
    return "; ".join(clauses)


def _at(record: Finding | Action) -> StepName:
    """Its step as the log counts it."""
    if record.at is not None:
        return record.at
    step = record.step
    if step is None:
        return StepName(math.nan)
    return StepName(round(step.median) if isinstance(step, Interval) else step)


def _since(f: Finding) -> str:
    """Onset of a finding, with its interval and the resume behind it."""
    text = ""
    if f.step is not None:
        at = _at(f)
        low, high = f"{f.step.low:.0f}", f"{f.step.high:.0f}"
        text = f" since about {at.first}{'' if low == high else f' [{low}, {high}]'}{at.other}"
    return text + "".join(f", after the resume at {_at(part)}" for part in f.parts if part.kind == "resumed")


def _mode(f: Finding) -> tuple[str, str]:
    """A mode under way, possible or over."""
    label = label_of(f.kind)
    if "episodes" in f.numbers:
        return _past_mode(f), f.severity
    if f.step is None:
        return f"{label} is possible, but less likely than not", ""
    return f"{label}{_since(f)}", f.severity


def _past_mode(f: Finding) -> str:
    """Earlier episodes of a mode: one, or several as a count."""
    assert f.step is not None
    first, end, label = f"{f.step.median:.0f}", f"{f.numbers['end']:.0f}", label_of(f.kind)
    if f.numbers["episodes"] > 1:
        span = f"between about step {first} and {end}"
        return f"{label} in {f.numbers['episodes']:.0f} episodes {span} (at most {percent(f.probability)})"
    return f"{label} from about step {first} to {end} ({percent(f.probability)})"


def _not_finite(f: Finding) -> str:
    since = "" if f.at is None else f" since about {f.at}"
    names = " and ".join(name.replace("_", " ") for name in f.signals)
    return f"{names} {'are' if len(f.signals) > 1 else 'is'} NaN{since}"


def _constant_reward(f: Finding) -> str:
    return f"the reward is {f.numbers['now']:.4g} in every row and in every group, so the gradient is zero"


def _stuck_reward(f: Finding) -> str:
    fell = f"{signal_words(f.signals[0])} fell to {f.numbers['now']:g} at {_at(f)} and stays there"
    return f"{fell}, while the evaluation reward is at {f.numbers['evaluation']:.2g}"


def _lost_reward(f: Finding) -> str:
    others = (part.clause for part in f.parts if part.kind in ("component_fell", "signal_grew"))
    return joined((_signal_fell(f) + _since(f), *others))


def _instability_signs(f: Finding) -> str:
    return joined(part.clause for part in f.parts) + _since(f)


def _fell(name: str, f: Finding) -> str:
    return f"{name} fell from {f.numbers['best']:.2g} to {f.numbers['now']:.2g}"


def fell_text(signal: str, best: float, now: float) -> str:
    """A fall in words, the same wherever it is named."""
    return f"{signal_words(signal)} fell from {best:.2g} to {now:.2g}"


def _signal_fell(f: Finding) -> str:
    return _fell(signal_words(f.signals[0]), f)


def _signal_grew(f: Finding) -> str:
    early, late = f.numbers["early"], f.numbers["late"]
    return f"{signal_words(f.signals[0])} grew {late / early:.2g}-fold, from {early:.2g} to {late:.2g}"


def _component_fell(f: Finding) -> str:
    n = f.numbers
    total = " while the total reward holds" if "total_holds" in n else ""
    if "total_now" in n:
        total = f", and the total with it, from {n['total_best']:.2g} to {n['total_now']:.2g}"
    kind = "environment" if "environment" in n else "component"
    return _fell(f"{kind} {f.signals[0]}", f) + total


def _train_rose(f: Finding) -> str:
    return f"the train reward rose from {f.numbers['train_start']:.2g} to {f.numbers['train_now']:.2g}"


def _evaluation_fell(f: Finding) -> str:
    if "train_now" in f.numbers:
        return f"{_signal_fell(f)} while {_train_rose(f)}"
    return joined((_signal_fell(f), *(part.clause for part in f.parts)))


def _evaluation_stays(f: Finding) -> str:
    return f"{_train_rose(f)} while {signal_words(f.signals[0])} stays at {f.numbers['now']:.2g}"


def _waste(f: Finding) -> str:
    if "waste" not in f.numbers:
        return ""
    return f"; {f.numbers['waste']:.0%} of the groups have zero reward variance"


def _solved(f: Finding) -> tuple[str, str]:
    return f"the evaluation reward is at {f.numbers['now']:.2g}", f"the task is solved{_waste(f)}"


def _mostly_solved(f: Finding) -> tuple[str, str]:
    return "mostly solved", f"the train reward is at {f.numbers['level']:.0%} of its range{_waste(f)}"


def _at_ceiling(f: Finding) -> str:
    level = f"{f.numbers['level']:.0%} of its range"
    return f"the train reward is at its ceiling ({level}); only an evaluation can show more"


def _ended(f: Finding) -> str:
    """The schedule is over; what the reward did."""
    n = f.numbers
    over = (
        f"the {n['planned']:g} planned steps are over"
        if f.at is None
        else f"the learning rate reached zero at {_at(f)}"
    )
    levels = f"from {n['start']:.3g} to {n['now']:.3g}"
    if f.kind == "ended":
        return f"{over}; the reward rose {levels}"
    return f"{over}; {_not_risen(f)} ({levels})"


def _not_risen(f: Finding) -> str:
    if f.numbers["now"] <= f.numbers["start"]:
        return "the reward has not risen"
    return "the reward has " + ("risen, but within one row's noise" if f.numbers["crept"] else "not clearly risen")


def _rising(f: Finding) -> str:
    return "the reward is rising; no failure detected"


def _risen(f: Finding) -> str:
    return f"the reward has risen from {f.numbers['start']:.3g} to {f.numbers['now']:.3g}; no failure detected"


def _holding(f: Finding) -> str:
    n = f.numbers
    planned = f" of {n['planned']:.0f} planned" if "planned" in n else ""
    return f"the reward holds at {n['now']:.3g} after {n['rewards']:.0f}{planned} rewards; no failure detected"


def _at_rest(f: Finding) -> str:
    return f"the reward has plateaued at {f.numbers['now']:.3g}"


def _flat(f: Finding) -> tuple[str, str]:
    return _not_risen(f), f"from {f.numbers['start']:.3g} to {f.numbers['now']:.3g}"


def _too_early(f: Finding) -> str:
    return "no failure detected; too early to tell whether the reward is rising"


def _constant_so_far(f: Finding) -> str:
    so_far = f"{signal_words(f.signals[0])} is {f.numbers['now']:.4g} in all {f.numbers['rewards']:.0f} rows so far"
    return f"{so_far}; too early to tell whether it stays there"


def _falls_early(f: Finding) -> str:
    n = f.numbers
    signs = (part.clause for part in f.parts)
    chance = f"{percent(n['lost'])} chance that it is lost, by {n['rewards']:.0f} rewards"
    fell = _signal_fell(f)
    if f.probability < 0.5:
        fell = f"{signal_words(f.signals[0])} may have fallen from {n['best']:.2g} to {n['now']:.2g}"
    return joined((fell, *signs, chance))


def _scheduled_weight(f: Finding) -> str:
    n = f.numbers
    return (
        f"only {f.signals[0]} falls, as a scheduled weight does ({n['best']:.2g} to {n['now']:.2g}), and takes "
        f"the total from {n['total_best']:.2g} to {n['total_now']:.2g}; the other components rest"
    )


def _swings(f: Finding) -> str:
    n = f.numbers
    times = f"{n['times']:.0f} times down and back"
    return f"{signal_words(f.signals[0])} swings between {n['low']:.2g} and {n['high']:.2g} ({times})"


def _few_rows(f: Finding) -> tuple[str, str]:
    rows = f.numbers["rows"]
    shows = "one row says" if rows == 1.0 else f"{rows:.0f} rows say"
    nothing = f"{shows} nothing of where the reward goes"
    for name in ("eval_reward", "reward"):
        if name in f.numbers:
            nothing = f"{signal_words(name)} is {f.numbers[name]:.3g}; {shows} nothing of where it goes"
    if not f.parts:
        return "too few rewards for a verdict", nothing
    return joined(part.clause for part in f.parts), nothing


def _truncated_step(f: Finding) -> str:
    share = f.numbers["share"]
    which = "all completions" if share >= 0.95 else f"{share:.0%} of the completions"
    at = f" (mean length {f.numbers['length']:.0f} tokens)" if "length" in f.numbers else ""
    return f"{which} of this step hit the length limit{at}"


def _near_limit(f: Finding) -> str:
    lengths = f"the mean length is {f.numbers['length']:.0f} of at most {f.numbers['longest']:.0f} tokens"
    return f"{lengths}, so a length limit probably cuts most completions"


def _negative_kl(f: Finding) -> str:
    return (
        f"the KL is below 0 on average ({f.numbers['mean']:.2g} over {f.numbers['rows']:.0f} rows), which no KL is. "
        f"Its estimate averages log-ratios of tokens that the policy did not sample, or masks them wrongly"
    )


def _no_variance(f: Finding) -> str:
    text = "every group of this step has equal rewards (zero variance), so this step has no gradient"
    return text + "".join(f" ({key} is a spread over prompts, not within a group)" for key in f.signals)


def _few_weights(f: Finding) -> str:
    return f"only {f.numbers['share']:.0%} of the batch counts by its importance weights"


def _dip(f: Finding) -> str:
    n = f.numbers
    resumes = "".join(f", after the resume at {_at(part)}," for part in f.parts)
    back = f"and came back by step {n['back']:g}" if "back" in n else "in one row"
    return f"the reward {'fell' if n['low'] < n['usual'] else 'rose'} to {n['low']:.2g} at {_at(f)}{resumes} {back}"


def _jump(f: Finding) -> str:
    resumes = "".join(f", after the resume at {_at(part)}" for part in f.parts)
    return f"the reward jumped from {f.numbers['before']:.2g} to {f.numbers['after']:.2g} at {_at(f)}{resumes}"


def _resumed(f: Finding) -> str:
    return f"the training was resumed at {_at(f)}"


def _signal_changed(f: Finding) -> str:
    name = f"the {f.signals[0].replace('_', ' ')}"
    return f"{name} went from {f.numbers['before']:.2g} to {f.numbers['after']:.2g}"


_ZERO = {
    "loss": ("centered advantages average to 0", "the ratios stay near 1"),
    "clip_ratio": ("every ratio is 1", "no ratio leaves the clip range"),
}
"""Why each reads as 0 with one update a rollout, and with several."""


def _reads_zero(f: Finding) -> str:
    """Whether a loss or clip ratio that reads as 0 is normal."""
    n = f.numbers
    shown = " and ".join(
        f"the {name.replace('_', ' ')} is 0 in {n[name]:.0f} of {n[f'{name}_rows']:.0f} rows" for name in f.signals
    )
    whys = [_ZERO[name] for name in f.signals]
    if "idle" in n:
        return f"{shown}: most rows have no group with reward variance, so their gradient is 0 too"
    if "updates" in n:
        return f"{shown}. With {n['updates']:g} updates a rollout that means small updates: {whys[0][1]}"
    why = f"{shown}. That is normal with one update a rollout: {' and '.join(one for one, _ in whys)}"
    if "grad_norm" not in n:
        return f"{why}. Log the gradient norm: it should be above 0"
    if n["grad_norm_most"] <= 0.0:
        return f"{shown}, and so is the gradient norm in every row: nothing is learned"
    return f"{why}. The gradient norm is not 0 (median {n['grad_norm']:.2g})"


_FINDINGS: Mapping[str, Callable[[Finding], str | tuple[str, str]]] = {
    "not_finite": _not_finite,
    "constant_reward": _constant_reward,
    "stuck_reward": _stuck_reward,
    "lost_reward": _lost_reward,
    "instability_signs": _instability_signs,
    "signal_fell": _signal_fell,
    "signal_grew": _signal_grew,
    "component_fell": _component_fell,
    "evaluation_fell": _evaluation_fell,
    "evaluation_stays": _evaluation_stays,
    "solved": _solved,
    "mostly_solved": _mostly_solved,
    "at_ceiling": _at_ceiling,
    "ended": _ended,
    "ended_flat": _ended,
    "rising": _rising,
    "risen": _risen,
    "holding": _holding,
    "at_rest": _at_rest,
    "flat": _flat,
    "too_early": _too_early,
    "constant_so_far": _constant_so_far,
    "scheduled_weight": _scheduled_weight,
    "swings": _swings,
    "falls_early": _falls_early,
    "few_rows": _few_rows,
    "truncated_step": _truncated_step,
    "near_limit": _near_limit,
    "no_variance": _no_variance,
    "zero_gradient": lambda f: "the gradient norm of this step is 0 although its groups have reward variance",
    "no_reward": lambda f: "every reward of this step is 0",
    "few_weights": _few_weights,
    "dip": _dip,
    "jump": _jump,
    "resumed": _resumed,
    "signal_changed": _signal_changed,
    "reads_zero": _reads_zero,
    "negative_kl": _negative_kl,
}
"""Kind that is no mode → its template."""
_MEANS = "the drawn paths of the reward"
_BASIS: Mapping[str, str] = {
    **dict.fromkeys(("lost_reward", "falls_early", "swings", "rising", "risen", "holding", "flat"), _MEANS),
    **dict.fromkeys(("constant_reward", "stuck_reward"), "the reward's rows"),
    **dict.fromkeys(("mostly_solved", "at_ceiling"), "the reward's level"),
    **dict.fromkeys(("ended", "ended_flat"), "the schedule and the reward"),
    **dict.fromkeys(("evaluation_fell", "evaluation_stays"), "train and evaluation reward"),
    **dict.fromkeys(("too_early", "constant_so_far"), "the number of rows"),
    "not_finite": "the logged values",
    "instability_signs": "the logged signals",
    **dict.fromkeys(("component_fell", "scheduled_weight"), "the reward components"),
    "solved": "the evaluation reward",
    "at_rest": "the reward",
    "few_rows": "the number of rewards",
}
"""Kind → what a status with such a finding rests on, where that is not the failure probabilities."""


def _go_on(a: Action) -> str:
    n = a.numbers
    if a.reason == "costs":
        return f"go on to step {a.step:g}: {percent(n['pays'])} chance that going on pays"
    return f"go on: {_gain(a)}" if a.reason == "forecast" else "go on"


def _gain(a: Action) -> str:
    n = a.numbers
    return f"{percent(n['p_gain'])} chance of a gain above {n['threshold']:.2g} by step {n['until']:g}"


def _no_further_gain(a: Action) -> str:
    return f"no further gain expected: {_gain(a)}"


def _look_again(a: Action) -> str:
    if "planned_rewards" in a.numbers:
        few = f"{a.numbers['planned_rewards']:.0f} rewards, too few to judge"
        more = "plan more steps" if a.subject == "steps" else "log more often"
        return f"go on, and {more}: at its planned end the log has {few}"
    return f"go on, and {_wait(a)}"


def _wait(a: Action) -> str:
    return f"check again when the log has {a.numbers['rewards']:.0f} rewards"


def _watch(a: Action) -> str:
    if "rewards" in a.numbers:
        return f"{_wait(a)}; if it still falls, stop and lower the learning rate"
    return "check again after 10% more steps; if it persists, stop and lower the learning rate"


def _plan_more_steps(a: Action) -> str:
    also = "" if a.subject == "steps" else ", or log more often"
    return f"plan more steps{also}: {a.numbers['rewards']:.0f} rewards are too few for a verdict"


def _stop(a: Action) -> str:
    if a.reason == "costs":
        return f"stop: no later step is expected to pay; {percent(a.numbers['pays'])} chance that going on pays"
    return "stop here if this reward level is enough"


def _fallen(a: Action, there: str) -> str:
    n = a.numbers
    worth = f"{there} is worth {amount(n['net'])} more than the present one"
    return f"the reward has fallen by {n['gain']:.2g} since, and {worth}"


def _go_back(a: Action) -> str:
    if a.reason == "costs":
        return f"stop, and go back to the checkpoint of about step {a.step:.0f}: {_fallen(a, 'that checkpoint')}"
    score = "train reward" if a.subject == "reward" else "evaluation reward"
    return f"stop, and go back to the checkpoint of about {_at(a)}, the best by {score}"


def _start_over(a: Action) -> str:
    if a.reason == "costs":
        return f"stop, and start over: {_fallen(a, 'the policy that it began with')}"
    why = "by the evaluation reward, no checkpoint is worth going back to"
    return f"stop, and start over with a corrected reward: {why}"


def _take_checkpoint(a: Action) -> str:
    if a.reason == "costs":
        pays = f"{percent(a.numbers['pays'])} chance that going on pays"
        return f"stop: {pays}; take the checkpoint of step {a.step:g}"
    return f"stop, and take the checkpoint with the best evaluation reward (about {_at(a)})"


def _compare_resume(a: Action) -> str:
    changes = ", ".join(part.clause for part in a.parts)
    seen = f" (here {changes})" if changes else ""
    return f"stop, and compare both sides of the resume at {_at(a)}: {_CHECK_RESUME}{seen}"


def _always(clause: str) -> Callable[[Action], str]:
    return lambda a: clause


_LOOK: Mapping[str, str] = {
    "batch": (
        "check the batch that caused it: an empty completion, a division by a zero standard deviation, the log of 0"
    ),
    "verifier": "test the verifier by hand on a right and a wrong answer: format, time limits, exceptions",
    "completions": "read 20 high-reward completions of the last steps",
    "last_completions": "read the completions of the last steps",
    "prompts": "read completions of training and evaluation prompts, and compare how both are scored",
    "engine": (
        "use the same precision in trainer and inference engine, sync weights each step, correct by truncated "
        "importance sampling, and replay the routing of experts"
    ),
    "component": "check the falling component: its prompts, its verifier, its weight",
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


def _change_setting(a: Action) -> str:
    return _SETTINGS[a.setting](a)


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


_SETTINGS: Mapping[str, Callable[[Action], str]] = {
    "learning_rate": _rate,
    "group_size": _groups,
    "prompts_per_step": lambda a: (
        f"use more prompts per step if noise hides the rise (noise of one row: {a.numbers['noise']:.2g})"
    ),
    "max_completion_length": _limit,
    "staleness": _always("train on fresher samples: fewer updates between sampling and training"),
    "entropy": _always("raise the upper clip range or the sampling temperature, or add an entropy bonus"),
    "kl_weight": _always("raise the weight of the KL term, or stop at a KL budget"),
}


def _log_signal(a: Action) -> str:
    if a.key:
        return f"name the column with --column {a.subject}={a.key} if it is the right one"
    return _LOG[a.subject]


_ACTIONS: Mapping[str, Callable[[Action], str]] = {
    "go_on": _go_on,
    "look_again": _look_again,
    "wait": _wait,
    "watch": _watch,
    "plan_more_steps": _plan_more_steps,
    "no_further_gain": _no_further_gain,
    "stop": _stop,
    "go_back": _go_back,
    "start_over": _start_over,
    "take_checkpoint": _take_checkpoint,
    "score_checkpoints": _always("stop, and score the kept checkpoints on evaluation prompts to choose one"),
    "compare_checkpoints": _always("stop, and score the checkpoints before and after the onset on evaluation prompts"),
    "compare_resume": _compare_resume,
    "restart": _always(
        "stop; restart from an earlier checkpoint in bfloat16 or float32 with clipped gradients: weights that have "
        "seen a NaN cannot be recovered"
    ),
    "new_run": _always("stop; the next run needs more steps, other prompts or another learning rate"),
    "look": lambda a: _LOOK[a.subject],
    "check_update": _always(
        "upgrade DeepSpeed (0.15.4 reports 0), and check that weights change: are adapters frozen, does gradient "
        "checkpointing lack input gradients, is the loss scale 0?"
    ),
    "change_setting": _change_setting,
    "change_prompts": lambda a: _PROMPTS[a.subject],
    "log_signal": _log_signal,
    "judge_by_task": _always("judge the run by the task's own score, and lower the weight of the format reward"),
}
"""Kind → its template."""
