"""What the evidence of a mode is made of, and what all modes share: the courses of the signals, and transforms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.common.strict_json import json_safe
from bayes_grpo.diagnosis.trend import Trend, trend
from bayes_grpo.logs.run import Run


@dataclass(frozen=True)
class Quantity:
    """A physical quantity with its posterior.

    Attributes:
        name: Standard name.
        unit: Its unit, empty where it has none.
        meaning: What it is, in a clause.
        posterior: Median and interval.
    """

    name: str
    unit: str
    meaning: str
    posterior: Interval


@dataclass(frozen=True)
class Evidence:
    """Evidence of one mode.

    Attributes:
        mode: "reward_hacking", … or "progress", which all share.
        probability: That the mode's quantity is in its failing range, from its posterior alone; NaN where the log
            has no signal for it.
        quantities: Posteriors of the quantities behind it.
        used: Signals it rests on.
        missing: Signals that would say more.
        sentence: What it says, in words.
        features: What the classification sees, by name; NaN where the log cannot say.
    """

    mode: str
    probability: float
    quantities: tuple[Quantity, ...]
    used: tuple[str, ...]
    missing: tuple[str, ...]
    sentence: str
    features: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready content."""
        return json_safe(
            {
                "mode": self.mode,
                "probability": self.probability,
                "quantities": [
                    {"name": q.name, "unit": q.unit, "meaning": q.meaning, **q.posterior._asdict()}
                    for q in self.quantities
                ],
                "used": self.used,
                "missing": self.missing,
                "sentence": self.sentence,
                "features": dict(self.features),
            }
        )


LOGARITHMIC = {"entropy": 1e-4, "grad_norm": 1e-6, "completion_length": 1.0}
"""Signals whose course is fitted in logarithms, and the smallest value that counts."""
_FITTED = ("reward_std", "frac_reward_zero_std", "entropy", "kl", "grad_norm", "completion_length")


@dataclass(frozen=True, eq=False)
class Courses:
    """The courses of a run's signals.

    Attributes:
        run: The run.
        progress: Train reward, or held-out reward where no train reward is logged.
        held_out: Gold or held-out reward beside a train reward, or None.
        held_out_name: "gold_reward", "eval_reward" or "".
        signals: Canonical name → course; of the logarithm for those in `LOGARITHMIC`.
        low: Lowest reward if known, else NaN.
        high: Highest reward if known, else NaN.
        assumed_range: Whether low and high are a guess from the values.
    """

    run: Run
    progress: Trend
    held_out: Trend | None
    held_out_name: str
    signals: Mapping[str, Trend]
    low: float
    high: float
    assumed_range: bool

    @property
    def uses_eval(self) -> bool:
        """Whether progress is that of the held-out reward."""
        return not self.run.has_reward


def courses_of(run: Run) -> Courses | None:
    """Fits the course of every signal; None where neither reward has three values."""
    step = run.step
    train = trend(step, run.reward, seed=1)
    held = trend(run.eval_step, run.eval_reward, seed=2)
    name = "eval_reward" if held is not None else ""
    gold = run.signals.get("gold_reward")
    if gold is not None and train is not None:
        course = trend(step, gold, seed=3)
        if course is not None and (held is None or course.rows > held.rows):
            held, name = course, "gold_reward"
    progress = train or held
    if progress is None:
        return None
    if train is None:
        held, name = None, ""
    signals = {}
    for number, key in enumerate(_FITTED):
        values = run.signals.get(key)
        if values is None:
            continue
        if key in LOGARITHMIC:
            values = np.log(np.maximum(values, LOGARITHMIC[key]))
        course = trend(step, values, seed=10 + number)
        if course is not None:
            signals[key] = course
    low, high, assumed = _reward_range(run, progress)
    return Courses(run, progress, held, name, signals, low, high, assumed)


def _reward_range(run: Run, progress: Trend) -> tuple[float, float, bool]:
    low, high = run.settings.reward_low.value, run.settings.reward_high.value
    if low is not None and high is not None:
        return float(low), float(high), False
    if progress.raw.min() >= 0.0 and progress.raw.max() <= 1.0:
        return 0.0, 1.0, True
    return np.nan, np.nan, True


MANY = 4.0
"""Largest size of a change in noise sd on the asinh scale, 27 sd: beyond that more is not more evidence."""


def quantity(name: str, draws: np.ndarray, unit: str, meaning: str) -> Quantity:
    """A quantity from its draws."""
    return Quantity(name, unit, meaning, interval(draws))


def log_odds(probability: float, draws: float = 200.0) -> float:
    """Log odds of a probability that was counted among so many draws, so that 0 and 1 stay finite."""
    p = (probability * draws + 0.5) / (draws + 1.0)
    return float(np.log(p / (1.0 - p)))


def logit(share: np.ndarray | float, edge: float = 0.003) -> np.ndarray:
    """Log odds of shares, kept off 0 and 1."""
    p = np.clip(share, edge, 1.0 - edge)
    return np.log(p / (1.0 - p))


def score(draws: np.ndarray) -> float:
    """Posterior mean over posterior sd, compressed: asinh, so that a huge one is not decisive alone."""
    return float(np.arcsinh(draws.mean() / max(draws.std(), 1e-300)))
