"""Canonical signals of a run: one row each, and the definitions of those that trainers measure in several ways.

Below p is the probability that the trainer gives a token, q the one that the engine had which sampled it; means are
over the tokens of a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

STANDARD = "standard"
"""Definition of a signal that all trainers measure alike."""
UNDEFINED = "unknown"
"""Definition where neither the key nor the trainer says which of several it is."""


class HealthyRange(NamedTuple):
    """Values that runs without trouble have, both ends included, and who says so."""

    low: float
    high: float
    source: str


class Definition(NamedTuple):
    """One way to measure a signal, by the word of `Run.definitions`; ``negative`` is whether it may be below 0."""

    word: str
    formula: str
    healthy: HealthyRange | None = None
    negative: bool = False


@dataclass(frozen=True)
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
    _: KW_ONLY
    better: Literal["higher", "lower", ""] = ""
    negative: bool = False
    log_floor: float | None = None
    healthy: HealthyRange | None = None
    definitions: Mapping[str, Definition] = field(default_factory=dict)

    def word(self, short: str) -> str:
        """Definition behind a short name from the table of trainers; "" means that a key has none."""
        if short or short in self.definitions:
            return self.definitions[short].word
        return UNDEFINED if self.definitions else STANDARD

    def defined(self, word: str) -> Definition | None:
        """The definition that `Run.definitions` calls so; None for `STANDARD` and `UNDEFINED`."""
        return next((d for d in self.definitions.values() if d.word == word), None)

    def healthy_range(self, word: str = STANDARD) -> HealthyRange | None:
        """The healthy range under a definition, else that of the signal; None where none is known."""
        found = self.defined(word)
        return found.healthy if found is not None and found.healthy is not None else self.healthy


_SHARE = "fraction"
_TOKENS = "tokens a completion"
_NATS = "nats a token"
_DEFINED = "see its definition"
_VERL = "verl's page on rollout correction"
_TINKER = "Tinker's page on asynchronous training"
_DENSE = "above the 6e-4 of a dense model and 1.5e-3 of one with experts in arXiv:2510.11370"
_PRECISION = "about .003 in bf16 and .012 with rollouts in FP8"
_MISMATCH = {
    "k3": Definition("k3", "mean of p/q − 1 − log(p/q)", HealthyRange(0.0, 2e-3, _DENSE)),
    "k2": Definition("k2", "half the mean of log(p/q)²", HealthyRange(0.0, 1e-2, _TINKER)),
    "k1": Definition("k1", "mean of log q − log p", HealthyRange(-1e-2, 1e-2, _TINKER), negative=True),
    "signed": Definition(
        "log-probability difference",
        "mean of log p − log q",
        HealthyRange(-1e-2, 1e-2, "as k1, of which it is the negative"),
        negative=True,
    ),
    "weighted": Definition("weighted KL", "mean of q · (log q − log p)", negative=True),
    "kl": Definition("KL", "KL of the two by any estimator", negative=True),
    "abs": Definition(
        "absolute log-probability difference",
        "mean of |log p − log q|",
        HealthyRange(0.0, 0.1, "the limit of slime's own tests"),
    ),
    "prob": Definition("absolute probability difference", "mean of |p − q|", HealthyRange(0.0, 0.03, _PRECISION)),
    "factor": Definition(
        "probability factor", "mean of exp|log p − log q|, less 1", HealthyRange(0.0, 0.02, "NeMo-RL's guide to GRPO")
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
_RATIO = HealthyRange(0.5, 2.0, _VERL)
_ESS = HealthyRange(0.3, 1.0, _VERL)
_WEIGHTS = {
    "sampler": Definition("trainer to sampler", "p/q"),
    "update": Definition("after to before the update", "ratio of the policies after and before an update"),
}
_KL = {
    "": Definition(STANDARD, "by any estimator, without a coefficient", negative=True),
    "penalty": Definition("penalty", "what the loss or the reward has of it, in some scripts times a coefficient"),
}
_LOADS = {
    "violation": Definition("largest excess load", "largest load of an expert over the mean load, less 1"),
    "loss": Definition("load-balancing loss", "the router's auxiliary loss"),
}

_ROWS = (
    CanonicalSignal("reward_std", "spread of rewards; `reward_std_kind` says of what", "reward"),
    CanonicalSignal("frac_reward_zero_std", "groups with equal rewards, and so no gradient", _SHARE, better="lower"),
    CanonicalSignal("entropy", "entropy of the policy", _NATS, log_floor=1e-4),
    CanonicalSignal("kl", "KL of the policy to the reference model", _NATS, negative=True, definitions=_KL),
    CanonicalSignal("update_kl", "KL of the policy before an update to the one after it", _NATS, negative=True),
    CanonicalSignal("clip_ratio", "tokens whose policy ratio is clipped", _SHARE),
    CanonicalSignal("grad_norm", "norm of the gradient before it is clipped", "1", log_floor=1e-6),
    CanonicalSignal("completion_length", "mean length of completions", _TOKENS, log_floor=1.0),
    CanonicalSignal("completion_length_max", "length of the longest completion", "tokens", log_floor=1.0),
    CanonicalSignal("completions_clipped_ratio", "completions cut off at the length limit", _SHARE, better="lower"),
    CanonicalSignal("learning_rate", "learning rate", "1"),
    CanonicalSignal("loss", "loss of the policy", "1", negative=True),
    CanonicalSignal("accuracy", "completions that solve their task", _SHARE, better="higher"),
    CanonicalSignal("gold_reward", "reward that is not optimized", "reward", better="higher", negative=True),
    CanonicalSignal("advantage_max", "largest advantage", "1", negative=True),
    CanonicalSignal("stiffness", "largest curvature, from a probe", "1"),
    CanonicalSignal("stability_margin", "distance to instability, from a probe", "1", better="higher"),
    CanonicalSignal(
        "engine_mismatch",
        "how far the probabilities of the engine that samples lie from those of the trainer",
        _DEFINED,
        better="lower",
        log_floor=1e-8,
        definitions=_MISMATCH,
    ),
    CanonicalSignal("importance_ratio", "mean importance weight", "1", healthy=_RATIO, definitions=_WEIGHTS),
    CanonicalSignal(
        "importance_ess",
        "effective sample size of the importance weights",
        _SHARE,
        better="higher",
        healthy=_ESS,
        definitions=_WEIGHTS,
    ),
    CanonicalSignal("ratio_clipped", "importance weights (p/q) that are cut off or masked", _SHARE, better="lower"),
    CanonicalSignal("staleness", "updates between sampling a completion and training on it", "updates", better="lower"),
    CanonicalSignal("dropped", "dropped as too old or failed", _DEFINED, better="lower", definitions=_DROPPED),
    CanonicalSignal("filtered_groups", "equal-reward groups removed", _DEFINED, better="lower", definitions=_FILTERED),
    CanonicalSignal("turns", "turns of a completion", "turns", log_floor=0.1),
    CanonicalSignal("tool_calls", "tool calls of a completion", "calls"),
    CanonicalSignal("expert_load", "imbalance of the experts' load", _DEFINED, better="lower", definitions=_LOADS),
    CanonicalSignal("step_time", "time of a step", "seconds", better="lower"),
    CanonicalSignal("step_cost", "money of a step", "money", better="lower"),
    CanonicalSignal("total_cost", "money since the start", "money"),
)
SIGNALS: Mapping[str, CanonicalSignal] = MappingProxyType({row.name: row for row in _ROWS})
"""Canonical name → what it means, in the order in which the documentation shows them."""


def healthy_text(healthy: HealthyRange) -> str:
    """A range in words: "0 to 0.002", "at least 0.3"."""
    if math.isinf(healthy.high):
        return f"at least {healthy.low:g}"
    return f"{healthy.low:g} to {healthy.high:g}"
