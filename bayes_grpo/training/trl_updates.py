"""Updates of TRL's `GRPOTrainer` at shifted parameters, on a batch that it has just used; afterwards all is as before.

The loss is the trainer's own. For the whole stiffness each completion's advantage is weighted by how much likelier the
shifted policy writes it; with the weights of no shift and the ratios of the trainer's loss, it is the part of the
stiffness that is never late. A penalty on the KL divergence enters as it does in the loss. A trainer of TRL has
imported torch, so nothing here imports it.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bayes_grpo.common.errors import SettingError
from bayes_grpo.dynamics.reduction import trl_refresh_interval
from bayes_grpo.probing.operator import BlockVector, UpdateAt, adam_scale
from bayes_grpo.training.curvature import ProbeInputs

_SUMMED = ("cispo", "dapo", "vespo")
"""Losses of which a slice of a batch has its share; the others are means over the slice."""
_STATE = ("entropy_coef", "_last_world_entropy", "_entropy_window_stats", "_step", "_current_train_step_time")
"""Attributes of a trainer, other than its metrics, that a loss may change."""


def refusal(trainer: Any) -> str:
    """Why a trainer cannot be probed, in a sentence; "" where it can."""
    args = trainer.args
    checkpointing = getattr(args, "gradient_checkpointing_kwargs", None) or {}
    reasons = {
        "DeepSpeed keeps parameters and moments where a probe cannot shift them": (
            getattr(trainer, "is_deepspeed_enabled", False) or getattr(args, "deepspeed", None)
        ),
        "FSDP keeps parameters in shards that a probe cannot shift": (
            getattr(trainer, "is_fsdp_enabled", False) or getattr(args, "fsdp", None)
        ),
        "several processes train together, and a probe sees the batch of one": (
            getattr(getattr(trainer, "accelerator", None), "num_processes", 1) > 1
        ),
        "gradients in bf16 or fp16 are too coarse for their differences; train in float32 to probe": (
            getattr(args, "bf16", False) or getattr(args, "fp16", False)
        ),
        "gradient checkpointing works here with gradient_checkpointing_kwargs={'use_reentrant': False} alone": (
            getattr(args, "gradient_checkpointing", False) and checkpointing.get("use_reentrant", True)
        ),
        "this trainer has no loss by the name of TRL's GRPOTrainer": not hasattr(trainer, "_compute_loss"),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


@contextlib.contextmanager
def opened_trainer(trainer: Any, batches: Sequence[Mapping[str, Any]], slices: int) -> Iterator[ProbeInputs]:
    """Inputs of a probe from TRL's trainer; on leaving, parameters, metrics and random states are as they were.

    Args:
        trainer: TRL's trainer, after an optimizer step.
        batches: Inputs of its loss in that step, one each micro-batch.
        slices: Pieces of each.

    Raises:
        SettingError: Images, fewer completions than slices, or another optimizer than Adam and SGD.
    """
    args = trainer.args
    optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    refresh = trl_refresh_interval(args.steps_per_generation, args.num_iterations, args.gradient_accumulation_steps)
    group = optimizer.param_groups[0]
    with preserve_state(trainer):
        batch = BatchUpdates(trainer, batches, slices)
        moments = adam_moments(optimizer, batch.parameters)
        try:
            yield ProbeInputs(
                updates=batch.updates(weighted=True),
                unweighted=batch.updates(weighted=False) if refresh > 1 else [],
                scale=1.0 if moments is None else adam_scale(*moments),
                optimizer="sgd" if moments is None else "adam",
                learning_rate=float(group["lr"]),
                momentum=float(group["betas"][0] if "betas" in group else group.get("momentum", 0.0)),
                refresh_interval=refresh,
            )
        finally:
            batch.restore()


class BatchUpdates:
    """Updates of one optimizer step's batch, cut into slices.

    Attributes:
        parameters: Those that are trained.
    """

    def __init__(self, trainer: Any, batches: Sequence[Mapping[str, Any]], slices: int) -> None:
        self._torch: Any = sys.modules["torch"]
        self._trainer = trainer
        self._model = trainer.model
        self.parameters: list[Any] = [p for p in self._model.parameters() if p.requires_grad]
        self._original = [p.detach().clone() for p in self.parameters]
        self._slices = [part for batch in batches for part in sliced(batch, slices)]
        self._factor = float(len(self._slices) if trainer.loss_type in _SUMMED else len(batches))
        with self._torch.no_grad():
            self._drawn = [self._log_probabilities(part) for part in self._slices]

    def updates(self, *, weighted: bool) -> list[UpdateAt]:
        """Update of each slice at a shift.

        Args:
            weighted: Whether completions are weighted by how much likelier they have become; otherwise the weights are
                those of no shift and the ratios those of the trainer's own loss.
        """
        return [self._update(part, drawn, weighted) for part, drawn in zip(self._slices, self._drawn, strict=True)]

    def restore(self) -> None:
        """Puts the parameters back, bit for bit."""
        with self._torch.no_grad():
            for parameter, value in zip(self.parameters, self._original, strict=True):
                parameter.copy_(value)

    def _update(self, part: Mapping[str, Any], drawn: Any, weighted: bool) -> UpdateAt:
        def at(shift: Any) -> BlockVector:
            pieces = shift.pieces if isinstance(shift, BlockVector) else [shift] * len(self.parameters)
            with self._torch.no_grad():
                for parameter, value, offset in zip(self.parameters, self._original, pieces, strict=True):
                    parameter.copy_(value + offset)
            given = {k: v for k, v in part.items() if k != "old_per_token_logps"}
            if weighted:
                with self._torch.no_grad():
                    change = ((self._log_probabilities(part) - drawn) * part["completion_mask"]).sum(dim=1)
                weight = change.exp()
                advantages = part["advantages"]
                given["advantages"] = advantages * (weight if advantages.dim() == 1 else weight.unsqueeze(1))
            else:
                given["old_per_token_logps"] = drawn
            # The same dropout at every point, or its differences would pass for curvature.
            with same_random_state():
                loss = self._trainer._compute_loss(self._model, given)
                found = self._torch.autograd.grad(loss, self.parameters, allow_unused=True)
            return BlockVector(
                self._torch.zeros_like(p) if g is None else g.detach() * -self._factor
                for p, g in zip(self.parameters, found, strict=True)
            )

        return at

    def _log_probabilities(self, part: Mapping[str, Any]) -> Any:
        ids = self._torch.cat([part["prompt_ids"], part["completion_ids"]], dim=1)
        mask = self._torch.cat([part["prompt_mask"], part["completion_mask"]], dim=1)
        with same_random_state():
            found = self._trainer._get_per_token_logps_and_entropies(
                self._model, ids, mask, part["completion_ids"].size(1)
            )
        return found[0].detach()


def sliced(batch: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """A micro-batch in parts of equal size.

    Raises:
        SettingError: It holds images, or too few completions.
    """
    if any("pixel" in key or "image" in key for key in batch):
        raise SettingError("CurvatureProbe: expected completions of text, found images; probe a training of text")
    size = len(batch["completion_ids"])
    each = size // count
    if each < 1:
        raise SettingError(f"CurvatureProbe: expected at least {count} completions a micro-batch, found {size}")

    def cut(value: Any, i: int) -> Any:
        whole = hasattr(value, "dim") and value.dim() > 0 and len(value) == size
        return value[i * each : (i + 1) * each] if whole else value

    return [{k: cut(v, i) for k, v in batch.items()} for i in range(count)]


@contextlib.contextmanager
def same_random_state() -> Iterator[None]:
    """A block after which the random states of Python, NumPy and torch, on every device, are as before."""
    torch: Any = sys.modules.get("torch")
    plain, array = random.getstate(), np.random.get_state()  # noqa: NPY002
    ours = None if torch is None else torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch is not None and torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(plain)
        np.random.set_state(array)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(ours)
            if devices:
                torch.cuda.set_rng_state_all(devices)


@contextlib.contextmanager
def preserve_state(trainer: Any) -> Iterator[None]:
    """A block after which metrics, counters and random states of a trainer are as before."""
    before = {name: getattr(trainer, name) for name in _STATE if hasattr(trainer, name)}
    metrics = {mode: {k: list(v) for k, v in kept.items()} for mode, kept in getattr(trainer, "_metrics", {}).items()}
    with same_random_state():
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(trainer, name, value)
            for mode, kept in metrics.items():
                trainer._metrics[mode].clear()
                trainer._metrics[mode].update(kept)


def adam_moments(optimizer: Any, parameters: Sequence[Any]) -> tuple[BlockVector, int, float, float] | None:
    """Second moments, steps, β₂ and ε of torch's Adam; None for plain SGD.

    Raises:
        SettingError: Another optimizer, or one whose parameters differ in their settings.
    """
    kind = type(optimizer).__name__
    groups = optimizer.param_groups
    if kind == "SGD":
        return None
    if kind not in ("Adam", "AdamW") or any(g.get("amsgrad") for g in groups):
        raise SettingError(
            f"CurvatureProbe: expected torch's Adam, AdamW or SGD, found {kind}; set optim='adamw_torch'"
        )
    settings = {(g["betas"][1], g["eps"]) for g in groups}
    steps = {int(optimizer.state[p]["step"]) for p in parameters}
    if len(settings) != 1 or len(steps) != 1:
        raise SettingError("CurvatureProbe: expected one β₂, ε and count of steps for all parameters, found several")
    beta2, epsilon = settings.pop()
    (step,) = steps
    return (
        BlockVector(optimizer.state[p]["exp_avg_sq"].detach() for p in parameters),
        step,
        float(beta2),
        float(epsilon),
    )
