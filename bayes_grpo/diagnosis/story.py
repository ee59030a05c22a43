"""The story of a run: present failures, earlier ones, and the failures that its log cannot show, in this order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bayes_grpo.common.intervals import percent, span_text
from bayes_grpo.diagnosis.mode import all_modes, failure_names, label_of
from bayes_grpo.diagnosis.status import MODES, ModeProbabilities
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.timeline import Episode, Timeline
from bayes_grpo.diagnosis.trend import total_change
from bayes_grpo.diagnosis.trends import RunTrends, rise_chance

LEFT_BY_SOLVED = ("advantage_degeneracy", "policy_concentration", "idle_steps", "one_sided_groups")
"""Modes that a solved task causes: zero-variance groups and low entropy are no failure there."""


def story(
    estimate: ModeProbabilities,
    timeline: Timeline | None,
    trends: RunTrends | None,
    first: str = "",
    happened: Sequence[str] = (),
) -> str:
    """The verdict in words.

    Args:
        estimate: Probabilities of the modes.
        timeline: Of the run; None where its log has too few rewards.
        trends: Its trends; None likewise.
        first: Finding of the status; the story begins with it where it is under way.
        happened: Sudden events that are over, a clause each.
    """
    if timeline is None or trends is None:
        return "Cannot tell: the log has fewer than three rewards."
    over = "; ".join((*happened, *over_texts(timeline)))
    parts = [_now(estimate, timeline, trends, first), over and f"Earlier, now over: {over}.", unseen_text(timeline)]
    return " ".join(part for part in parts if part)


def progress_text(trends: RunTrends) -> str:
    """Change of the reward, the evidence behind every verdict."""
    trend = trends.reward
    name = "evaluation reward" if trends.uses_eval else "train reward"
    p, level = rise_chance(trends), span_text(trend.draws[:, -1], ".3g").partition(" ")[0]
    change = span_text(total_change(trend), ".3g")
    return f"the {name} changed by {change} to {level}; {percent(p)} chance that the rise exceeds one row's noise"


def _now(estimate: ModeProbabilities, timeline: Timeline, trends: RunTrends, first: str) -> str:
    failures = failure_names()
    found = [e for e in timeline.probable(over=False) if e.mode in failures]
    if found:
        found.sort(key=lambda e: (e.mode != first, e.mode not in MODES, -e.probability))
        lead, *others = map(_episode, found)
        if first == "plateaued" and found[0].mode in LEFT_BY_SOLVED:  # the status calls the task solved
            lead = f"expected for a solved task: {lead}"
        return f"{lead[:1].upper()}{lead[1:]}." + "".join(f" Also {other}." for other in others)
    progress = progress_text(trends)
    shown = f"{progress[:1].upper()}{progress[1:]}"
    moves = [e for e in timeline.probable(over=False) if e.mode not in failures]
    if moves:
        last = max(moves, key=lambda e: (e.mode == first, e.probability))
        word = "rising" if last.mode == "growing" else "flat"
        since = f"The reward has been {word} since about step {last.onset.median:.0f} ({percent(last.probability)})."
        shown = f"{since} {shown}"
    listed = sorted(MODES, key=lambda mode: -estimate.probability[mode])[:2]
    which = ", ".join(f"{label_of(mode)} {percent(estimate.probability[mode])}" for mode in listed)
    if estimate.failing >= THRESHOLDS.probable:
        fails = percent(estimate.failing)
        return f"A failure is likely ({fails}), but the log does not show which: {which}. {shown}."
    return f"No failure is likely ({which}). {shown}."


def over_texts(timeline: Timeline, modes: Collection[str] = ()) -> list[str]:
    """Failures that are over, a clause each: of all modes, or of some."""
    failures = modes or failure_names()
    by_mode: dict[str, list[Episode]] = {}
    for e in timeline.probable(over=True):
        if e.mode in failures:
            by_mode.setdefault(e.mode, []).append(e)
    return [_over(episodes) for episodes in by_mode.values()]


def _over(episodes: Sequence[Episode]) -> str:
    """Past episodes of one mode: a single one with its severity, several as a count."""
    e, last = episodes[0], episodes[-1]
    if len(episodes) > 1:
        span = f"between about step {e.onset.median:.0f} and {last.end.median:.0f}"
        p = percent(max(x.probability for x in episodes))
        return f"{label_of(e.mode)} in {len(episodes)} episodes {span} (at most {p})"
    text = f"{label_of(e.mode)} from about step {e.onset.median:.0f} to {e.end.median:.0f}"
    return _with_depth(f"{text} ({percent(e.probability)})", e)


def unseen_text(timeline: Timeline) -> str:
    """Failures of the four that the log cannot show, and the signal each needs; "" without any."""
    found = [m for m in all_modes() if m.name in MODES and m.required_signal and not timeline.modes[m.name].seen]
    if not found:
        return ""
    return f"Not checked: {', '.join(f'{m.label} (log {m.required_signal})' for m in found)}."


def _episode(e: Episode) -> str:
    text = f"{label_of(e.mode)} ({percent(e.probability)})"
    return _with_depth(f"{text} since about step {span_text(e.onset, '.0f')}", e)


def _with_depth(text: str, e: Episode) -> str:
    return f"{text}: {e.severity_text}" if e.severity_text else text
