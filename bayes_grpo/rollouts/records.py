"""`Rollouts`: single completions of a run as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.results import Result
from bayes_grpo.common.text import counted

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("step", "policy_version", "prompt", "group", "reward", "truncated", "answer", "length")


@dataclass(frozen=True, eq=False, kw_only=True)
class Rollouts(Result):
    """Completions of one run, n of them, in the order of their steps. Immutable; arrays are read-only.

    Attributes:
        name: Short name, from the folder or file.
        source: Path that was read.
        format: Name of the format.
        split: "train" or "eval".
        step: Step, int32, shape (n,).
        policy_version: Version of the policy that wrote it, in updates; -1 where unknown. Shape (n,), like all.
        prompt: Salted hash of its prompt; 0 where nothing tells it.
        group: Number of its group, 0, 1, …; -1 where nothing tells it.
        reward: Reward.
        parts: Name → what the reward is made of, or was measured with it; NaN where a record lacks it.
        truncated: 1 where it was cut at the limit, 0 where it ended, -1 where unknown.
        answer: Salted hash of its text; 0 where the text is not saved.
        length: Its length in the unit of the records, else in characters; NaN where nothing tells it.
        files: Files read.
        bytes: Their bytes.
        notes: What the reader did that a user should know.
    """

    name: str
    source: str
    format: str
    split: str
    step: np.ndarray
    policy_version: np.ndarray
    prompt: np.ndarray
    group: np.ndarray
    reward: np.ndarray
    parts: Mapping[str, np.ndarray]
    truncated: np.ndarray
    answer: np.ndarray
    length: np.ndarray
    files: int = 1
    bytes: int = 0
    notes: tuple[str, ...] = ()

    also_in_json = (
        "sentence", "size", "step_count", "first_step", "last_step", "prompt_count", "group_count", "group_size",
        "prompts_per_step", "mean_reward", "part_means", "truncated_share",
    )  # fmt: skip
    not_in_json = (*_COLUMNS, "parts")

    def __post_init__(self) -> None:
        """Freezes arrays and checks shapes."""
        n = len(self.step)
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {k: v for k, v in arrays.items() if isinstance(v, np.ndarray)} | dict(self.parts)
        if wrong := {k: v.shape for k, v in arrays.items() if v.shape != (n,)}:
            raise ValueError(f"columns of rollouts must share one shape ({n},); found {wrong}")
        if np.any(np.diff(self.step) < 0):
            raise ValueError("step must not decrease")
        for values in arrays.values():
            values.setflags(write=False)

    @property
    def size(self) -> int:
        """Number of completions."""
        return len(self.step)

    @property
    def step_count(self) -> int:
        """Number of steps."""
        return len(np.unique(self.step))

    @property
    def first_step(self) -> int:
        """First step."""
        return int(self.step[0])

    @property
    def last_step(self) -> int:
        """Last step."""
        return int(self.step[-1])

    @cached_property
    def prompt_count(self) -> int:
        """Number of distinct prompts."""
        return len(np.unique(self.prompt[self.prompt != 0]))

    @cached_property
    def group_count(self) -> int:
        """Number of groups."""
        return int(self.group.max()) + 1

    @cached_property
    def group_size(self) -> int | None:
        """Completions of a group, the usual number; None where nothing tells groups."""
        if self.group_count == 0:
            return None
        return int(np.argmax(np.bincount(np.bincount(self.group[self.group >= 0]))[1:])) + 1

    @cached_property
    def prompts_per_step(self) -> float | None:
        """Groups of a step, the median; None where nothing tells groups."""
        known = self.group >= 0
        if not known.any():
            return None
        first = np.unique(self.group[known], return_index=True)[1]
        return float(np.median(np.unique(self.step[known][first], return_counts=True)[1]))

    @property
    def mean_reward(self) -> float:
        """Mean reward of all completions."""
        return float(self.reward.mean())

    @property
    def part_means(self) -> dict[str, float]:
        """Mean of each part over the completions that have it."""
        return {k: float(np.nanmean(v)) if np.isfinite(v).any() else float("nan") for k, v in self.parts.items()}

    @property
    def truncated_share(self) -> float:
        """Share of completions that were cut, of those that say so; NaN where none does."""
        known = self.truncated >= 0
        return float(self.truncated[known].mean()) if known.any() else float("nan")

    @property
    def sentence(self) -> str:
        """Number, steps and groups of the completions, in words."""
        groups = (
            f"{self.prompt_count or 'no'} prompts in groups of {self.group_size}" if self.group_size else "no groups"
        )
        steps = counted(self.step_count, "step")
        return (
            f"{self.size} completions of {steps} ({self.first_step} to {self.last_step}), {groups}, read as "
            f"{self.format}: mean reward {self.mean_reward:.3g}."
        )

    def where(self, kept: np.ndarray) -> Rollouts:
        """Some of the completions, bool of shape (n,); groups keep their numbers' order. None is an error."""
        if not np.any(kept):
            raise FitError(f"expected completions of {self.name} to keep, found none; choose other steps")
        group = self.group[kept]
        known = group >= 0
        group[known] = np.unique(group[known], return_inverse=True)[1]
        columns: dict[str, Any] = {name: getattr(self, name)[kept] for name in _COLUMNS}
        parts = {k: v[kept] for k, v in self.parts.items()}
        return replace(self, **columns | {"group": group, "parts": parts})

    def until(self, step: float) -> Rollouts:
        """The completions up to a step."""
        return self.where(self.step <= step)

    def to_frame(self) -> pd.DataFrame:
        """One row a completion."""
        import pandas as pd

        return pd.DataFrame({name: getattr(self, name) for name in _COLUMNS} | dict(self.parts))
