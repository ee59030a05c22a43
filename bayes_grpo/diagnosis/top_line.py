"""The top line of a diagnosis: how a run stands in one word, the one thing to do now, how probable that is, and why.

What follows from the timeline alone. Whoever knows more, such as a forecast or costs, replaces what there is to do of a
run that does not fail (`bayes_grpo.accounts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.diagnosis.classes import CANNOT_TELL, LEFT_BY_SOLVED, MODES
from bayes_grpo.diagnosis.classify import ClassPosterior
from bayes_grpo.diagnosis.mode import all_modes, label_of
from bayes_grpo.diagnosis.status import TopLine
from bayes_grpo.diagnosis.timeline import Episode, Timeline
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.fallen import fallen_of
from bayes_grpo.events.growth import grew
from bayes_grpo.events.learning_rate import rate_spent_at
from bayes_grpo.logs.run import Provenance

_LEAST = 8
"""Fewer rewards than this say nothing of a run that does not fail."""
_FEW = 20
"""Rewards up to which a log without an answer is asked to go on to so many."""


def top_line(
    said: ClassPosterior,
    timeline: Timeline | None,
    trends: RunTrends | None,
    remedies: Mapping[str, Sequence[str]],
) -> TopLine:
    """The top line of a diagnosis.

    Args:
        said: Probabilities of the answers.
        timeline: Of the run; None where its log has too few rewards.
        trends: Trends of its signals; None likewise.
        remedies: Mode → what to do.
    """
    if timeline is None or trends is None:
        text = "the log has fewer than three rewards."
        return TopLine("unclear", CANNOT_TELL, 1.0, text, "look again when it has twenty.", "the number of rewards")
    under_way = {e.mode: e for e in timeline.episodes if e.probable and not e.over}
    failing = [under_way[mode] for mode in MODES if mode in under_way]
    solved = _solved(timeline, trends)
    if solved and {e.mode for e in failing} <= set(LEFT_BY_SOLVED):
        text = f"the task is solved: the reward stands at {solved}."
        action = "stop, and take the checkpoint with the best held-out score, or go on with harder prompts."
        return TopLine("done", "plateaued", 1.0 - _other(said), text, action, "the reward's level")
    found = _lost(said, failing, trends, remedies)
    if found is None and failing:
        found = _failing(failing, remedies, cut_off="truncated_completions" in under_way)
    return (
        found
        or _beside(under_way, remedies)
        or _suspected(said, timeline, remedies)
        or _calm(said, timeline, trends, remedies)
    )


def _solved(timeline: Timeline, trends: RunTrends) -> str:
    """Where the reward stands if that counts as solved, in words; "" elsewhere."""
    if trends.uses_eval:
        return ""
    if trends.has_range:
        level = min(float(trends.share(trends.reward.mean[-1])), 1.0)
        return f"{level:.0%} of its range" if level > BORDERS.solved else ""
    late = trends.reward.raw[len(trends.reward.raw) // 2 :]
    most = late >= trends.reward.raw.max()  # a mean over completions repeats its highest value at its end alone
    if len(late) < _LEAST or most.mean() <= BORDERS.half or not _rose(timeline, trends):
        return ""
    return f"{late.max():.3g}, its highest value, in {int(most.sum())} of the last {len(late)} rows"


def _rose(timeline: Timeline, trends: RunTrends) -> bool:
    return max(timeline.modes["growing"].ever, float(np.mean(grew(trends.reward)))) >= BORDERS.probable


def _other(said: ClassPosterior) -> float:
    """Probability of a failure that a solved task does not explain."""
    return max(said.own["reward_hacking"], said.own["dynamical_instability"])


def _lost(
    said: ClassPosterior, found: list[Episode], trends: RunTrends, remedies: Mapping[str, Sequence[str]]
) -> TopLine | None:
    """A reward that is lost: the collapse first, because what stands beside one mostly follows from it."""
    fallen = fallen_of(trends.reward, trends.span, trends.low)
    if fallen is None:
        return None
    named = {e.mode: e for e in found}
    held = "the held-out reward" if trends.uses_eval else "the reward"
    unstable = named.get("dynamical_instability")
    # One fall has one onset, that of the episode which the story tells; without one, the row from which it is lost.
    since = f" since about step {fallen.since:.0f}" if unstable is None else _since(unstable)
    if unstable is not None and unstable.onset.median < fallen.best_step:  # it swung before it fell
        since = f" after about step {fallen.best_step:.0f}, unstable{since}"
    fall = f"{held} has fallen from {fallen.best:.2g} to {fallen.now:.2g}{since}"
    worst = unstable or max(found, key=lambda e: e.probability, default=None)
    if worst is not None:
        by = "" if worst.mode == "dynamical_instability" else f", beside {label_of(worst.mode)}{_since(worst)}"
        first, *rest = _listed(remedies, worst.mode)
        return TopLine("failed", worst.mode, worst.probability, f"{fall}{by}.", first, "the reward's trend", (*rest,))
    action = f"compare the checkpoints of about step {fallen.best_step:.0f} and of now on held-out prompts."
    rest = "the reward's trend"
    if said.failing >= BORDERS.probable:
        return TopLine("failed", max(MODES, key=said.own.__getitem__), said.failing, f"{fall}.", action, rest)
    text = f"{fall}, and no failure that the log could show explains it."
    return TopLine("watch", "dynamical_instability", fallen.probability, text, action, rest)


def _failing(found: list[Episode], remedies: Mapping[str, Sequence[str]], cut_off: bool) -> TopLine:
    """A failure that is probable, with those beside it; completions that are cut off leave groups without spread."""
    worst = max(found, key=lambda e: e.probability)
    text = f"{label_of(worst.mode)}{_since(worst)}"
    beside = [label_of(e.mode) for e in found if e is not worst]
    text = f"{text}, beside {' and '.join(beside)}" if beside else text
    first, *rest = _listed(remedies, worst.mode)
    if cut_off and worst.mode == "advantage_degeneracy":
        text = f"{text}, where most completions are cut off"
        first, *rest = [*_listed(remedies, "truncated_completions"), first, *rest]
    return TopLine("failing", worst.mode, worst.probability, _headline(text, worst), first, "the timeline", (*rest,))


def _beside(under_way: Mapping[str, Episode], remedies: Mapping[str, Sequence[str]]) -> TopLine | None:
    """A finding beside the four failures, the most probable one."""
    failures = {mode.name for mode in all_modes() if mode.is_failure}
    found = [e for e in under_way.values() if e.mode in failures]
    if not found:
        return None
    e = max(found, key=lambda e: e.probability)
    first, *rest = _listed(remedies, e.mode)
    text = _headline(f"{label_of(e.mode)}{_since(e)}", e)
    return TopLine("watch", e.mode, e.probability, text, first, "the timeline", (*rest,))


def _suspected(said: ClassPosterior, timeline: Timeline, remedies: Mapping[str, Sequence[str]]) -> TopLine | None:
    """Something may fail: half of the probability or more is an alarm, as it is for `AnswerProbabilities.alarming`.

    A failure that the log could not show is suspected of every such log, and is no reason to look at this one.
    """
    mode = max(MODES, key=said.own.__getitem__)
    if said.failing >= BORDERS.probable:
        first, *rest = _listed(remedies, mode)
        text = f"something fails, most probably {label_of(mode)} ({probability_text(said.own[mode])})."
        return TopLine("failing", mode, said.failing, text, first, "all failures together", (*rest,))
    seen = [m for m in MODES if timeline.modes[m].seen and said.own[m] >= BORDERS.suspect]
    if not seen:
        return None
    mode = max(seen, key=said.own.__getitem__)
    text = f"{label_of(mode)} is possible ({probability_text(said.own[mode])}), and less probable than not."
    action = f"go on, and look again after a tenth more steps; should it last: {_listed(remedies, mode)[0]}"
    return TopLine("watch", mode, said.own[mode], text, action, "the timeline", tuple(_listed(remedies, mode)[1:]))


def _calm(
    said: ClassPosterior, timeline: Timeline, trends: RunTrends, remedies: Mapping[str, Sequence[str]]
) -> TopLine:
    """Nothing fails that the log could show."""
    spent = rate_spent_at(trends.run.step, trends.run.signals.get("learning_rate"))
    level, moved = f"{trends.reward.mean[-1]:.3g}", float(np.median(trends.reward.change()))
    still = f"the reward has not risen beyond its noise: it stands at {level}, {moved:+.2g} since the start."
    rests, rises = (timeline.modes[name].under_way for name in ("plateaued", "growing"))
    rose = _rose(timeline, trends)
    planned = _planned_end(trends)
    # At rest high up there is little left to learn from these prompts, low down they are too hard.
    prompts = "harder" if trends.reward.mean[-1] >= trends.low + 0.5 * trends.span else "easier"
    anew = f"stop; another run needs a higher learning rate, {prompts} prompts, or more steps to rise."
    if spent is not None:
        text = f"the learning rate has come to its end at about step {spent:g}, and "
        text += "nothing moves any more." if rose else still
        take = "stop, and take the checkpoint with the best held-out score."
        rests_on = "the logged learning rate"
        return TopLine("done", "plateaued", 1.0 - said.failing, text, take if rose else anew, rests_on)
    if planned is not None:
        text = f"the run is at the end of its {planned:g} planned steps, and "
        text += f"the reward has risen to {level}." if rose else still
        take = "take the checkpoint with the best held-out score; more steps need a learning rate that goes on."
        rests_on = "the planned number of steps"
        return TopLine("done", said.answer, 1.0 - said.failing, text, take if rose else anew, rests_on)
    rows = trends.reward.rows
    calm = max(rests, rises) >= BORDERS.probable
    if said.answer == CANNOT_TELL or rows < _LEAST or not (calm or rose):
        text = "nothing that fails is seen, and whether the reward rises cannot be told yet."
        action = f"go on, and look again when the log has {max(2 * rows, _FEW)} rows."
        return TopLine("unclear", said.answer, said.probability[said.answer], text, action, "the reward's trend")
    if rests >= BORDERS.probable and rests >= rises and not rose:
        first, *rest = remedies.get("plateaued", ()) or ("raise the learning rate, or take easier prompts",)
        return TopLine(
            "watch", "plateaued", rests, still, f"{first}.", "the reward's trend", tuple(f"{x}." for x in rest)
        )
    if rests >= BORDERS.probable and rests >= rises:
        text = f"the reward is at rest at {level}."
        action = f"stop if that is what you need; a higher learning rate or {prompts} prompts may move it again."
        return TopLine("done", "plateaued", rests, text, action, "the reward's trend")
    if rises >= BORDERS.probable:
        return TopLine("fine", "growing", rises, "the reward rises, and nothing fails.", "go on.", "the timeline")
    text = f"nothing fails, and the reward stands at {level}."
    return TopLine("fine", said.answer, 1.0 - said.failing, text, "go on.", "the timeline")


def _planned_end(trends: RunTrends) -> float | None:
    """The planned number of steps where the log has reached it, None elsewhere."""
    planned = trends.run.settings.total_steps
    if not planned.value or planned.provenance is Provenance.ASSUMED or trends.run.step[-1] < planned.value:
        return None
    return float(planned.value)


def _since(episode: Episode) -> str:
    i = episode.onset
    return f" since about step {i.median:.0f} [{i.low:.0f}, {i.high:.0f}]"


def _headline(text: str, episode: Episode) -> str:
    return f"{text}: {episode.depth}." if episode.depth else f"{text}."


def _listed(remedies: Mapping[str, Sequence[str]], mode: str) -> list[str]:
    """The remedies of a mode as sentences, at least one."""
    return [f"{x}." for x in remedies.get(mode, ())] or ["read the completions of the last steps."]
