"""The result of a decomposition: what a gain is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval, span_text
from bayes_grpo.common.results import Result

RISEN = 0.95
"""Probability from which a gain counts as one."""


@dataclass(frozen=True)
class GainShare(Result):
    """Share of one factor, or of one part of the reward, in a gain, with its values in the first and last steps.

    ``name`` is "finished", "formatted", "quality", "others" or that of a part; ``is_form`` says whether it is form
    (finishing, format, length) and not the task; ``share`` is the change over the gain, NaN where there is no clear
    gain.
    """

    name: str
    words: str
    is_form: bool
    before: Interval
    after: Interval
    change: Interval
    share: Interval


class GainCourse(NamedTuple):
    """A gain over b bins of steps: their middles, mean rewards, values and changes of factors or parts, shape (b,)."""

    step: np.ndarray
    reward: np.ndarray
    values: dict[str, np.ndarray]
    changes: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Decomposition(Result):
    """Parts of a change of the reward.

    Attributes:
        name: Of the run.
        first: First and last step of the steps before.
        last: Of the steps after.
        clusters: What the intervals are over, e.g. "80 prompts".
        before: Mean reward before.
        after: Mean reward after.
        gain: After less before.
        p_gain: Probability that the reward rose.
        p_form: Probability that it rose and more than half of that is form; NaN where form cannot be recognized.
        shares: Of finishing, format and the reward of formatted answers, which add up to 1; where nothing tells who
            finished or is formatted, of the parts that add up to the reward. Empty where none do.
        course: Over the steps.
        notes: What a reader should know.
    """

    name: str
    first: tuple[float, float]
    last: tuple[float, float]
    clusters: str
    before: Interval
    after: Interval
    gain: Interval
    p_gain: float
    p_form: float
    shares: tuple[GainShare, ...]
    course: GainCourse
    notes: tuple[str, ...] = ()

    interval_level = LEVEL
    also_in_json = ("sentence", "interval_level")

    @property
    def has_gain(self) -> bool:
        """True where the reward rose beyond doubt, so that there is a gain to decompose."""
        return self.p_gain >= RISEN

    def form_share_at(self, step: np.ndarray) -> np.ndarray:
        """Share of the rise up to steps that is form, of those factors or parts that rose; NaN where none did."""
        none = np.zeros(len(self.course.step))
        rise = {s.name: np.maximum(self.course.changes[s.name], 0.0) for s in self.shares}
        form = sum((rise[s.name] for s in self.shares if s.is_form), none)
        whole = sum(rise.values(), none)
        known = whole > 1e-9
        if not known.any():
            return np.full(np.shape(step), np.nan)
        return np.interp(step, self.course.step[known], form[known] / whole[known])

    @property
    def sentence(self) -> str:
        """Parts of the gain in words."""
        whole = f"from {_span(self.before)} to {_span(self.after)} ({LEVEL:.0%})"
        if not self.shares:
            return f"The reward went {whole}; the rollouts do not show its parts."
        if not self.has_gain:
            moved = "; ".join(f"{s.words} from {_span(s.before)} to {_span(s.after)}" for s in self.shares[:3])
            return f"The reward did not clearly rise ({whole}), so there is no gain to decompose; {moved}."
        order = sorted(self.shares, key=lambda s: -s.share.median)
        best = order[0]
        rest = [s for s in order[1:] if s.name != "others"]
        x = best.share
        most = (
            f"{x.median:.0%} [{100 * x.low:.0f}, {100 * x.high:.0f}] of the gain is {best.words} "
            f"({best.before.median:.3g} to {best.after.median:.3g})"
        )
        return f"The reward rose {whole}: {'; '.join([most, *(_moved(s) for s in rest[:2])])}."


def _moved(share: GainShare) -> str:
    levels = f"from {share.before.median:.3g} to {share.after.median:.3g}"
    if not (share.change.low > 0.0 or share.change.high < 0.0):
        return f"{share.words} went {levels}, not clearly"
    return f"{share.words} {'rose' if share.change.median > 0.0 else 'fell'} {levels}"


def _span(x: Interval) -> str:
    return span_text(x, ".3g", level=False)
