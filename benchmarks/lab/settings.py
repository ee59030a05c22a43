"""Settings of a run in the deep laboratory: what fixes the shapes, and what may vary along a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from bayes_grpo.simulate.settings import Numbers, RefreshModel, Structure
from benchmarks.lab.loss import KlKind, LossKind
from benchmarks.lab.network import Network

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


_COUNTS = ("refresh_interval", "warmup_steps", "epochs")
REWARDS = ("right", "anywhere", "partial", "ended", "length")
"""Components of the reward: fields of `LabNumbers` that weigh the `Scores` of the same names."""


def arrays_of(numbers: LabNumbers) -> LabNumbers:
    """The numeric settings as NumPy arrays: counts as int32, the rest in double precision."""
    base = Numbers(**{k: _array(k, v) for k, v in numbers.base._asdict().items()})
    return LabNumbers(base, *(_array(k, v) for k, v in list(numbers._asdict().items())[1:]))


def _array(name: str, value: Any) -> np.ndarray:
    return np.asarray(value, np.int32 if name in _COUNTS else np.float64)


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
    """`arrays_of` with every number of shape (n_runs,)."""
    return jax.tree.map(lambda x: np.broadcast_to(x, (n_runs,)), arrays_of(numbers))
