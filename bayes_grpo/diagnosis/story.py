"""What is said of a run: what is under way, what happened before, and what its log could not show, in this order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayes_grpo.common.intervals import Interval, probability_text
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL, LEFT_BY_SOLVED, MODES, PROGRESS
from bayes_grpo.diagnosis.classify import ClassPosterior
from bayes_grpo.diagnosis.evidence import ModeEvidence
from bayes_grpo.diagnosis.mode import followed_modes, label_of
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.timeline import Episode, Timeline

HELD_MEANS = {
    "healthy": " (nothing fails, and the reward rose at some time)",
    "plateaued": " (nothing fails, and the reward hardly rose)",
}
"""What an answer without a failure means."""


def story(
    said: ClassPosterior, timeline: Timeline | None, evidence: Mapping[str, ModeEvidence], first: str = ""
) -> str:
    """The verdict in words.

    Args:
        said: Probabilities of the answers.
        timeline: Of the run; None where its log has too few rewards.
        evidence: Evidence by name; empty likewise.
        first: What the top line rests on: a failure to begin with where it is under way, or that the task is solved.
    """
    if timeline is None:
        return "Cannot tell: the log has fewer than three rewards."
    parts = [_now(said, timeline, evidence, first), _before(timeline), unseen_text(timeline)]
    return " ".join(part for part in parts if part)


def failures(episodes: Sequence[Episode]) -> list[Episode]:
    """Episodes of failures, the most probable first."""
    failing = {mode.name for mode in followed_modes() if mode.is_failure}
    return sorted((e for e in episodes if e.mode in failing), key=lambda e: -e.probability)


def _now(said: ClassPosterior, timeline: Timeline, evidence: Mapping[str, ModeEvidence], first: str) -> str:
    found = failures([e for e in timeline.episodes if e.probable and not e.over])
    if found:
        found.sort(key=lambda e: (e.mode != first, e.mode not in MODES))
        lead, *others = map(_told, found)
        if first == "plateaued" and found[0].mode in LEFT_BY_SOLVED:  # the top line calls the task solved
            lead = f"a solved task leaves this: {lead}"
        return f"{lead[:1].upper()}{lead[1:]}." + "".join(f" Also {other}." for other in others)
    what = _progress(said, timeline, evidence)
    if said.failing >= THRESHOLDS.probable:
        listed = sorted(MODES, key=lambda mode: -said.own[mode])[:2]
        which = ", ".join(f"{label_of(mode)} {probability_text(said.own[mode])}" for mode in listed)
        fails = probability_text(said.failing)
        return f"Something fails with probability {fails}, and the log leaves open what: {which}; {what}."
    head = f"{label_of(said.answer)}{HELD_MEANS.get(said.answer, '')}"
    head = f"Nothing is clear: {head}" if said.answer in MODES else f"{head[:1].upper()}{head[1:]}"
    others = sorted((name for name in ANSWERS if name != said.answer), key=lambda name: -said.probability[name])
    return (
        f"{head} with probability {probability_text(said.probability[said.answer])} (next: {label_of(others[0])} "
        f"{probability_text(said.probability[others[0]])}): {what}."
    )


def _progress(said: ClassPosterior, timeline: Timeline, evidence: Mapping[str, ModeEvidence]) -> str:
    """What the reward does, which a verdict without a failure rests on."""
    shown = evidence[PROGRESS].sentence
    now = [e for e in timeline.episodes if e.probable and not e.over and e.mode in ("growing", "plateaued")]
    if not now or said.answer == CANNOT_TELL:
        return shown
    last = max(now, key=lambda e: e.probability)
    word = "rising" if last.mode == "growing" else "at rest"
    return f"{word} since about step {last.onset.median:.0f} ({probability_text(last.probability)}); {shown}"


def _before(timeline: Timeline) -> str:
    found = sorted(failures([e for e in timeline.episodes if e.probable and e.over]), key=lambda e: e.onset.median)
    if not found:
        return ""
    by_mode: dict[str, list[Episode]] = {}
    for e in found:
        by_mode.setdefault(e.mode, []).append(e)
    return f"Before, and over: {'; '.join(map(_over, by_mode.values()))}."


def _over(episodes: Sequence[Episode]) -> str:
    """Episodes of one mode that are over: a single one with its depth, several as their number."""
    e, last = episodes[0], episodes[-1]
    if len(episodes) > 1:
        span = f"between about step {e.onset.median:.0f} and {last.end.median:.0f}"
        p = probability_text(max(x.probability for x in episodes))
        return f"{label_of(e.mode)} in {len(episodes)} stretches {span} (at most {p})"
    text = f"{label_of(e.mode)} from about step {e.onset.median:.0f} to {e.end.median:.0f}"
    text += f" ({probability_text(e.probability)})"
    return f"{text}: {e.depth}" if e.depth else text


def unseen_text(timeline: Timeline) -> str:
    """Which of the four failures the log could not have shown, and what would show them; "" where it could all."""
    found = [m for m in followed_modes() if m.name in MODES and m.shown_by and not timeline.modes[m.name].seen]
    if not found:
        return ""
    return f"Not to be seen in this log: {', '.join(f'{m.label} (log {m.shown_by})' for m in found)}."


def _told(episode: Episode) -> str:
    text = f"{label_of(episode.mode)} (probability {probability_text(episode.probability)})"
    text += f", under way since about step {step_text(episode.onset)}"
    return f"{text}: {episode.depth}" if episode.depth else text


def step_text(step: Interval) -> str:
    """A step with its interval and level."""
    return f"{step.median:.0f} [{step.low:.0f}, {step.high:.0f}] ({step.level:.0%})"
