"""One table of the kinds of findings that are no modes: its sentence, the mode it belongs to, what a status rests on.

A finding has two clauses, what was found and its detail. Called where a sentence is shown, which joins the two by a
colon; nothing reads one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from bayes_grpo.common.intervals import from_to, percent
from bayes_grpo.common.text import amount, listed
from bayes_grpo.diagnosis.wording import LABELS, joined, label_of, signal_words, step_name
from bayes_grpo.signals.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from bayes_grpo.diagnosis.records import Finding

CANNOT_TELL = "cannot_tell"
"""Mode of the finding of a log with too little information."""
FAILURES = "the failure probabilities"
"""Basis of a status whose finding is a mode."""


def finding_clauses(f: Finding) -> tuple[str, str]:
    """A finding in words: what was found, and its detail or ""."""
    if f.kind in LABELS:
        return _mode(f)
    kind = KINDS[f.kind]
    fields = _fields(f)
    made = kind.template(f) if callable(kind.template) else _filled(kind.template, fields)
    return (made, kind.detail.format(**fields)) if isinstance(made, str) else made


def _filled(template: str | tuple[str, ...], fields: Mapping[str, Any]) -> str:
    """A template with its fields; of several the first whose fields are all known."""
    *others, last = (template,) if isinstance(template, str) else template
    for one in others:
        with suppress(KeyError):
            return one.format(**fields)
    return last.format(**fields)


_LEVELS = {
    "fall": ("best", "now"), "rise": ("train_start", "train_now"), "total_fall": ("total_best", "total_now"),
    "change_of_level": ("before", "after"),
}  # fmt: skip
"""Two levels in one phrase, and their numbers."""


def _fields(f: Finding) -> dict[str, Any]:
    """Fields of a template: the numbers, the signal, when it began, a resume behind it and the other parts."""
    n = f.numbers
    parts = joined(part.clause for part in f.parts if part.kind != "resumed")
    fields = {name: from_to(n[a], n[b]) for name, (a, b) in _LEVELS.items() if a in n and b in n} | {
        "name": f.signals[0] if f.signals else "",
        "signal": signal_words(f.signals[0]) if f.signals else "",
        "part": "environment" if "environment" in n else "component",
        "signals": listed(f.signals, 3),
        "at": step_name(f.at, f.step),
        "since": _since(f),
        "resume": _resume(f),
        "parts": parts,
        "also": parts and f"; {parts}",
        "waste": f"; {n['waste']:.0%} of the groups have zero reward variance" if "waste" in n else "",
    }
    if "early" in n:
        fields["ratio"] = n["late"] / n["early"]
    if "share" in n:
        fields["live"] = 1.0 - n["share"]
    if "total_holds" in n:
        fields["total_holds"] = " while the total reward holds"
    return {**n, **fields}


def _since(f: Finding) -> str:
    """Onset of a finding, with its interval and the resume behind it."""
    if f.step is None:
        return _resume(f)
    at = step_name(f.at, f.step)
    low, high = f"{f.step.low:.0f}", f"{f.step.high:.0f}"
    return f" since about {at.first}{'' if low == high else f' [{low}, {high}]'}{at.other}{_resume(f)}"


def _resume(f: Finding) -> str:
    steps = (step_name(part.at, part.step) for part in f.parts if part.kind == "resumed")
    return "".join(f", after the resume at {step}" for step in steps)


def _mode(f: Finding) -> tuple[str, str]:
    """A mode under way, possible or over."""
    label = label_of(f.kind)
    if "episodes" in f.numbers and f.kind == "lost_values":
        return f.severity, ""  # its rows are known, so it has no onset about which to doubt
    if "episodes" in f.numbers:
        return _past_mode(f), f.severity
    if f.step is None:
        return f"{label} is possible, but less likely than not", f.severity
    n = f.numbers
    rose = f", while the reward rose {from_to(n['reward_start'], n['reward_now'])}" if "reward_now" in n else ""
    return f"{label}{_since(f)}{rose}", f.severity


def _past_mode(f: Finding) -> str:
    """Earlier episodes of a mode: one, or several as a count."""
    assert f.step is not None
    first = f"{f.step.median:.0f}"
    end = f"{f.numbers['end']:.0f}"
    p = percent(f.probability)
    when = f"from about step {first} to {end} ({p})"
    if f.numbers["episodes"] > 1:
        when = f"in {f.numbers['episodes']:.0f} episodes between about step {first} and {end} (at most {p})"
    elif first == end and f.step.low == f.step.high:
        when = f"at about step {first} ({p})"
    return f"{label_of(f.kind)} {when}"


_FELL = "{signal} fell {fall}"
_ROSE = "the train reward rose {rise}"


def _not_finite(f: Finding) -> str:
    since = "" if f.at is None else f" since about {f.at}"
    names = " and ".join(name.replace("_", " ") for name in f.signals)
    return f"{names} {'are' if len(f.signals) > 1 else 'is'} NaN or infinite{since}"


def _goal_parts(f: Finding) -> str:
    n = f.numbers
    fell = f" ({percent(n['fell'])} chance that it fell)" if n["now"] < n["best"] else ""
    return (_ROSE + "{since} while the {name} went {fall}").format(**_fields(f)) + fell


def _ended(f: Finding) -> str:
    """The schedule is over; what the reward did."""
    n = f.numbers
    over = f"the {n['planned']:g} planned steps are over" if "planned" in n else ""
    if f.at is not None:
        over = f"the learning rate reached zero at {f.at}"
    elif not over:
        over = f"the learning rate is at {100.0 * n['rate_left']:.2g}% of its peak"
    levels = f"from {n['start']:.3g} to {n['now']:.3g}"
    return f"{over}; the reward rose {levels}" if f.kind == "ended" else f"{over}; {_not_risen(f)} ({levels})"


def _not_risen(f: Finding) -> str:
    if f.numbers["now"] <= f.numbers["start"]:
        return "the reward has not risen"
    if f.numbers["probably"]:
        return "the reward has probably risen"
    return "the reward has " + ("risen, perhaps only slightly" if f.numbers["crept"] else "not clearly risen")


def _rising(f: Finding) -> str:
    rises = "is rising" if f.probability >= 1.0 - THRESHOLDS.suspect else "is probably rising"
    return f"the reward {rises}; no failure detected"


def _falls_early(f: Finding) -> str:
    fell = "{signal} may have fallen {fall}" if f.probability < THRESHOLDS.probable else _FELL
    return f"{(fell + '{also}').format(**_fields(f))}; {percent(f.numbers['lost'])} chance that it has collapsed"


def _few_rows(f: Finding) -> tuple[str, str]:
    rows = f.numbers["rows"]
    shows = "one row says" if rows == 1.0 else f"{rows:.0f} rows say"
    if "eval_reward" in f.numbers and "reward" not in f.numbers:
        shown = "an evaluation" if rows == 1.0 else f"{rows:.0f} evaluations"
        return f"no row of the training yet, only {shown}", f"the evaluation reward is {f.numbers['eval_reward']:.3g}"
    nothing = f"{shows} nothing of where the reward goes"
    for name in ("eval_reward", "reward"):
        if name in f.numbers:
            nothing = f"{signal_words(name)} is {f.numbers[name]:.3g}; {shows} nothing of where it goes"
    return joined(part.clause for part in f.parts) or "too few rewards for a verdict", nothing


def _high_kl(f: Finding) -> str:
    n = f.numbers
    kl = f"the KL to the reference is {amount(n['now'])} nats"
    if n["now"] <= THRESHOLDS.high_kl:
        return f"{kl}, more than in most runs"
    if "reward_now" not in n:
        return f"{kl}, which is far"
    done = "has not risen" if n["reward_now"] >= n["reward_start"] else "lies no higher than at its start"
    return f"{kl}, which is far, and the reward {done} ({n['reward_start']:.3g}, now {n['reward_now']:.3g})"


def _truncated_step(f: Finding) -> str:
    rounded = f"{f.numbers['share']:.0%}"
    which = "all completions" if rounded == f"{1:.0%}" else f"{rounded} of the completions"
    at = f" (mean length {f.numbers['length']:.0f} tokens)" if f.numbers["length"] > 0.0 else ""
    return f"{which} of this step hit the length limit{at}"


def _no_variance(f: Finding) -> str:
    if (share := f.numbers["share"]) < 1.0:
        return f"{share:.0%} of the groups of this step have equal rewards (zero variance), and give no gradient"
    text = "every group of this step has equal rewards (zero variance), so this step has no gradient"
    return text + "".join(f" ({key} is a spread over prompts, not within a group)" for key in f.signals)


def _idle_rows(f: Finding) -> str:
    dead, rows = f.numbers["dead"], f.numbers["rows"]
    which = "all" if dead == rows else f"{dead:.0f}"
    return f"{which} of the last {rows:.0f} rows have no reward variance, and give no gradient"


def _dip(f: Finding) -> str:
    n = f.numbers
    moved = "fell" if n["low"] < n["usual"] else "rose"
    resumed = _resume(f)
    back = f"and came back by step {n['back']:g}" if "back" in n else "in one row"
    return f"the reward {moved} to {n['low']:.2g} at {step_name(f.at, f.step)}{resumed and f'{resumed},'} {back}"


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
    return f"{why}. The gradient norm is not 0 (median {n['grad_norm']:.2g})"


class Kind(NamedTuple):
    """Sentence of a kind of findings, the mode that it belongs to ("" for none), the basis of a status, its detail.

    The sentence is a template over the fields of `_fields`, several of which the first counts whose fields are known,
    or a function that gives one or both clauses; the detail, which is the second clause, a template.
    """

    template: str | tuple[str, ...] | Callable[[Finding], str | tuple[str, str]]
    mode: str = ""
    basis: str = FAILURES
    detail: str = ""


_INSTABILITY = "dynamical_instability"
_PATHS = "the drawn paths of the reward"
_ROWS = "the reward's rows"
_LEVEL = "the reward's level"
_BOTH = "train and evaluation reward"
_PARTS = "the reward components"
_NUMBER = "the number of rows"
_SCHEDULE = "the schedule and the reward"

KINDS: Mapping[str, Kind] = {
    "not_finite": Kind(_not_finite, "lost_values", "the logged values"),
    "constant_reward": Kind(
        "the reward is {now:.4g} in every row and in every group, so the gradient is zero",
        "advantage_degeneracy",
        _ROWS,
    ),
    "lost_reward": Kind(_FELL + "{since}{also}", _INSTABILITY, _PATHS),
    "instability_signs": Kind("{parts}{since}", _INSTABILITY, "the logged signals"),
    "falls_early": Kind(_falls_early, _INSTABILITY, _PATHS),
    "swings": Kind(
        "{signal} swings between {low:.2g} and {high:.2g} ({times:.0f} times down and back)", _INSTABILITY, _PATHS
    ),
    "signal_fell": Kind(_FELL),
    "signal_grew": Kind("{signal} grew {ratio:.2g}-fold, from {early:.2g} to {late:.2g}"),
    "component_fell": Kind(
        (
            "{part} {name} fell {fall}, and the total with it, {total_fall}",
            "{part} {name} fell {fall}{total_holds}",
            "{part} {name} fell {fall}",
        ),
        basis=_PARTS,
    ),
    "goal_parts": Kind(_goal_parts, basis="the reward and the goal next to it"),
    "scheduled_weight": Kind(
        "only {name} falls, as a scheduled weight does ({best:.2g} to {now:.2g}), and takes the total from "
        "{total_best:.2g} to {total_now:.2g}; the other components rest",
        basis=_PARTS,
    ),
    "evaluation_fell": Kind((f"{_FELL} while {_ROSE}", _FELL + "{also}"), "reward_hacking", _BOTH),
    "evaluation_constant": Kind(
        "the evaluation reward is {now:.4g} in all {evaluations:.0f} evaluations, as of a policy that does not change",
        basis=_ROWS,
    ),
    "evaluation_stays": Kind(_ROSE + " while {signal} stays at {now:.2g}", "reward_hacking", _BOTH),
    "solved": Kind(
        "the evaluation reward is at {now:.2g}", "plateaued", "the evaluation reward", "the task is solved{waste}"
    ),
    "mostly_solved": Kind(
        "mostly solved", "plateaued", _LEVEL, "the train reward is at {level:.0%} of its range{waste}"
    ),
    "at_ceiling": Kind(
        "the train reward is at its ceiling ({level:.0%} of its range); only an evaluation can show more",
        "plateaued",
        _LEVEL,
    ),
    "ended": Kind(_ended, "growing", _SCHEDULE),
    "ended_flat": Kind(_ended, "plateaued", _SCHEDULE),
    "rising": Kind(_rising, "growing", _PATHS),
    "rising_on": Kind(
        "the reward has risen from {start:.3g} to {now:.3g} and is probably still rising; no failure detected",
        "growing",
        _PATHS,
    ),
    "risen": Kind("the reward has risen from {start:.3g} to {now:.3g}; no failure detected", "growing", _PATHS),
    "holding": Kind(
        (
            "the reward holds at {now:.3g} after {rewards:.0f} of {planned:.0f} planned rewards; no failure detected",
            "the reward holds at {now:.3g} after {rewards:.0f} rewards; no failure detected",
        ),
        "plateaued",
        _PATHS,
    ),
    "at_rest": Kind("the reward has plateaued at {now:.3g}", "plateaued", "the reward"),
    "flat": Kind(_not_risen, "plateaued", _PATHS, "from {start:.3g} to {now:.3g}"),
    "too_early": Kind("no failure detected; too early to tell whether the reward is rising", CANNOT_TELL, _NUMBER),
    "ends_low": Kind(
        "the reward went from {first:.2g} to {last:.2g} in {rewards:.0f} rows (best {most:.2g}){also}",
        CANNOT_TELL,
        _NUMBER,
    ),
    "slipped": Kind(
        "no failure detected, but {signal} lies below its start: {start:.3g}, now {now:.3g}", CANNOT_TELL, _PATHS
    ),
    "noise_hides": Kind(
        "no failure detected; noise hides whether the reward rises "
        "(change {change:.2g} [{low:.2g}, {high:.2g}] in {rewards:.0f} rows)",
        CANNOT_TELL,
        _PATHS,
    ),
    "constant_so_far": Kind(
        "{signal} is {now:.4g} in all {rewards:.0f} rows so far; too early to tell whether it stays there",
        CANNOT_TELL,
        _ROWS,
    ),
    "unmeasured": Kind(
        "{signal} is {now:.4g} in all {rewards:.0f} rows, whatever the policy answers", CANNOT_TELL, _ROWS
    ),
    "few_rows": Kind(_few_rows, CANNOT_TELL, "the number of rewards"),
    "high_kl": Kind(_high_kl, basis=_PATHS),
    "noise_written": Kind("the entropy is {now:.2g} nats a token, as of a model that writes noise"),
    "truncated_step": Kind(_truncated_step),
    "no_variance": Kind(_no_variance),
    "zero_gradient": Kind(
        (
            "the gradient norm is 0 in {still:.0f} of {varied:.0f} rows whose rewards vary",
            "the gradient norm of this step is 0 although its groups have reward variance",
        )
    ),
    "no_reward": Kind("every reward of this step is 0"),
    "sampler_gap": Kind("{signal} is {now:.2g} (healthy: {low:g} to {high:g})"),
    "idle_groups": Kind(
        "{share:.0%} of the groups have zero reward variance, so {live:.0%} of each batch gives a gradient",
        basis="the groups without variance",
    ),
    "one_length": Kind(
        "the completion length is {length:.4g} in all {rows:.0f} rows, as of completions that all end at a limit"
    ),
    "one_score": Kind(
        "the reward is {score:.3g} in {same:.0f} of {rows:.0f} rows, as of a scorer that hardly separates answers"
    ),
    "idle_rows": Kind(_idle_rows, basis="the rows without variance"),
    "dip": Kind(_dip),
    "jump": Kind("the reward jumped {change_of_level} at {at}{resume}"),
    "resumed": Kind("the training was resumed at {at}"),
    "signal_changed": Kind("{signal} went {change_of_level}"),
    "reads_zero": Kind(_reads_zero),
    "negative_kl": Kind(
        "the KL is below 0 on average ({mean:.2g} over {rows:.0f} rows), which no KL is. "
        "Its estimate averages log-ratios of tokens that the policy did not sample, or masks them wrongly"
    ),
    "freshness": Kind(_freshness),
    "unpaid_parts": Kind("no row has any reward from {signals}"),
}
"""Kind that is no mode → its sentence, mode and basis."""
