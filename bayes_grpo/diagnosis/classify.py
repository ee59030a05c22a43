"""One answer for a whole run, from its timeline: what leads at its last row.

    P(no failure) = Π (1 - p_m),   P(m leads) ∝ p_m / (1 - p_m) for the rest,   p_m: that m is under way

A run without a failure is healthy if its reward rose at some time and has plateaued if it never did. "Cannot tell" is
the largest share of the posterior that could be the prior as it was, min over the classes of P / `PRIOR`: what is left
when it is taken away is what the log said. Read as the prior, it gives the posterior back, so that naming it costs no
calibration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import PriorError
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL, CLASSES, MODES, PRIOR, AnswerProbabilities
from bayes_grpo.diagnosis.timeline import Timeline, timeline_of
from bayes_grpo.diagnosis.trends import RunTrends

_LEAST = 1e-9


@dataclass(frozen=True)
class ClassPosterior(AnswerProbabilities):
    """Probabilities of a run.

    Attributes:
        probability: Answer → probability; sums to 1.
        own: Mode → probability that it is under way, alone or beside another.
    """

    probability: Mapping[str, float]
    own: Mapping[str, float]

    @property
    def answer(self) -> str:
        """The answer of highest probability."""
        return max(ANSWERS, key=lambda name: self.probability[name])


def posterior(timeline: Timeline | None, prior: Mapping[str, float] | None = None) -> ClassPosterior:
    """Probabilities of the answers.

    Args:
        timeline: Of the run; None where its log has too few rewards for one.
        prior: Probabilities of all of `ANSWERS`; `PRIOR` if None. The failures' are in the timeline already (`shifts`).
    """
    weights = PRIOR if prior is None else prior
    if timeline is None:
        return ClassPosterior(
            {name: float(name == CANNOT_TELL) for name in ANSWERS}, {mode: weights[mode] for mode in MODES}
        )
    own = {mode: timeline.modes[mode].under_way for mode in MODES}
    found = leading(own, timeline.modes["growing"].ever, weights)
    total = sum(weights[name] for name in CLASSES)
    share = min(found[name] * total / max(weights[name], _LEAST) for name in CLASSES)
    share = min(share, 1.0)
    probability = {name: max(found[name] - share * weights[name] / total, 0.0) for name in CLASSES}
    probability[CANNOT_TELL] = 1.0 - sum(probability.values())
    return ClassPosterior(probability, {mode: max(own[mode], probability[mode]) for mode in MODES})


def answers_of(
    trends: RunTrends | None, prior: Mapping[str, float] | None = None
) -> tuple[Timeline | None, ClassPosterior]:
    """Timeline and answers of a run.

    Args:
        trends: Trends of the run; None where its log has too few rewards.
        prior: Probabilities of all of `ANSWERS`; `PRIOR` if None.
    """
    weights = PRIOR if prior is None else prior
    timeline = None if trends is None else timeline_of(trends, shifts_of(weights))
    return timeline, posterior(timeline, weights)


def leading(under_way: Mapping[str, float], grew: float, weights: Mapping[str, float]) -> dict[str, float]:
    """Class → probability that it leads, before doubt; sums to 1.

    Args:
        under_way: Failure → probability that it is under way.
        grew: Probability that the reward rose at some time.
        weights: Prior probabilities of all answers; of a healthy run and a plateau their ratio counts.
    """
    p = np.clip([under_way[mode] for mode in MODES], 0.0, 1.0 - _LEAST)
    none = float(np.prod(1.0 - p))
    odds = p / (1.0 - p)
    found = dict(zip(MODES, ((1.0 - none) * odds / max(odds.sum(), 1e-300)).tolist(), strict=True))
    usual, stated = (x["healthy"] / max(x["healthy"] + x["plateaued"], _LEAST) for x in (PRIOR, weights))
    healthy, plateau = grew * stated / usual, (1.0 - grew) * (1.0 - stated) / (1.0 - usual)
    rose = healthy / max(healthy + plateau, _LEAST)
    return {"healthy": none * rose, "plateaued": none * (1.0 - rose)} | found


def shifts_of(prior: Mapping[str, float]) -> dict[str, float]:
    """Failure → what a prior adds to its log odds over the usual one's.

    Args:
        prior: Probabilities of all of `ANSWERS`.
    """

    def log_odds(p: float) -> float:
        p = min(max(p, _LEAST), 1.0 - _LEAST)
        return float(np.log(p / (1.0 - p)))

    return {mode: log_odds(prior[mode]) - log_odds(PRIOR[mode]) for mode in MODES}


def checked_prior(values: Mapping[str, float]) -> dict[str, float]:
    """A prior over all answers: the stated ones, the rest shared out as in `PRIOR`.

    Raises:
        PriorError: An unknown name, or numbers that are no probabilities.
    """
    for name, value in values.items():
        if name not in ANSWERS:
            raise PriorError(f"--prior: expected one of {', '.join(ANSWERS)}, found {name!r}; correct its name")
        if not (isinstance(value, int | float) and 0.0 <= value <= 1.0):
            raise PriorError(f"--prior: expected {name} between 0 and 1, found {value!r}; correct it")
    stated = float(sum(values.values()))
    rest = [name for name in ANSWERS if name not in values]
    if stated > 1.0 + 1e-9 or (not rest and abs(stated - 1.0) > 1e-6):
        raise PriorError(f"--prior: expected probabilities that sum to at most 1, found {stated:g}; lower some")
    share = sum(PRIOR[name] for name in rest)
    return {name: float(values[name]) if name in values else PRIOR[name] / share * (1.0 - stated) for name in ANSWERS}


def effective(probability: Mapping[str, float], prior: Mapping[str, float]) -> np.ndarray:
    """Probabilities of `CLASSES` for scoring: "cannot tell" stands for the prior among them, shape (6,)."""
    p = np.array([probability[name] for name in CLASSES])
    base = np.array([prior[name] for name in CLASSES])
    return p + probability[CANNOT_TELL] * base / base.sum()
