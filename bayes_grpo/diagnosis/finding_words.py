"""Sentences of findings: one template a kind. A finding has two clauses, what was found and its detail.

Called where a sentence is shown, which joins the two by a colon; nothing reads one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bayes_grpo.common.intervals import percent
from bayes_grpo.common.text import amount
from bayes_grpo.diagnosis.wording import LABELS, joined, label_of, signal_words, step_name
from bayes_grpo.signals.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from bayes_grpo.diagnosis.records import Finding


def finding_clauses(f: Finding) -> tuple[str, str]:
    """A finding in words: what was found, and its detail or ""."""
    if f.kind in LABELS:
        return _mode(f)
    made = _FINDINGS[f.kind](f)
    return (made, "") if isinstance(made, str) else made


def _since(f: Finding) -> str:
    """Onset of a finding, with its interval and the resume behind it."""
    text = ""
    if f.step is not None:
        at = step_name(f)
        low, high = f"{f.step.low:.0f}", f"{f.step.high:.0f}"
        text = f" since about {at.first}{'' if low == high else f' [{low}, {high}]'}{at.other}"
    return text + "".join(f", after the resume at {step_name(part)}" for part in f.parts if part.kind == "resumed")


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
    first = f"{f.step.median:.0f}"
    end = f"{f.numbers['end']:.0f}"
    label = label_of(f.kind)
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
    fell = f"{signal_words(f.signals[0])} fell to {f.numbers['now']:g} at {step_name(f)} and stays there"
    return f"{fell}, while the evaluation reward is at {f.numbers['evaluation']:.2g}"


def _lost_reward(f: Finding) -> str:
    others = (part.clause for part in f.parts if part.kind in ("component_fell", "signal_grew"))
    return joined((_signal_fell(f) + _since(f), *others))


def _instability_signs(f: Finding) -> str:
    return joined(part.clause for part in f.parts) + _since(f)


def _fell(name: str, f: Finding) -> str:
    return f"{name} fell from {f.numbers['best']:.2g} to {f.numbers['now']:.2g}"


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
    if f.at is not None:
        over = f"the learning rate reached zero at {step_name(f)}"
    elif "planned" in n:
        over = f"the {n['planned']:g} planned steps are over"
    else:
        over = f"the learning rate is at {100.0 * n['rate_left']:.2g}% of its peak"
    levels = f"from {n['start']:.3g} to {n['now']:.3g}"
    if f.kind == "ended":
        return f"{over}; the reward rose {levels}"
    return f"{over}; {_not_risen(f)} ({levels})"


def _not_risen(f: Finding) -> str:
    if f.numbers["now"] <= f.numbers["start"]:
        return "the reward has not risen"
    if f.numbers["probably"]:
        return "the reward has probably risen"
    return "the reward has " + ("risen, perhaps only slightly" if f.numbers["crept"] else "not clearly risen")


def _rising(f: Finding) -> str:
    rises = "is rising" if f.probability >= 1.0 - THRESHOLDS.suspect else "is probably rising"
    return f"the reward {rises}; no failure detected"


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


def _ends_low(f: Finding) -> str:
    n = f.numbers
    levels = f"from {n['first']:.2g} to {n['last']:.2g} in {n['rewards']:.0f} rows (best {n['most']:.2g})"
    return joined((f"the reward went {levels}", *(part.clause for part in f.parts)))


def _slipped(f: Finding) -> str:
    n = f.numbers
    return f"no failure detected, but the reward lies below its start: {n['start']:.3g}, now {n['now']:.3g}"


def _noise_hides(f: Finding) -> str:
    n = f.numbers
    change = f"{n['change']:.2g} [{n['low']:.2g}, {n['high']:.2g}]"
    return f"no failure detected; noise hides whether the reward rises (change {change} in {n['rewards']:.0f} rows)"


def _constant_so_far(f: Finding) -> str:
    rows = f"{signal_words(f.signals[0])} is {f.numbers['now']:.4g} in all {f.numbers['rewards']:.0f} rows"
    if f.numbers["unmeasured"]:
        return f"{rows}, whatever the policy answers"
    return f"{rows} so far; too early to tell whether it stays there"


def _falls_early(f: Finding) -> str:
    n = f.numbers
    signs = (part.clause for part in f.parts)
    chance = f"{percent(n['lost'])} chance that it is lost, by {n['rewards']:.0f} rewards"
    fell = _signal_fell(f)
    if f.probability < THRESHOLDS.probable:
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
    rounded = f"{share:.0%}"
    which = "all completions" if rounded == f"{1:.0%}" else f"{rounded} of the completions"
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
    if (share := f.numbers["share"]) < 1.0:
        return f"{share:.0%} of the groups of this step have equal rewards (zero variance), and give no gradient"
    text = "every group of this step has equal rewards (zero variance), so this step has no gradient"
    return text + "".join(f" ({key} is a spread over prompts, not within a group)" for key in f.signals)


def _few_weights(f: Finding) -> str:
    return f"only {f.numbers['share']:.0%} of the batch counts by its importance weights"


_GAPS = {
    "engine_mismatch": "the mismatch of sampler and trainer",
    "importance_ratio": "the mean importance weight of trainer to sampler",
}


def _sampler_gap(f: Finding) -> str:
    n = f.numbers
    return f"{_GAPS[f.signals[0]]} is {n['now']:.2g} (healthy: {n['low']:g} to {n['high']:g})"


def _dip(f: Finding) -> str:
    n = f.numbers
    resumes = "".join(f", after the resume at {step_name(part)}," for part in f.parts)
    back = f"and came back by step {n['back']:g}" if "back" in n else "in one row"
    return (
        f"the reward {'fell' if n['low'] < n['usual'] else 'rose'} to {n['low']:.2g} at {step_name(f)}{resumes} {back}"
    )


def _jump(f: Finding) -> str:
    resumes = "".join(f", after the resume at {step_name(part)}" for part in f.parts)
    return f"the reward jumped from {f.numbers['before']:.2g} to {f.numbers['after']:.2g} at {step_name(f)}{resumes}"


def _resumed(f: Finding) -> str:
    return f"the training was resumed at {step_name(f)}"


def _signal_changed(f: Finding) -> str:
    name = f"the {f.signals[0].replace('_', ' ')}"
    return f"{name} went from {f.numbers['before']:.2g} to {f.numbers['after']:.2g}"


def _freshness(f: Finding) -> str:
    n, out = f.numbers, []
    if "stale" in n:
        age = f"{n['stale']:.2g} updates after they were sampled (at most {n['stale_most']:.2g})"
        out.append(f"completions are trained on {age}")
    if "dropped" in n:
        what = f.signals[0] if f.signals != ("unknown",) else "groups or completions"
        out.append(f"{n['dropped']:.2g} {what} a step are thrown away, too old or failed")
    return joined(out)


_ZERO = {
    "loss": ("centered advantages average to 0", "the ratios stay near 1"),
    "clip_ratio": ("every ratio is 1", "no ratio leaves the clip range"),
}
"""Why each reads as 0 with one update a rollout, and with several."""


def _reads_zero(f: Finding) -> str:
    """Reason why a loss or clip ratio reads as 0, and the check that tells a normal one from a broken one."""
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
    "too_early": lambda f: "no failure detected; too early to tell whether the reward is rising",
    "ends_low": _ends_low,
    "slipped": _slipped,
    "noise_hides": _noise_hides,
    "constant_so_far": _constant_so_far,
    "scheduled_weight": _scheduled_weight,
    "swings": _swings,
    "falls_early": _falls_early,
    "few_rows": _few_rows,
    "high_kl": lambda f: f"the KL to the reference is {amount(f.numbers['now'])} nats, which is far",
    "truncated_step": _truncated_step,
    "near_limit": _near_limit,
    "no_variance": _no_variance,
    "zero_gradient": lambda f: "the gradient norm of this step is 0 although its groups have reward variance",
    "no_reward": lambda f: "every reward of this step is 0",
    "few_weights": _few_weights,
    "sampler_gap": _sampler_gap,
    "dip": _dip,
    "jump": _jump,
    "resumed": _resumed,
    "signal_changed": _signal_changed,
    "reads_zero": _reads_zero,
    "negative_kl": _negative_kl,
    "freshness": _freshness,
}
"""Kind that is no mode → its template."""
