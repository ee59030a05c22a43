"""One trainer's log: its keys, what they measure, and its documented defaults; keys written as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

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
        skip_all_zero: Whether it is left out where it is 0 throughout, because what it counts was taken out of the
            batch before it was logged.
        pool: What a pattern stands for: its "first" key, or the "sum" or "mean" of all its keys. A sum is 0 on rows
            with a reward that have none of them.
        definition: Short name of its definition (`CanonicalSignal.definitions`).
    """

    signal: str
    terms: Mapping[str, float]
    constant: float = 0.0
    over: str | None = None
    skip_all_zero: bool = False
    pool: Literal["first", "sum", "mean"] = "first"
    definition: str = ""

    def text(self, keys: Sequence[str], over: str | None = None) -> str:
        """The combination of a log's keys as one reads it, e.g. "a + b" or "1 - a / b"."""
        parts = [f"{self.constant:g}"] if self.constant else []
        for key, weight in zip(keys, self.terms.values(), strict=True):
            size = "" if abs(weight) == 1 else f"{abs(weight):g}*"
            sign = "+ " if parts else ""
            if weight < 0:
                sign = "- "
            parts.append(sign + size + key + (f" / {over}" if over else ""))
        return " ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """Keys, measurements and defaults of one trainer's logs.

    A key may hold ``*`` (any text without "/") or ``**`` (any text). Keys are tried in the order written; the first
    that the log has is used.

    Attributes:
        name: As its authors write it.
        signature: Keys that only this trainer writes; the trainer with most of them present is taken.
        keys: "reward" (the mean train reward), "heldout" (evaluation reward), a signal of `SIGNALS` or "step" → keys.
            Those of the step are groups, with "|" between them.
        rollouts: Keys that count rollouts on rows of their own, where the first group of steps counts the updates made
            with them. Keys that share the first word of one of these are logged at its steps.
        definitions: Key → short name of what it measures (`CanonicalSignal.definitions`).
        prefixes: Put before the keys of signature, reward and signals when they are looked up.
        derived: Signals that its logs hold only as a combination of keys; the first one that can be computed is used.
        defaults: Setting → the trainer's documented default. A group of 1, which some trainers have for other
            algorithms, is none: no run of GRPO has it.
        std_kind: Meaning of the logged reward_std where the trainer fixes it.
        config: Setting, or "completions_per_step" → names of its field in the run's configuration, parts joined by "/".
        reward_place: Where its reward stands, in words, where some of its logs hold none.
        rows_without_rollout: Whether steps between two rollouts get rows of their own, without a reward.
    """

    name: str
    signature: tuple[str, ...]
    keys: dict[str, tuple[str, ...]]
    definitions: Mapping[str, str] = field(default_factory=dict)
    prefixes: tuple[str, ...] = ("",)
    rollouts: tuple[str, ...] = ()
    derived: tuple[Derived, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=ADAM.copy)
    std_kind: str | None = None
    config: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reward_place: str = ""
    rows_without_rollout: bool = False

    @cached_property
    def steps(self) -> tuple[tuple[str, ...], ...]:
        """Groups of keys that hold the step.

        Keys of one group share one axis and complete each other row by row; the first group present is used.
        """
        text = " ".join(self.keys.get("step", ("step", "|", "_step")))
        return tuple(_keys(group) for group in text.split("|"))


_MEANS = ("{}", "{}/mean", "{}_mean", "mean_{}", "avg_{}", "{}_avg")
_HELD_OUT = (
    "eval_{}", "eval/{}", "val_{}", "val/{}", "validation/{}", "validation_{}", "test/{}", "test_{}", "held-out_{}",
    "heldout_{}", "held_out_{}", "dev_{}", "dev/{}",
)  # fmt: skip


def _keys(text: str) -> tuple[str, ...]:
    """Keys of a text, in which "~" before a name means all spellings of its mean, "^" those of an evaluation.

    What stands after "=" is the short name of a definition.
    """
    found: list[str] = []
    for word in text.split():
        name = word.partition("=")[0]
        names = [form.format(name.lstrip("^~")) for form in (_MEANS if "~" in name else ("{}",))]
        found += [form.format(mean) for form in (_HELD_OUT if "^" in name else ("{}",)) for mean in names]
    return tuple(found)


def _definitions(text: str) -> dict[str, str]:
    """Key → what stands after its "="."""
    words = (word.strip(";").partition("=") for word in text.split() if "=" in word)
    return {key: short for name, _, short in words for key in _keys(name)}


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """Names with their keys, written as "name: key key; name: key"."""
    return {name.strip(): _keys(keys) for name, _, keys in (part.partition(":") for part in text.split(";")) if keys}


def trainer_row(*, signature: str, keys: str, config: str = "", rollouts: str = "", **more: Any) -> Trainer:
    """A trainer whose keys are written as text, names and their keys as `_table` reads them."""
    tables = {"keys": _table(keys), "config": _table(config), "definitions": _definitions(keys)}
    return Trainer(signature=_keys(signature), rollouts=_keys(rollouts), **tables, **more)


def trainer_like(trainer: Trainer, *, signature: str, keys: str, config: str = "", **more: Any) -> Trainer:
    """Another trainer that writes the keys of one, but for some."""
    return replace(
        trainer,
        signature=_keys(signature),
        keys=trainer.keys | _table(keys),
        definitions={**trainer.definitions, **_definitions(keys)},
        config=_table(config) or trainer.config,
        **more,
    )
