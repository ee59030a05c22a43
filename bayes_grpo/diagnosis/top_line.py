"""The top line: how a run stands in one word, the one thing to do now, how probable that is, and what it rests on.

What follows from the timeline alone. Whoever knows more, such as a forecast or costs, replaces what there is to do of a
run that does not fail (`bayes_grpo.report.advice`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bayes_grpo.common.intervals import probability_text
from bayes_grpo.common.results import Result
from bayes_grpo.diagnosis.classes import CANNOT_TELL, MODES
from bayes_grpo.diagnosis.classify import ClassPosterior
from bayes_grpo.diagnosis.mode import label_of
from bayes_grpo.diagnosis.timeline import Episode, Timeline
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.collapse import lost_along, share_lost
from bayes_grpo.events.learning_rate import rate_spent_at

Status = Literal["fine", "watch", "failing", "failed", "done", "unclear"]

MEANING: Mapping[Status, str] = {
    "fine": "the reward rises and nothing fails",
    "watch": "nothing fails for certain, and something should be looked at",
    "failing": "a failure is under way that can be mended",
    "failed": "the run has lost what it had, or has nothing left to learn from",
    "done": "nothing moves any more, and nothing fails",
    "unclear": "the log says too little",
}
"""Status → what it means, for whoever reads it first."""
ALARMING: tuple[Status, ...] = ("failing", "failed")
"""Those that somebody should be woken for."""


@dataclass(frozen=True)
class TopLine(Result):
    """How a run stands and what to do.

    Attributes:
        status: One of `MEANING`.
        finding: Mode or answer that it rests on.
        probability: Probability of the status: that of the finding.
        headline: What is so, a sentence.
        action: The one thing to do now, a sentence.
        rests_on: What both rest on.
    """

    status: Status
    finding: str
    probability: float
    headline: str
    action: str
    rests_on: str

    in_json = ("sentence", ..., "meaning")

    @property
    def meaning(self) -> str:
        """What the status means."""
        return MEANING[self.status]

    @property
    def alarming(self) -> bool:
        """Whether somebody should be woken."""
        return self.status in ALARMING

    @property
    def sentence(self) -> str:
        """The line in words."""
        p = probability_text(self.probability)
        return f"{self.status.upper()} (probability {p}): {self.headline} Do now: {self.action}"


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
    if failing:
        return _failing(failing, trends, remedies)
    beside = [e for e in under_way.values() if e.mode not in MODES and e.mode not in ("growing", "plateaued")]
    if beside:
        e = max(beside, key=lambda e: e.probability)
        text = f"{label_of(e.mode)}{_since(e)}"
        return TopLine("watch", e.mode, e.probability, _headline(text, e), _first(remedies, e.mode), "the timeline")
    if said.failing >= BORDERS.suspect:
        return _suspected(said, timeline, remedies)
    return _calm(said, timeline, trends, remedies)


def _failing(found: list[Episode], trends: RunTrends, remedies: Mapping[str, Sequence[str]]) -> TopLine:
    """A failure that is probable: the collapse first, because what stands beside one mostly follows from it."""
    trend = trends.reward
    gone = lost_along(trend, trends.span, trends.low)[:, -1]
    p_gone = float(np.mean(gone)) if share_lost(trend, trends.span, trends.low)[-1] > BORDERS.lost else 0.0
    named = {e.mode: e for e in found}
    fell = named.get("dynamical_instability")
    if fell is not None and p_gone >= BORDERS.probable:
        text = f"the reward has collapsed{_since(fell)}"
        action = _first(remedies, fell.mode)
        return TopLine("failed", fell.mode, fell.probability, _headline(text, fell), action, "the reward's trend")
    worst = max(found, key=lambda e: e.probability)
    level = float(trends.share(trend.mean[-1]))
    if worst.mode == "advantage_degeneracy" and level > BORDERS.solved:
        text = f"the task is solved: the reward stands at {level:.0%} of its range, and few groups have a spread."
        return TopLine("done", worst.mode, worst.probability, text, _first(remedies, worst.mode), "reward and groups")
    text = f"{label_of(worst.mode)}{_since(worst)}"
    beside = [label_of(e.mode) for e in found if e is not worst]
    text = f"{text}, beside {' and '.join(beside)}" if beside else text
    return TopLine(
        "failing", worst.mode, worst.probability, _headline(text, worst), _first(remedies, worst.mode), "the timeline"
    )


def _suspected(said: ClassPosterior, timeline: Timeline, remedies: Mapping[str, Sequence[str]]) -> TopLine:
    """Something may fail: half of the probability or more is an alarm, as it is for `AnswerProbabilities.alarming`."""
    mode = max(MODES, key=lambda mode: said.own[mode])
    seen, p = timeline.modes[mode].seen, said.failing
    if p >= BORDERS.probable:
        text = f"something fails, most probably {label_of(mode)} ({probability_text(said.own[mode])})."
        return TopLine("failing", mode, p, text, _first(remedies, mode), "all failures together")
    text = f"something may fail, first of all {label_of(mode)} ({probability_text(said.own[mode])})."
    action = _first(remedies, mode) if seen else "log what would show it; nothing in this log does."
    return TopLine("watch", mode, p, text, action, "all failures together")


def _calm(
    said: ClassPosterior, timeline: Timeline, trends: RunTrends, remedies: Mapping[str, Sequence[str]]
) -> TopLine:
    """Nothing fails that the log could show."""
    spent = rate_spent_at(trends.run.step, trends.run.signals.get("learning_rate"))
    if spent is not None:
        text = f"the learning rate has come to its end at about step {spent:g}, and nothing moves any more."
        action = "stop, and take the checkpoint with the best held-out score."
        return TopLine("done", "plateaued", 1.0 - said.failing, text, action, "the logged learning rate")
    if said.answer == CANNOT_TELL:
        text = "nothing that fails is seen, and whether the reward rises cannot be told yet."
        action = f"go on, and look again when the log has twice its {trends.reward.rows} rows."
        return TopLine("unclear", CANNOT_TELL, said.probability[CANNOT_TELL], text, action, "the reward's trend")
    rests = timeline.modes["plateaued"].under_way
    if rests >= BORDERS.probable:
        text = f"the reward is at rest at {trends.reward.mean[-1]:.3g}."
        return TopLine("done", "plateaued", rests, text, _first(remedies, "plateaued", -1), "the reward's trend")
    rises = timeline.modes["growing"].under_way
    if rises >= BORDERS.probable:
        return TopLine("fine", "growing", rises, "the reward rises, and nothing fails.", "go on.", "the timeline")
    text = f"nothing fails, and the reward stands at {trends.reward.mean[-1]:.3g}."
    return TopLine("fine", said.answer, 1.0 - said.failing, text, "go on.", "the timeline")


def _since(episode: Episode) -> str:
    i = episode.onset
    return f" since about step {i.median:.0f} [{i.low:.0f}, {i.high:.0f}]"


def _headline(text: str, episode: Episode) -> str:
    return f"{text}: {episode.depth}." if episode.depth else f"{text}."


def _first(remedies: Mapping[str, Sequence[str]], mode: str, place: int = 0) -> str:
    """The first remedy of a mode, a sentence."""
    found = remedies.get(mode, ())
    return f"{found[place]}." if found else "look at the completions of the last steps."
