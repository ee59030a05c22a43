"""Settings of a run in the deep laboratory: what fixes the shapes, and what may vary along a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.simulate.settings import (
    AdvantageScale,
    Numbers,
    OptimizerName,
    RefreshModel,
    ScheduleKind,
    Structure,
    UpdateKind,
)
from benchmarks.lab.loss import KlKind, LossKind
from benchmarks.lab.network import Network
from benchmarks.lab.tasks import Task

Order = Literal["drawn", "shuffled"]


@dataclass(frozen=True)
class Lab:
    """The static part: everything that changes the compiled program.

    Attributes:
        structure: Steps, groups, advantages, optimizer, schedule, staleness and evaluations, as for small policies.
        network: Shape of the transformer.
        loss: Over what the loss is a mean.
        kl: Which estimate of the KL divergence is the penalty.
        order: Whether the prompts of a step are drawn with replacement, or all are gone through in passes, shuffled
            anew each, of which a rest too small for a step is left out, as trainers do.
        limit: Tokens of a completion at most.
        eval_prompts: Held-out prompts of an evaluation, one completion each.
    """

    structure: Structure = field(default_factory=lambda: Structure(eval_every=10))
    network: Network = field(default_factory=Network)
    loss: LossKind = "token"
    kl: KlKind = "plain"
    order: Order = "drawn"
    limit: int = 16
    eval_prompts: int = 64

    def check(self, task: Task) -> None:
        """Refuses what cannot be run on a task.

        Raises:
            SettingError: Expected updates, an unknown word, steps that evaluations do not divide, a limit below the
                answers, or more prompts in a step than there are to go through.
        """
        structure = self.structure
        check_structure(structure)
        for name, kinds in (("loss", get_args(LossKind)), ("kl", get_args(KlKind)), ("order", get_args(Order))):
            if getattr(self, name) not in kinds:
                raise SettingError(f"{name}: expected one of {', '.join(kinds)}, found {getattr(self, name)!r}")
        if self.order == "shuffled" and structure.prompts_per_step > len(task.train):
            raise SettingError(
                f"order: expected at most the task's {len(task.train)} prompts in a step that goes through them, found "
                f"{structure.prompts_per_step}"
            )
        if structure.update != "sampled":
            raise SettingError(f"update: a network's completions are sampled, found {structure.update!r}")
        if structure.ddof != 1:
            raise SettingError("ddof: the laboratory divides by the sample standard deviation, found 0")
        every = structure.eval_every or structure.n_steps
        if structure.n_steps % every:
            raise SettingError(
                f"eval_every: expected a divisor of the {structure.n_steps} steps, found {structure.eval_every}"
            )
        if self.limit < task.train_answer.shape[1]:
            raise SettingError(
                f"limit: expected at least the {task.train_answer.shape[1]} tokens of an answer, found {self.limit}"
            )


class LabNumbers(NamedTuple):
    """The numeric settings; each a scalar or an array of shape (n_runs,).

    Attributes:
        base: Learning rate, momentum, staleness, clipping, penalties.
        epochs: Times that a rollout is trained on; a divisor of ``base.refresh_interval``, and 1 under "delay".
        temperature: Of the sampling.
        max_grad_norm: Longer gradients are shortened to this; infinity for none.
        right: Reward of the answer and nothing else.
        anywhere: Reward of a completion in which the answer occurs.
        partial: Reward of the share of the answer's tokens that stand in their places.
        ended: Reward of ending within the limit.
        length: Reward of using the whole limit.
        broken_from: Step from which on every completion that is written gets the same reward; infinity for never. A
            rollout is scored when it is written, so what was written before keeps its reward until it is used up.
    """

    base: Numbers = Numbers()
    epochs: Any = 1
    temperature: Any = 1.0
    max_grad_norm: Any = np.inf
    right: Any = 1.0
    anywhere: Any = 0.0
    partial: Any = 0.0
    ended: Any = 0.0
    length: Any = 0.0
    broken_from: Any = np.inf


REWARDS = ("right", "anywhere", "partial", "ended", "length")
"""Components of the reward: fields of `LabNumbers` that weigh the `Scores` of the same names."""


def check_lab_numbers(numbers: LabNumbers) -> LabNumbers:
    """Checks the numeric settings and returns them as NumPy arrays.

    Raises:
        SettingError: A value is out of range, or epochs do not divide the refresh interval.
    """
    base = check_numbers(numbers.base)
    out = {k: np.asarray(v, float) for k, v in numbers._asdict().items() if k != "base"}
    for name in ("epochs", "temperature", "max_grad_norm"):
        if not np.all(out[name] > 0):
            raise SettingError(f"{name}: expected numbers above 0, found {float(out[name].min()):g}")
    left = np.asarray(base.refresh_interval) % out["epochs"]
    if np.any(left != 0):
        raise SettingError("epochs: expected a divisor of refresh_interval, the optimizer steps that a rollout serves")
    return LabNumbers(base=base, **out | {"epochs": out["epochs"].astype(np.int32)})


def written_at(refresh: RefreshModel, interval: Any, step: Any) -> Any:
    """Number of updates already made when the completions were written that an update trains on.

    Args:
        refresh: "hold" or "delay".
        interval: K_ref, optimizer steps.
        step: Number of updates already made before this one; a number or an array, of NumPy or JAX.

    Returns:
        As ``step``. Under "delay" the start's policy writes for the first K_ref updates, all at 0.
    """
    if refresh == "hold":
        return step // interval * interval
    return (step - interval) * (step > interval)


def spread_numbers(numbers: LabNumbers, n_runs: int) -> LabNumbers:
    """The same with every number of shape (n_runs,).

    Raises:
        SettingError: A setting has numbers for another number of runs.
    """

    def wide(name: str, x: Any) -> np.ndarray:
        if np.shape(x) not in ((), (n_runs,)):
            raise SettingError(f"{name}: expected a number or one for each of {n_runs} runs, found shape {np.shape(x)}")
        return np.broadcast_to(np.asarray(x), (n_runs,))

    base = Numbers(*(wide(name, x) for name, x in numbers.base._asdict().items()))
    return LabNumbers(base, *(wide(name, x) for name, x in list(numbers._asdict().items())[1:]))


def check_structure(structure: Structure) -> None:
    """Refuses shapes and names without meaning.

    Raises:
        SettingError: A count is too small or a name unknown.
    """
    for name, least, why in (
        ("n_steps", 1, "a run has at least one update"),
        ("group_size", 2, "a group of one has no relative advantage"),
        ("prompts_per_step", 1, "an update needs a prompt"),
        ("eval_every", 0, "0 turns evaluation off"),
    ):
        value = getattr(structure, name)
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise SettingError(f"{name}: expected an integer of at least {least} ({why}), found {value!r}")
    for name, allowed in (
        ("advantage", get_args(AdvantageScale)),
        ("ddof", (0, 1)),
        ("optimizer", get_args(OptimizerName)),
        ("schedule", get_args(ScheduleKind)),
        ("refresh", get_args(RefreshModel)),
        ("update", get_args(UpdateKind)),
    ):
        value = getattr(structure, name)
        if value not in allowed:
            raise SettingError(f"{name}: expected one of {', '.join(map(str, allowed))}, found {value!r}")


_RANGES: dict[str, tuple[float, float, bool, bool]] = {
    # name: (lowest, highest, lowest included, highest included)
    "learning_rate": (0.0, np.inf, False, False),
    "momentum": (0.0, 1.0, True, False),
    "refresh_interval": (1, np.inf, True, False),
    "lag_exposure": (0.0, 1.0, True, True),
    "clip_low": (0.0, np.inf, False, True),
    "clip_high": (0.0, np.inf, False, True),
    "kl_weight": (0.0, np.inf, True, False),
    "entropy_weight": (0.0, np.inf, True, False),
    "warmup_steps": (0, np.inf, True, False),
    "adam_beta2": (0.0, 1.0, True, False),
    "adam_epsilon": (0.0, np.inf, True, False),
    "advantage_epsilon": (0.0, np.inf, True, False),
}
_INTEGERS = ("refresh_interval", "warmup_steps")


def check_numbers(numbers: Numbers) -> Numbers:
    """Checks every numeric setting and returns them as NumPy arrays.

    Args:
        numbers: Settings, each a scalar or of shape (n_runs,).

    Returns:
        The same settings; counts as int32, the rest as float64 arrays.

    Raises:
        SettingError: A value is outside its range, not finite where it must be, or not whole where it counts.
    """
    checked = {}
    for name, raw in numbers._asdict().items():
        value = np.asarray(raw, dtype=np.float64)
        low, high, with_low, with_high = _RANGES[name]
        above = value >= low if with_low else value > low
        below = value <= high if with_high else value < high
        bad = ~(above & below)
        if name in _INTEGERS:
            bad |= value != np.floor(value)
        if bad.any():
            found = float(value[bad].flat[0])
            kind = "whole numbers" if name in _INTEGERS else "values"
            bounds = f"{'[' if with_low else '('}{low:g}, {high:g}{']' if with_high else ')'}"
            raise SettingError(f"{name}: expected {kind} in {bounds}, found {found:g}")
        if value.ndim > 1:
            raise SettingError(f"{name}: expected a scalar or shape (n_runs,), found shape {value.shape}")
        checked[name] = value.astype(np.int32) if name in _INTEGERS else value
    return Numbers(**checked)
