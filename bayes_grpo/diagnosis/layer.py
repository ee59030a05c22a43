"""From events to probabilities: a logistic layer of few numbers, learned from labelled logs and simulated failures.

    score of a class = intercept + Σ weight · how sure the log is of its event,   P ∝ exp(score) · prior / frequency

Every class has few events, each with a bounded value, so that no log can be more certain than the labelled ones were
together. The classes exclude one another, but a failure may be under way beside the one that leads, and `Comorbidity`
says how much of its evidence it keeps there. `laboratory/learners/diagnosis.py` learns the numbers, with normal priors
about `Predictor.weight`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.diagnosis.classes import CLASSES
from bayes_grpo.events.borders import BORDERS


class Predictor(NamedTuple):
    """An event as the layer sees it.

    Attributes:
        belongs: Class whose score it raises.
        name: Feature, or one of `combined_features`.
        unseen: Its value where no signal tells.
        weight: Prior mean of its weight; the prior sd is `WEIGHT_SD`.
    """

    belongs: str
    name: str
    unseen: float
    weight: float


PREDICTORS = (
    Predictor("healthy", "honest", 0.0, 0.7),
    Predictor("healthy", "going", 0.0, 0.5),
    Predictor("plateaued", "still", 0.0, 0.7),
    Predictor("reward_hacking", "uncoupled", -1.2, 2.0),
    Predictor("advantage_degeneracy", "wasted", -1.2, 1.5),
    Predictor("policy_concentration", "spent", -1.0, 1.5),
    Predictor("dynamical_instability", "collapse", -2.0, 2.0),
    Predictor("dynamical_instability", "held_out_collapse", -1.0, 1.0),
    Predictor("dynamical_instability", "swinging", 0.0, 2.5),
    Predictor("dynamical_instability", "strain", 0.0, 1.0),
)
WEIGHT_SD, INTERCEPT_SD = 0.7, 5.0
"""Prior standard deviations, before `laboratory/learners/diagnosis.py` scales the logs' weight."""


class Comorbidity(NamedTuple):
    """How much of its own log odds a failure keeps beside one that leads."""

    intercept: float
    slope: float


@dataclass(frozen=True, eq=False)
class Layer:
    """The learned numbers.

    Attributes:
        intercept: Of every class, in the order of `CLASSES`.
        weight: Of every event, in the order of `PREDICTORS`.
        frequency: How often each class was learned from, in the order of `CLASSES`; sums to 1.
        provenance: From what they were learned.
        comorbidity: How much of its evidence a failure keeps beside another one.
    """

    intercept: np.ndarray
    weight: np.ndarray
    frequency: np.ndarray
    provenance: Mapping[str, Any]
    comorbidity: Comorbidity

    def log_likelihoods(self, features: Mapping[str, float]) -> dict[str, float]:
        """Log likelihood of every class, up to a constant of all: the score less the log of its frequency."""
        values = self.weight * event_values(features)
        belongs = np.array([CLASSES.index(e.belongs) for e in PREDICTORS])
        score = self.intercept + np.bincount(belongs, values, len(CLASSES)) - np.log(self.frequency)
        return dict(zip(CLASSES, score.tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready content."""
        return {
            "provenance": dict(self.provenance),
            "intercept": dict(zip(CLASSES, self.intercept.tolist(), strict=True)),
            "frequency": dict(zip(CLASSES, self.frequency.tolist(), strict=True)),
            "weight": {f"{e.belongs}: {e.name}": float(w) for e, w in zip(PREDICTORS, self.weight, strict=True)},
            "comorbidity": self.comorbidity._asdict(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Layer:
        """The inverse of `to_dict`."""
        return cls(
            np.array([content["intercept"][name] for name in CLASSES]),
            np.array([content["weight"][f"{e.belongs}: {e.name}"] for e in PREDICTORS]),
            np.array([content["frequency"][name] for name in CLASSES]),
            content["provenance"],
            Comorbidity(**content["comorbidity"]),
        )


@cache
def shipped_layer() -> Layer:
    """The numbers of the package."""
    text = resources.files("bayes_grpo.diagnosis").joinpath("layer.json").read_text(encoding="utf-8")
    return Layer.from_dict(json.loads(text))


def event_values(features: Mapping[str, float]) -> np.ndarray:
    """Values of `PREDICTORS`, those that no signal tells of at their unseen value, shape (events,)."""
    known = combined_features(features)
    values = [known.get(e.name, np.nan) for e in PREDICTORS]
    return np.clip(
        [v if np.isfinite(v) else e.unseen for v, e in zip(values, PREDICTORS, strict=True)],
        -BORDERS.layer_bound,
        BORDERS.layer_bound,
    )


def combined_features(features: Mapping[str, float]) -> dict[str, float]:
    """Features with what follows from several.

    Honest growth and standing still; growth excuses waste and spent entropy; a broken reward explains a collapse and
    that spent entropy earned nothing, a collapse that nothing broke that entropy is spent; both a collapse and spent
    entropy explain that groups have no spread. A held-out reward that falls, without a train reward beside it, may have
    parted from it or fallen with it: both events hold, and strain decides.
    """
    found = {k: float(np.clip(v, -BORDERS.layer_bound, BORDERS.layer_bound)) for k, v in features.items()}
    if not found.get("train_reward", 1.0) and np.isfinite(found.get("strain", np.nan)):
        found["uncoupled"] = BORDERS.held_out_alone * found.get(
            "collapse", np.nan
        )  # as far as it goes where the fall is sure
    growth, broken, collapse = (found.get(k, np.nan) for k in ("grew", "broken", "collapse"))
    against = [found.get(k, np.nan) for k in ("uncoupled", "collapse", "spent", "swings")]
    if np.isfinite(growth):
        found["honest"] = float(min(growth, *(-x for x in against if np.isfinite(x)), np.inf))
        moves = [found.get(k, np.nan) for k in ("swings", "collapse")]
        found["still"] = float(min(-growth, *(-x for x in moves if np.isfinite(x)), np.inf))
        # A reward that does not swing may have collapsed all the same; one that swings has no need to.
        found["swinging"] = float(np.maximum(found.get("swings", np.nan), 0.0))
        for name in ("wasted", "spent"):
            found[name] = found.get(name, np.nan) - BORDERS.excused * max(growth, 0.0)
    if np.isfinite(broken) and np.isfinite(collapse):
        spent = found.get("spent", np.nan)
        if broken > 0.0:
            excuse = BORDERS.explained * broken
            found["collapse"], found["spent"] = collapse - excuse, spent - excuse
        else:
            found["wasted"] = found.get("wasted", np.nan) - BORDERS.excused * max(collapse, 0.0)
            found["spent"] = spent - BORDERS.excused * max(collapse, 0.0)
    if np.isfinite(found.get("spent", np.nan)):
        found["wasted"] = found.get("wasted", np.nan) - BORDERS.excused * max(found["spent"], 0.0)
    return found
