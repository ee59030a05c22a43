"""The story of a run: what is under way, what happened before, and what its log could not show, in this order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bayes_grpo.common.intervals import interval, percent, probability_text
from bayes_grpo.diagnosis.mode import all_modes, label_of
from bayes_grpo.diagnosis.smoothing import total_change
from bayes_grpo.diagnosis.status import MODES, ModeProbabilities
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.timeline import Episode, Timeline
from bayes_grpo.diagnosis.trend import span_text
from bayes_grpo.diagnosis.trends import RunTrends, rise_chance

LEFT_BY_SOLVED = ("advantage_degeneracy", "policy_concentration", "idle_steps", "one_sided_groups")
"""What a solved task leaves: groups without spread and little entropy are no failure there."""


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
        first: What the top line rests on: a failure to begin with where it is under way, or that the task is solved.
        happened: What happened at once and is over, a clause each.
    """
    if timeline is None or trends is None:
        return "Cannot tell: the log has fewer than three rewards."
    over = "; ".join((*happened, *over_texts(timeline)))
    parts = [_now(estimate, timeline, trends, first), over and f"Before, and over: {over}.", unseen_text(timeline)]
    return " ".join(part for part in parts if part)


def progress_text(trends: RunTrends) -> str:
    """What the reward did, which every verdict rests on."""
    trend = trends.reward
    name = "held-out reward" if trends.uses_eval else "train reward"
    p, level = rise_chance(trends), span_text(interval(trend.draws[:, -1]), ".3g").partition(" ")[0]
    change = span_text(interval(total_change(trend)), ".3g")
    return f"the {name} changed by {change} to {level}; {percent(p)} chance that the rise exceeds one row's noise"


def _now(estimate: ModeProbabilities, timeline: Timeline, trends: RunTrends, first: str) -> str:
    failures = {mode.name for mode in all_modes() if mode.is_failure}
    found = [e for e in timeline.probable(over=False) if e.mode in failures]
    if found:
        found.sort(key=lambda e: (e.mode != first, e.mode not in MODES, -e.probability))
        lead, *others = map(_episode, found)
        if first == "plateaued" and found[0].mode in LEFT_BY_SOLVED:  # the top line calls the task solved
            lead = f"a solved task leaves this: {lead}"
        return f"{lead[:1].upper()}{lead[1:]}." + "".join(f" Also {other}." for other in others)
    shown = progress_text(trends)
    moves = [e for e in timeline.probable(over=False) if e.mode not in failures]
    if moves:
        last = max(moves, key=lambda e: (e.mode == first, e.probability))
        word = "rising" if last.mode == "growing" else "at rest"
        shown = f"{word} since about step {last.onset.median:.0f} ({probability_text(last.probability)}); {shown}"
    listed = sorted(MODES, key=lambda mode: -estimate.probability[mode])[:2]
    which = ", ".join(f"{label_of(mode)} {probability_text(estimate.probability[mode])}" for mode in listed)
    if estimate.failing >= THRESHOLDS.probable:
        fails = probability_text(estimate.failing)
        return f"Something fails with probability {fails}, and the log leaves open what: {which}; {shown}."
    return f"No failure is more probable than not ({which}): {shown}."


def over_texts(timeline: Timeline, modes: Collection[str] = ()) -> list[str]:
    """Failures that were under way and are over, a clause each: all of them, or some modes' alone."""
    failures = modes or {mode.name for mode in all_modes() if mode.is_failure}
    by_mode: dict[str, list[Episode]] = {}
    for e in timeline.probable(over=True):
        if e.mode in failures:
            by_mode.setdefault(e.mode, []).append(e)
    return [_over(episodes) for episodes in by_mode.values()]


def _over(episodes: Sequence[Episode]) -> str:
    """Episodes of one mode that are over: a single one with its depth, several as their number."""
    e, last = episodes[0], episodes[-1]
    if len(episodes) > 1:
        span = f"between about step {e.onset.median:.0f} and {last.end.median:.0f}"
        p = probability_text(max(x.probability for x in episodes))
        return f"{label_of(e.mode)} in {len(episodes)} stretches {span} (at most {p})"
    text = f"{label_of(e.mode)} from about step {e.onset.median:.0f} to {e.end.median:.0f}"
    return _with_depth(f"{text} ({probability_text(e.probability)})", e)


def unseen_text(timeline: Timeline) -> str:
    """Which of the four failures the log could not have shown, and what would show them; "" where it could all."""
    found = [m for m in all_modes() if m.name in MODES and m.shown_by and not timeline.modes[m.name].seen]
    if not found:
        return ""
    return f"Not to be seen in this log: {', '.join(f'{m.label} (log {m.shown_by})' for m in found)}."


def _episode(e: Episode) -> str:
    text = f"{label_of(e.mode)} (probability {probability_text(e.probability)})"
    return _with_depth(f"{text}, under way since about step {span_text(e.onset, '.0f')}", e)


def _with_depth(text: str, e: Episode) -> str:
    return f"{text}: {e.depth}" if e.depth else text
