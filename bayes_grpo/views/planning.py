"""The settings of the next run as a document."""

from __future__ import annotations

import math

from bayes_grpo.common.document import (
    Cell,
    Document,
    Section,
    Tabular,
    Tone,
    chance,
    number,
    ranged,
    section,
    sentence_case,
    shows,
    table,
    words,
)
from bayes_grpo.common.intervals import LEVEL, Interval, digits, percent
from bayes_grpo.common.text import counted, every
from bayes_grpo.planning.outcomes import OtherRuns
from bayes_grpo.planning.result import Plan
from bayes_grpo.probing.predict import LONGEST_REFRESH

_THRESHOLDS = {
    "published_rule": "published rule",
    "frozen_policy": "exact, policy frozen between refreshes",
    "oscillation": "onset of oscillation",
}
_SETTINGS = {
    "learning_rate": "learning rate",
    "refresh_interval": "refresh interval",
    "group_size": "group size",
    "prompts_per_step": "prompts per step",
}
_SOURCES = {"given": "as given", "probe": "measured by a probe"}
_TONES: dict[str, Tone] = {"stable": "good", "unstable": "alarm", "run_failed": "alarm", "cannot_tell": "doubt"}
_NEXT_STEPS = {
    "run_failed": "lower the learning rate or the refresh interval.",
    "unstable": "lower the learning rate or the refresh interval.",
    "cannot_tell": "measure the stiffness of the update (--probe), or give it (--stiffness).",
}


@shows(Plan)
def plan_document(plan: Plan) -> Document:
    """Stability of the planned settings, outcomes of others, and the noise of a row."""
    return Document(
        title=plan.run or "Plan",
        about=_settings_words(plan),
        answer=answer_of(plan),
        why=_reason(plan),
        do=_NEXT_STEPS.get(plan.verdict, ""),
        tone=_TONES[plan.verdict],
        table=_thresholds(plan),
        sections=(
            _limits(plan),
            section("Others who changed a setting", *_others_lines(plan), tables=(_similar_changes_table(plan),)),
            _noise(plan),
        ),
        assumed=f"Stiffness {_short(plan.stiffness.value)} {_origin(plan)}; momentum {plan.settings.momentum:g} "
        f"({'heavy ball' if plan.settings.convention == 'heavy_ball' else 'EMA, as Adam'})",
        unchecked="" if plan.noise else "Not computed: noise of a row (group size or prompts per step unknown)",
        docs="how/plan",
        conditional=False,
    )


def answer_of(plan: Plan) -> str:
    """The verdict by the exact threshold in one sentence."""
    exact = plan.threshold("frozen_policy")
    if plan.verdict == "run_failed":
        return "The present run failed at settings that are no more careful, so they are not safe."
    if plan.stiffness.source == "lagged_run":
        return "This log cannot tell: its stiffness was fitted to a curve that already contains the lag."
    known = math.isfinite(plan.settings.learning_rate)
    limit = f"the margin is {_short(exact.margin)}"
    if known:
        limit = f"the largest stable learning rate is {_short(exact.learning_rate)}"
    if plan.verdict == "cannot_tell":
        below = "below it" if known else "within it"
        return f"{sentence_case(limit)}; {below} stiffer directions decide, which a reward curve does not show."
    probability = exact.p_below if plan.verdict == "stable" else 1.0 - exact.p_below
    sure = "" if exact.margin.low == exact.margin.high else f" ({percent(probability)})"
    return f"{plan.verdict.capitalize()} by the exact linear threshold{sure}: {limit}."


def _reason(plan: Plan) -> str:
    """The margin, and separately what happened to others."""
    exact, onset = plan.threshold("frozen_policy"), plan.threshold("oscillation")
    swings = "below" if onset.p_below >= 0.5 else "above"
    return (
        f"Margin {_short(exact.margin)} (threshold over planned gain); gain {swings} the onset of oscillation. "
        f"A separate statement, what happened to others: {_outcome_text(_leading(plan))}."
    )


def _leading(plan: Plan) -> OtherRuns:
    """The planned change, else twice the learning rate."""
    return next((x for x in plan.others if x.planned), next(x for x in plan.others if x.ratio == 2.0))


def _outcome_text(x: OtherRuns) -> str:
    what = f"{digits(x.ratio, '.3g')} times the {_SETTINGS[x.setting]}"
    if not x.pairs:
        return f"no public pair of runs tested {what}"
    return f"{x.failed} of {counted(x.pairs, 'public pair')} with about {what} failed"


def _settings_words(plan: Plan) -> str:
    s = plan.settings
    rate = "" if math.isnan(s.learning_rate) else f"learning rate {s.learning_rate:.3g}, "
    return f"{rate}momentum {s.momentum:g}, refresh {every(s.refresh_interval)}, lag exposure {s.lag_exposure:g}"


def _origin(plan: Plan) -> str:
    used = plan.stiffness
    if used.source in _SOURCES:
        return _SOURCES[used.source]
    return f"from the {used.quantity.replace('_', ' ')} of regime {used.regime}"


def _short(i: Interval) -> str:
    return digits(i.median, ".3g") if i.low == i.high or math.isinf(i.median) else ranged(i)


def _thresholds(plan: Plan) -> Tabular:
    known = not plan.stiffness.from_reward
    rows = (
        (
            words(_THRESHOLDS[x.kind], term="lag"),
            x.gain,
            number(_short(x.margin)),
            number("" if math.isnan(x.learning_rate.median) else _short(x.learning_rate)),
            chance(x.p_below) if known else number("unknown"),
        )
        for x in plan.thresholds
    )
    heads = (
        "threshold",
        Cell("largest gain g", term="gain g"),
        Cell("margin", term="margin"),
        "largest learning rate",
        "P(below it)",
    )
    note = f"g = effective learning rate × stiffness = {_short(plan.gain)}; {LEVEL:.0%} intervals."
    return table("Linear thresholds", heads, rows, note)


def _limits(plan: Plan) -> Section:
    refresh, momentum = plan.largest_refresh_interval, plan.largest_momentum
    every_one = {0: "No refresh interval is stable", LONGEST_REFRESH: "Any refresh interval is stable"}
    by_momentum = f"The largest stable momentum is {momentum:.4g}"
    if math.isnan(momentum):
        by_momentum = "No momentum is stable"
    elif momentum == 1.0:
        by_momentum = "Any momentum below 1 is stable"
    by_refresh = every_one.get(refresh, f"The largest stable refresh interval is {counted(refresh, 'step')}")
    lines = (by_refresh, by_momentum)
    return section("Other settings at the exact threshold", *(f"{x}, all else as planned." for x in lines))


def _similar_changes_table(plan: Plan) -> Tabular:
    rows = (
        (
            words(_SETTINGS[x.setting], mark=x.planned),
            number(f"× {digits(x.ratio, '.3g')}"),
            number(x.pairs),
            number(x.failed),
            number(x.repositories),
            chance(x.p_fails),
        )
        for x in plan.others
    )
    heads = ("setting", "change", "pairs", "failed", "repositories", "P(fails)")
    return table("Public runs that changed one setting alone, from a run that worked", heads, rows)


def _others_lines(plan: Plan) -> tuple[str, ...]:
    lines = ["All failed pairs come from two repositories that train one model on one exercise."]
    if any(math.isfinite(x.p_fails) for x in plan.others):
        lines.append("Counts ignore the learning rate from which a pair started.")
        lines.append("P(fails) includes it: a logistic regression on the change and the present rate, under Adam.")
    if len(plan.changes) > 1:
        lines.append("Each change is counted alone; no pair tells what several changes do together.")
    if plan.run_failed:
        lines.append("The present run failed, while these pairs start from runs that worked.")
    return tuple(lines)


def _noise(plan: Plan) -> Section:
    if plan.noise_model is None:
        return section("Noise of a row")
    rows = (
        (
            number(f"{x.group_size:g}", mark=x.planned),
            number(f"{x.prompts_per_step:g}"),
            number(f"{x.cost:.3g}"),
            number(digits(x.sd, ".3g") if math.isfinite(x.sd) else ""),
            number(f"{x.ratio:.3g}"),
            number(f"{x.within:.0%}"),
        )
        for x in plan.noise
    )
    heads = ("group size", "prompts per step", "cost", "sd of a row", "over present", "within groups")
    model = plan.noise_model
    source = "from this log" if model.logged else "typical, not in this log"
    note = f"Correlation of completions of one prompt {model.correlation:.2g} ({source}); cost over the present one."
    return section("Noise of a row", tables=(table("Noise of a row by group size", heads, rows, note),))
