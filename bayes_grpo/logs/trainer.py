"""What is known about the logs of one trainer: a table, no code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ADAM = {"momentum": 0.9, "momentum_convention": "ema", "refresh_interval": 1}
"""Defaults of every trainer that steps with Adam after each rollout."""


@dataclass(frozen=True)
class Derived:
    """A signal that a log holds only as a combination of its keys.

    Attributes:
        signal: Canonical name.
        terms: Raw key, or a pattern as in `Trainer`, → weight of the sum.
        constant: Added to the sum.
        over: Raw key that the terms are divided by.
        zero_says_nothing: Whether it is left out where it is 0 throughout, because what it counts was taken out of the
            batch before it was logged.
    """

    signal: str
    terms: Mapping[str, float]
    constant: float = 0.0
    over: str | None = None
    zero_says_nothing: bool = False

    def text(self, keys: Sequence[str], over: str | None = None) -> str:
        """The combination of a log's keys as one reads it, e.g. "a + b" or "1 - a / b"."""
        parts = [f"{self.constant:g}"] if self.constant else []
        for key, weight in zip(keys, self.terms.values(), strict=True):
            size = "" if abs(weight) == 1 else f"{abs(weight):g}*"
            parts.append(("- " if weight < 0 else "+ " if parts else "") + size + key + (f" / {over}" if over else ""))
        return " ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """What is known about the logs of one trainer.

    A key may hold ``*`` (any text without "/") or ``**`` (any text). Keys are tried in the order written; the first
    that the log has is used.

    Attributes:
        name: Short name, used in notes.
        label: Name as its authors write it.
        signature: Keys that only this trainer writes; the trainer with most of them present is taken.
        steps: Groups of keys that hold the step. Keys of one group share one axis and complete each other
            row by row; the first group present is used.
        rollouts: Keys that count rollouts on rows of their own, where the first group of steps counts the updates made
            with them.
        reward: Keys of the mean train reward.
        evals: Keys of the held-out reward.
        signals: Canonical signal → keys.
        prefixes: Put before every key above when it is looked up.
        derived: Signals that its logs hold only as a combination of keys; the first one that can be computed is used.
        defaults: Setting → the trainer's documented default. A group of 1, which some trainers have for other
            algorithms, is none: no run of GRPO has it.
        std_kind: Meaning of the logged reward_std where the trainer fixes it.
        config: Setting, or "completions_per_step" → names of its field in the run's configuration, parts joined by "/".
        axes: First words of keys that are logged at steps of their own, where a store keeps steps apart from keys.
        rows_without_rollout: Whether steps between two rollouts get rows of their own, without a reward.
    """

    name: str
    label: str
    signature: tuple[str, ...]
    reward: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...] = (("step",), ("_step",))
    evals: tuple[str, ...] = ()
    signals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prefixes: tuple[str, ...] = ("",)
    rollouts: tuple[str, ...] = ()
    derived: tuple[Derived, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=ADAM.copy)
    std_kind: str | None = None
    config: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    axes: tuple[str, ...] = ()
    rows_without_rollout: bool = False
