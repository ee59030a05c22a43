"""The result of a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayes_grpo.common.frames import fields_of, frame_of
from bayes_grpo.common.intervals import LEVEL, Interval, probability_text
from bayes_grpo.common.strict_json import json_safe

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Candidate:
    """Settings that the next run could have.

    Attributes:
        settings: Their values.
        steps: Steps that the completions allow.
        reward: Latent reward of the next run after them.
        mean_reward: Its mean, by which candidates are ranked.
        gain: Reward above that of the present settings.
        p_better: Probability that the gain is positive; NaN for the present settings.
        p_stable: Probability of being stable by the published rule.
        useless: Share of groups without any spread at the present success rate, pᴳ + (1 − p)ᴳ; NaN where unknown.
        reach_steps: Steps after which the goal is reached with the probability asked for; None where it is not.
        reach_cost: Money of them; None without a price.
        prior_share: Share of what the change does to the rate that is prior and not data.
        present: Whether these are the present settings.
    """

    settings: dict[str, float]
    steps: float
    reward: Interval
    mean_reward: float
    gain: Interval
    p_better: float
    p_stable: float
    useless: float
    reach_steps: float | None
    reach_cost: float | None
    prior_share: float
    present: bool

    @property
    def words(self) -> str:
        """The settings in words."""
        return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in self.settings.items())


@dataclass(frozen=True, eq=False)
class Plan:
    """Settings for the next run.

    Attributes:
        candidates: All that were looked at.
        basis: What it rests on.
        until: Steps of the next run at the present settings.
        completions: Completions of these.
        cost: Their money; None without a price.
        goal: Reward to be reached; None where none was asked for.
        probability: With which probability.
        stable: Probability of being stable from which settings are recommended.
    """

    candidates: tuple[Candidate, ...]
    basis: str
    until: float
    completions: float
    cost: float | None
    goal: float | None
    probability: float
    stable: float

    @property
    def present(self) -> Candidate:
        """The present settings."""
        return next(c for c in self.candidates if c.present)

    @property
    def recommended(self) -> Candidate:
        """The settings with the highest expected reward among those that are probably stable; else the present ones."""
        safe = [c for c in self.candidates if c.p_stable >= self.stable]
        return max(safe, key=lambda c: c.mean_reward, default=self.present)

    @property
    def sentence(self) -> str:
        """The recommendation in words."""
        best, now = self.recommended, self.present
        if best.present:
            return f"Keep {now.words}: no candidate is expected to do better with the same completions."
        gain = best.mean_reward - now.mean_reward
        return (
            f"Take {best.words}: {best.mean_reward:.3g} expected after {best.steps:.4g} steps, {gain:+.3g} against "
            f"{now.words} with the same completions (P(better) {probability_text(best.p_better)}, P(stable) "
            f"{probability_text(best.p_stable)}); {best.prior_share:.0%} of what the change does is prior."
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready dictionary; numbers that are not finite become None."""
        each = []
        for c in self.candidates:
            each.append({k: v._asdict() if isinstance(v, Interval) else v for k, v in fields_of(c).items()})
        whole = fields_of(self, "candidates")
        return json_safe(
            whole
            | {
                "sentence": self.sentence,
                "interval_level": LEVEL,
                "recommended": self.recommended.settings,
                "candidates": each,
            }
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a candidate, the settings as columns."""
        names = list(self.candidates[0].settings)
        rows = ({**c.settings, **fields_of(c, "settings")} for c in self.candidates)
        return frame_of(rows, names)


def number(x: float | None, form: str = ".3g") -> str:
    """A number, or nothing where there is none."""
    return "" if x is None or math.isnan(x) else format(x, form)
