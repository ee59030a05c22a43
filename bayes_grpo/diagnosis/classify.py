"""Probabilities of the answers: the layer's, with what the log cannot show left at its prior.

    P(class | log) ∝ likelihood of the class · prior(class)

A failure whose signal is not logged cannot be told from the class in which it hides: hacking without a held-out reward
from honest growth, concentration without the entropy from a plateau. It takes its prior's share of that class. In a
log of held-out rewards alone that fall, only the strain of other signals tells instability from hacking; without any
such signal both look alike.

The failure that leads takes the probability. Another may be under way beside it, and a collapse that takes the spread
of every group along looks like two failures and is one:

    P(m under way) = P(m leads) + P(another leads) · σ(intercept + slope · log odds of m against no failure)

"Cannot tell" is the largest share of the posterior that could be the prior as it was, min over the classes of
P / `PRIOR`: what is left when it is taken away is what the log said. Read as the prior, it gives the posterior back, so
that naming it costs no calibration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayes_grpo.common.errors import PriorError
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL, CLASSES, MODES, PRIOR, AnswerProbabilities
from bayes_grpo.diagnosis.layer import Comorbidity, Layer, combined_features, shipped_layer
from bayes_grpo.events.borders import BORDERS

HACKING, _CONCENTRATION, INSTABILITY = "reward_hacking", "policy_concentration", "dynamical_instability"
HIDES = {HACKING: ("uncoupled", "healthy"), _CONCENTRATION: ("spent", "plateaued")}
"""Failure → feature that would show it, and the class that it is taken for without."""


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


def posterior(
    features: Mapping[str, float], prior: Mapping[str, float] | None = None, layer: Layer | None = None
) -> ClassPosterior:
    """Posterior probabilities of a run.

    Args:
        features: Feature name → value, NaN or absent where the log cannot say.
        prior: Probabilities of all of `ANSWERS`; `PRIOR` if None.
        layer: The layer; the shipped one if None.
    """
    weights = PRIOR if prior is None else prior
    if not np.isfinite(features.get("grew", np.nan)):
        return _untold(weights)
    layer = layer or shipped_layer()
    found = leading(features, weights, layer)
    own = under_way(found, layer.comorbidity)
    # What a log tells is a matter of the log: the stated prior has no say in it.
    share = min(_doubt(leading(features, PRIOR, layer), PRIOR), _doubt(found, weights))
    total = sum(weights[name] for name in CLASSES)
    probability = {name: max(found[name] - share * weights[name] / total, 0.0) for name in CLASSES}
    probability[CANNOT_TELL] = 1.0 - sum(probability.values())
    return ClassPosterior(probability, {m: max(own[m], probability[m]) for m in MODES})


def _untold(weights: Mapping[str, float]) -> ClassPosterior:
    """Where no reward says anything, nothing is told."""
    return ClassPosterior({name: float(name == CANNOT_TELL) for name in ANSWERS}, {m: weights[m] for m in MODES})


def leading(features: Mapping[str, float], weights: Mapping[str, float], layer: Layer) -> dict[str, float]:
    """Class → probability that it leads, before doubt; sums to 1.

    Args:
        features: Feature name → value, NaN or absent where the log cannot say.
        weights: Prior probabilities of the classes.
        layer: The layer.
    """
    scores = layer.log_likelihoods(features)
    log = {name: scores[name] + float(np.log(max(weights[name], 1e-12))) for name in CLASSES}
    shown = combined_features(features)
    hidden = [m for m, (name, _) in HIDES.items() if not np.isfinite(shown.get(name, np.nan))]
    for mode in hidden:
        log[mode] = -np.inf
    if HACKING in hidden and not features.get("train_reward", 1.0):
        alike = np.logaddexp(scores[HACKING], scores[INSTABILITY]) - np.log(2.0)
        for mode in (HACKING, INSTABILITY):
            log[mode] = alike + float(np.log(max(weights[mode], 1e-12)))
        hidden.remove(HACKING)
    total = np.logaddexp.reduce(list(log.values()))
    found = {name: float(np.exp(log[name] - total)) for name in CLASSES}
    for mode in hidden:
        host = HIDES[mode][1]
        found[mode], found[host] = weights[mode] * found[host], (1.0 - weights[mode]) * found[host]
    return found


def under_way(leads: Mapping[str, float], comorbidity: Comorbidity) -> dict[str, float]:
    """Mode → probability that it is under way, alone or beside another.

    Args:
        leads: Class → probability; sums to 1.
        comorbidity: Learned numbers.
    """
    p = np.array([leads[mode] for mode in MODES])
    odds = log_odds(leads)
    given = 1.0 / (1.0 + np.exp(-(comorbidity.intercept + comorbidity.slope * odds)))
    return dict(zip(MODES, (p + (p.sum() - p) * given).tolist(), strict=True))


def log_odds(leads: Mapping[str, float]) -> np.ndarray:
    """Log odds of each mode against no failure, within ±`BORDERS.mode_log_odds`, shape (modes,)."""
    none = max(leads["healthy"] + leads["plateaued"], 1e-300)
    p = np.array([max(leads[mode], 1e-300) for mode in MODES])
    return np.clip(np.log(p) - np.log(none), -BORDERS.mode_log_odds, BORDERS.mode_log_odds)


def _doubt(found: Mapping[str, float], prior: Mapping[str, float]) -> float:
    """Largest share of a posterior that could be the prior."""
    total = sum(prior[name] for name in CLASSES)
    return min(found[name] * total / max(prior[name], 1e-12) for name in CLASSES)


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
