"""Bayes' rule: a prior, learned likelihoods, posterior probabilities.

    P(answer | features) ∝ prior(answer) · p(features | answer)^τ

The likelihoods come from simulated runs (`likelihoods.json`; benchmarks/learn_diagnosis.py rebuilds it). The exponent
τ < 1 is chosen on simulated runs that were not used for learning; it says how much of the evidence counts, because a
real log is never quite like a simulated one.

"Cannot tell" has two sources. It has a likelihood of its own, a broad law over all features, which wins where no
simulated run lies. And a log that leaves the prior as it was has not told anything: with I the information that
`PRIOR` gains, KL(posterior ‖ prior) in nats, a share exp(-`DECISIVE` I) of all probability moves to "cannot tell".
Where that is much, posterior and prior are nearly the same, so that reading "cannot tell" as the prior keeps the
calibration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from bayes_grpo.common.errors import PriorError
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL, CLASSES, MODES, PRIOR
from bayes_grpo.diagnosis.features import vector
from bayes_grpo.diagnosis.mixture import Mixture

HACKING, INSTABILITY, KL_FEATURE = "reward_hacking", "dynamical_instability", "kl_ahead"
DECISIVE = 5.0
"""Weight of a nat of information: after 0.5 nat a twelfth of the doubt is left, after 1 nat less than a hundredth."""


@dataclass(frozen=True, eq=False)
class Likelihoods:
    """The learned table.

    Attributes:
        names: Features in order.
        classes: Class → density of the runs that are called so.
        present: Mode → density of the runs in which it is under way, alone or not.
        background: Density of "cannot tell".
        temper: Exponent τ of all likelihoods.
        provenance: How it was made.
    """

    names: tuple[str, ...]
    classes: Mapping[str, Mixture]
    present: Mapping[str, Mixture]
    background: Mixture
    temper: float
    provenance: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready content."""
        return {
            "provenance": dict(self.provenance),
            "names": list(self.names),
            "temper": self.temper,
            "classes": {k: m.to_dict() for k, m in self.classes.items()},
            "present": {k: m.to_dict() for k, m in self.present.items()},
            "background": self.background.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Likelihoods:
        """The inverse of `to_dict`."""
        return cls(
            tuple(content["names"]),
            {k: Mixture.from_dict(v) for k, v in content["classes"].items()},
            {k: Mixture.from_dict(v) for k, v in content["present"].items()},
            Mixture.from_dict(content["background"]),
            float(content["temper"]),
            content["provenance"],
        )


@dataclass(frozen=True)
class Posterior:
    """What Bayes' rule gives.

    Attributes:
        probability: Answer → probability; sums to 1.
        own: Mode → probability that it is under way, alone or beside another.
    """

    probability: dict[str, float]
    own: dict[str, float]


@cache
def shipped_likelihoods() -> Likelihoods:
    """The table of the package."""
    text = resources.files("bayes_grpo.diagnosis").joinpath("likelihoods.json").read_text(encoding="utf-8")
    return Likelihoods.from_dict(json.loads(text))


def posterior(
    features: Mapping[str, float], prior: Mapping[str, float] | None = None, table: Likelihoods | None = None
) -> Posterior:
    """Posterior probabilities of a run.

    Args:
        features: Feature name → value, NaN where the log cannot say.
        prior: Probabilities of all of `ANSWERS`; `PRIOR` if None.
        table: Likelihoods; the shipped ones if None.
    """
    table = table or shipped_likelihoods()
    weights = PRIOR if prior is None else prior
    x = vector(dict(features), table.names)
    logs = {name: table.temper * table.classes[name].log_density(x) for name in CLASSES}
    present_logs = {mode: table.temper * table.present[mode].log_density(x) for mode in MODES}
    if not np.isfinite(features.get("gain_score", np.nan)):
        # Only a held-out reward: its fall is what both look like, and tells nothing of which it is.
        for found_logs in (logs, present_logs):
            both = float(np.logaddexp(found_logs[HACKING], found_logs[INSTABILITY]) - np.log(2.0))
            found_logs[HACKING] = found_logs[INSTABILITY] = both
    elif not np.isfinite(features.get("coupling", np.nan)):
        logs[HACKING] = present_logs[HACKING] = _unseen_hacking(features, table)
    logs[CANNOT_TELL] = table.temper * table.background.log_density(x)
    joint, found = _joint(logs, weights)
    # What a log tells is a matter of the log: the stated prior has no say in it.
    doubt = float(np.exp(-DECISIVE * _information(_joint(logs, PRIOR)[1], PRIOR)))
    probability = {name: (1.0 - doubt) * found[name] for name in CLASSES}
    probability[CANNOT_TELL] = 1.0 - sum(probability.values())
    own = {}
    for mode in MODES:
        present = np.log(max(weights[mode], 1e-12)) + present_logs[mode]
        absent = np.logaddexp.reduce([joint[name] for name in ANSWERS if name != mode])
        alone = float(1.0 / (1.0 + np.exp(np.clip(absent - present, -700, 700))))
        own[mode] = max((1.0 - doubt) * alone + doubt * weights[mode], probability[mode])
    return Posterior(probability, own)


def _joint(logs: Mapping[str, float], prior: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Log joint densities of the answers, and their posterior probabilities."""
    joint = {name: float(np.log(max(prior[name], 1e-12))) + logs[name] for name in ANSWERS}
    total = np.logaddexp.reduce(list(joint.values()))
    return joint, {name: float(np.exp(joint[name] - total)) for name in ANSWERS}


def _unseen_hacking(features: Mapping[str, float], table: Likelihoods) -> float:
    """Log likelihood of reward hacking in a log without a held-out reward.

    Hacking is a train reward that rises without the held-out one. Of a train reward alone, everything but the KL looks
    as in an honest run; simulated runs that betray themselves otherwise are no guide.
    """
    x = vector(dict(features), table.names)
    is_kl = np.array([name == KL_FEATURE for name in table.names])
    honest = table.classes["healthy"].log_density(np.where(is_kl, np.nan, x))
    return table.temper * (honest + table.classes[HACKING].log_density(np.where(is_kl, x, np.nan)))


def _information(found: Mapping[str, float], prior: Mapping[str, float]) -> float:
    """Information about the classes in nats, KL(posterior ‖ prior) among them."""
    p, q = (np.array([values[name] for name in CLASSES]) for values in (found, prior))
    p, q = p / max(p.sum(), 1e-300), np.maximum(q, 1e-12) / max(q.sum(), 1e-12)
    return float(np.sum(p * np.log(np.maximum(p, 1e-300) / q)))


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


def most_likely(probability: Mapping[str, float], names: Sequence[str] = ANSWERS) -> str:
    """The answer of highest probability."""
    return max(names, key=lambda name: probability[name])
