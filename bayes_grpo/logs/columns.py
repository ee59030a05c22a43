"""Canonical columns of a log, on the way from the keys of its trainer to a `Run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.signals import SIGNALS
from bayes_grpo.logs.trainer import Trainer

COMPONENT, ENVIRONMENT = "rewards/", "environments/"
"""Before the name of a reward function and of an environment among the columns."""
MOVING = ("entropy", "kl")
"""Signals that are not 0 in every row of a policy that moves."""


@dataclass
class Columns:
    """Canonical columns of a log, rows still in file order.

    Attributes:
        index: The keys of the log.
        trainer: Whose keys these are.
        step: Logged step, shape (n,), or None where the log has none.
        train: "reward" and canonical signals → values, each of shape (n,).
        evals: Evaluation reward, shape (n,), NaN on rows without one.
        keys: Canonical name → raw key or combination of raw keys, in words.
        raw: Canonical name → the raw keys.
        parts: "rewards/FUNCTION" and "environments/ENVIRONMENT" → mean reward, shape (n,).
        notes: What was decided on the way.
        broken: "reward", signal or "rewards/FUNCTION" → rows whose logged value is no number, shape (n,).
        counter: Raw key that counts something else than the step.
        rows_without_rollout: Whether steps between two rollouts have rows of their own, without a reward.
        evaluated: Raw keys of an evaluation whose names do not say so.
        definitions: Signal → what its key measures, as `Run.definitions`.
    """

    index: KeyIndex
    trainer: Trainer
    step: np.ndarray | None = None
    train: dict[str, np.ndarray] = field(default_factory=dict)
    evals: np.ndarray = field(default_factory=lambda: np.empty(0))
    keys: dict[str, str] = field(default_factory=dict)
    raw: dict[str, Sequence[str]] = field(default_factory=dict)
    parts: dict[str, np.ndarray] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    broken: dict[str, np.ndarray] = field(default_factory=dict)
    counter: str | None = None
    rows_without_rollout: bool = False
    evaluated: frozenset[str] = frozenset()
    definitions: dict[str, str] = field(default_factory=dict)

    def use(self, name: str, keys: Sequence[str], text: str = "", short: str = "") -> np.ndarray:
        """Records from which raw keys a column is, how they are combined, and the short name of its definition.

        Returns:
            The numbers under the first key, shape (n,).
        """
        self.raw[name] = keys
        self.keys[name] = text or keys[0]
        if name in SIGNALS:
            self.definitions[name] = SIGNALS[name].word(short)
        return self.index.table.column(keys[0])
