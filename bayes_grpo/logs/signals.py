"""Canonical signals of a run: one row each, from which readers, documentation and diagnosis take what they mean.

A signal that trainers measure in several ways has a definition for each; `Run.definitions` says which one a log holds.
Below p is the probability that the trainer gives a token, q the one that the engine had which sampled it; means are
over the tokens of a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

STANDARD = "standard"
"""Definition of a signal that all trainers measure alike."""
UNDEFINED = "unknown"
"""Definition where neither the key nor the trainer says which of several it is."""


class Healthy(NamedTuple):
    """Values that runs without trouble have, both ends included, and who says so."""

    low: float
    high: float
    source: str


class Definition(NamedTuple):
    """One way to measure a signal.

    Attributes:
        word: What `Run.definitions` calls it.
        formula: How it is computed.
        healthy: Its healthy range, None where none is known.
        negative: Whether it may be below 0.
    """

    word: str
    formula: str
    healthy: Healthy | None = None
    negative: bool = False


@dataclass(frozen=True, kw_only=True)
class CanonicalSignal:
    """Meaning of one canonical signal.

    Attributes:
        name: Its canonical name.
        meaning: What it measures.
        unit: Its unit.
        better: Which direction is an improvement; "" where neither is by itself.
        negative: Whether it may be below 0; a definition may say otherwise.
        log_floor: Smallest value that counts where its changes are ratios; None where they are differences.
        healthy: Its healthy range whatever the definition; None where none is known.
        definitions: Short name, as in the table of trainers → definition; empty where there is one alone. That of "" is
            the one of keys without a short name.
    """

    name: str
    meaning: str
    unit: str
    better: Literal["higher", "lower", ""] = ""
    negative: bool = False
    log_floor: float | None = None
    healthy: Healthy | None = None
    definitions: Mapping[str, Definition] = field(default_factory=dict)

    def word(self, short: str) -> str:
        """Definition behind a short name from the table of trainers; "" means that a key has none."""
        if short or short in self.definitions:
            return self.definitions[short].word
        return UNDEFINED if self.definitions else STANDARD

    def defined(self, word: str) -> Definition | None:
        """The definition that `Run.definitions` calls so; None for `STANDARD` and `UNDEFINED`."""
        return next((d for d in self.definitions.values() if d.word == word), None)

    def healthy_range(self, word: str = STANDARD) -> Healthy | None:
        """The healthy range under a definition, else that of the signal; None where none is known."""
        found = self.defined(word)
        return found.healthy if found is not None and found.healthy is not None else self.healthy


_SHARE = "fraction"
_TOKENS = "tokens a completion"
_NATS = "nats a token"
_VERL = "verl's page on rollout correction"
_MISMATCH = {
    "k3": Definition(
        "k3",
        "mean of p/q − 1 − log(p/q)",
        Healthy(0.0, 2e-3, "above the 6e-4 of a dense model and 1.5e-3 of one with experts in arXiv:2510.11370"),
    ),
    "k2": Definition("k2", "half the mean of log(p/q)²", Healthy(0.0, 1e-2, "Tinker's page on asynchronous training")),
    "k1": Definition(
        "k1",
        "mean of log q − log p",
        Healthy(-1e-2, 1e-2, "Tinker's page on asynchronous training"),
        negative=True,
    ),
    "signed": Definition(
        "log-probability difference",
        "mean of log p − log q",
        Healthy(-1e-2, 1e-2, "as k1, of which it is the negative"),
        negative=True,
    ),
    "weighted": Definition("weighted KL", "mean of q · (log q − log p)", negative=True),
    "kl": Definition("KL", "KL of the two by any estimator", negative=True),
    "abs": Definition(
        "absolute log-probability difference",
        "mean of |log p − log q|",
        Healthy(0.0, 0.1, "the limit of slime's own tests"),
    ),
    "prob": Definition(
        "absolute probability difference",
        "mean of |p − q|",
        Healthy(0.0, 0.03, "about .003 in bf16 and .012 with rollouts in FP8"),
    ),
    "factor": Definition(
        "probability factor",
        "mean of exp|log p − log q|, less 1",
        Healthy(0.0, 0.02, "NeMo-RL's guide to GRPO"),
    ),
    "ppl": Definition("absolute log-perplexity difference", "mean over completions of |mean log p − mean log q|"),
}
_GROUPS = Definition("groups a step", "groups of completions")
_DROPPED = {
    "groups": _GROUPS,
    "samples": Definition("completions a step", "completions"),
    "sofar": Definition("completions since the start", "completions, never fewer than before"),
}
_FILTERED = {
    "groups": _GROUPS,
    "share": Definition("share of groups", "part of the groups that were sampled"),
    "flat": Definition("groups without spread", "groups with equal rewards, counted but still in the batch"),
}
_RATIO = Healthy(0.5, 2.0, _VERL)
_WEIGHTS = {
    "sampler": Definition("trainer to sampler", "p/q"),
    "update": Definition("after to before the update", "ratio of the policies after and before an update"),
}

_ROWS = (
    CanonicalSignal(name="reward_std", meaning="spread of rewards; `reward_std_kind` says of what", unit="reward"),
    CanonicalSignal(
        name="frac_reward_zero_std",
        meaning="groups whose completions all have the same reward, which give no gradient",
        unit=_SHARE,
        better="lower",
    ),
    CanonicalSignal(name="entropy", meaning="entropy of the policy", unit=_NATS, log_floor=1e-4),
    CanonicalSignal(
        name="kl",
        meaning="KL of the policy to the reference model",
        unit=_NATS,
        negative=True,
        definitions={
            "": Definition(STANDARD, "by any estimator, without a coefficient", negative=True),
            "penalty": Definition(
                "penalty", "what the loss or the reward has of it, in some scripts times a coefficient"
            ),
        },
    ),
    CanonicalSignal(
        name="update_kl",
        meaning="KL of the policy before an update to the one after it",
        unit=_NATS,
        negative=True,
    ),
    CanonicalSignal(name="clip_ratio", meaning="tokens whose policy ratio is clipped", unit=_SHARE),
    CanonicalSignal(name="grad_norm", meaning="norm of the gradient before it is clipped", unit="1", log_floor=1e-6),
    CanonicalSignal(name="completion_length", meaning="mean length of completions", unit=_TOKENS, log_floor=1.0),
    CanonicalSignal(
        name="completion_length_max", meaning="length of the longest completion", unit="tokens", log_floor=1.0
    ),
    CanonicalSignal(
        name="completions_clipped_ratio",
        meaning="completions cut off at the length limit",
        unit=_SHARE,
        better="lower",
    ),
    CanonicalSignal(name="learning_rate", meaning="learning rate", unit="1"),
    CanonicalSignal(name="loss", meaning="loss of the policy", unit="1", negative=True),
    CanonicalSignal(name="accuracy", meaning="completions that solve their task", unit=_SHARE, better="higher"),
    CanonicalSignal(
        name="gold_reward", meaning="reward that is not optimized", unit="reward", better="higher", negative=True
    ),
    CanonicalSignal(name="advantage_max", meaning="largest advantage", unit="1", negative=True),
    CanonicalSignal(name="stiffness", meaning="largest curvature, from a probe", unit="1"),
    CanonicalSignal(
        name="stability_margin", meaning="distance to instability, from a probe", unit="1", better="higher"
    ),
    CanonicalSignal(
        name="engine_mismatch",
        meaning="how far the probabilities of the engine that samples lie from those of the trainer",
        unit="see its definition",
        better="lower",
        log_floor=1e-8,
        definitions=_MISMATCH,
    ),
    CanonicalSignal(
        name="importance_ratio",
        meaning="mean importance weight",
        unit="1",
        healthy=_RATIO,
        definitions=_WEIGHTS,
    ),
    CanonicalSignal(
        name="importance_ess",
        meaning="effective sample size of the importance weights",
        unit=_SHARE,
        better="higher",
        healthy=Healthy(0.3, 1.0, _VERL),
        definitions=_WEIGHTS,
    ),
    CanonicalSignal(
        name="ratio_clipped",
        meaning="importance weights of trainer to sampler that are cut off or masked",
        unit=_SHARE,
        better="lower",
    ),
    CanonicalSignal(
        name="staleness",
        meaning="updates between the policy that wrote a completion and the one trained on it",
        unit="updates",
        better="lower",
    ),
    CanonicalSignal(
        name="dropped",
        meaning="what was sampled and thrown away because it was too old or failed",
        unit="see its definition",
        better="lower",
        definitions=_DROPPED,
    ),
    CanonicalSignal(
        name="filtered_groups",
        meaning="groups with equal rewards that were taken out of the batch",
        unit="see its definition",
        better="lower",
        definitions=_FILTERED,
    ),
    CanonicalSignal(name="turns", meaning="turns of a completion", unit="turns", log_floor=0.1),
    CanonicalSignal(name="tool_calls", meaning="tool calls of a completion", unit="calls"),
    CanonicalSignal(
        name="expert_load",
        meaning="how unevenly tokens are spread over experts",
        unit="see its definition",
        better="lower",
        definitions={
            "violation": Definition("largest excess load", "largest load of an expert over the mean load, less 1"),
            "loss": Definition("load-balancing loss", "the router's auxiliary loss"),
        },
    ),
    CanonicalSignal(name="step_time", meaning="time of a step", unit="seconds", better="lower"),
    CanonicalSignal(name="step_cost", meaning="money of a step", unit="money", better="lower"),
    CanonicalSignal(name="total_cost", meaning="money since the start", unit="money"),
)
SIGNALS: Mapping[str, CanonicalSignal] = MappingProxyType({row.name: row for row in _ROWS})
"""Canonical name → what it means, in the order in which the documentation shows them."""


def healthy_text(healthy: Healthy) -> str:
    """A range in words: "0 to 0.002", "at least 0.3"."""
    if math.isinf(healthy.high):
        return f"at least {healthy.low:g}"
    return f"{healthy.low:g} to {healthy.high:g}"
