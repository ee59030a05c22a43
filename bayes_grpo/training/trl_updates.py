"""Updates of TRL's `GRPOTrainer` at shifted parameters, on a batch that it has just used; afterwards all is as before.

The loss is the trainer's own. For the whole stiffness each completion's advantage is weighed by how much likelier the
shifted policy writes it; under the weights of no shift, with the ratios that the trainer's loss has, it is the part of
the stiffness that is never late. A penalty on the KL divergence enters by what the loss itself says of it. Torch is
there where a trainer of TRL is, and is imported by nobody here.
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
from bayes_grpo.probing.operator import Pieces, UpdateAt, adam_scale
from bayes_grpo.training.curvature import ProbeInputs

_SUMMED = ("cispo", "dapo", "vespo")
"""Losses that a slice of a batch has its share of; the others are means over the slice."""
_STATE = ("entropy_coef", "_last_world_entropy", "_entropy_window_stats", "_step", "_current_train_step_time")
"""What a loss may change in a trainer beside its metrics."""


def refusal(trainer: Any) -> str:
    """Why a trainer cannot be probed, in a sentence; "" where it can."""
    args = trainer.args
    accelerator = getattr(trainer, "accelerator", None)
    if getattr(trainer, "is_deepspeed_enabled", False) or getattr(args, "deepspeed", None):
        return "DeepSpeed keeps parameters and moments where a probe cannot shift them"
    if getattr(trainer, "is_fsdp_enabled", False) or getattr(args, "fsdp", None):
        return "FSDP keeps parameters in shards that a probe cannot shift"
    if getattr(accelerator, "num_processes", 1) > 1:
        return "several processes train together, and a probe sees the batch of one"
    if getattr(args, "bf16", False) or getattr(args, "fp16", False):
        return "gradients in bf16 or fp16 are too coarse for their differences; train in float32 to probe"
    if getattr(args, "gradient_checkpointing", False):
        kwargs = getattr(args, "gradient_checkpointing_kwargs", None) or {}
        if kwargs.get("use_reentrant", True):
            return "gradient checkpointing works here with gradient_checkpointing_kwargs={'use_reentrant': False} alone"
    if not hasattr(trainer, "_compute_loss"):
        return "this trainer has no loss by the name of TRL's GRPOTrainer"
    return ""


@contextlib.contextmanager
def opened_trainer(trainer: Any, batches: Sequence[Mapping[str, Any]], slices: int) -> Iterator[ProbeInputs]:
    """What a probe needs of TRL's trainer; on leaving, parameters, metrics and random states are as they were.

    Args:
        trainer: TRL's trainer, after an optimizer step.
        batches: Inputs of its loss in that step.
        slices: Pieces of each.
    """
    args, optimizer = trainer.args, trainer.optimizer
    refresh = trl_refresh_interval(args.steps_per_generation, args.num_iterations, args.gradient_accumulation_steps)
    with undisturbed(trainer):
        batch = BatchUpdates(trainer, batches, slices)
        moments = adam_moments(optimizer, batch.parameters)
        try:
            yield ProbeInputs(
                updates=batch.updates,
                held=batch.held if refresh > 1 else [],
                scale=1.0 if moments is None else adam_scale(*moments),
                optimizer="sgd" if moments is None else "adam",
                learning_rate=rate_of(optimizer),
                momentum=momentum_of(optimizer),
                refresh_interval=refresh,
            )
        finally:
            batch.restore()


class BatchUpdates:
    """Updates of one optimizer step's batch.

    Args:
        trainer: TRL's trainer.
        batches: Inputs of its loss, one each micro-batch.
        slices: Pieces of each micro-batch.

    Raises:
        SettingError: Inputs with images, or fewer completions than slices.
    """

    def __init__(self, trainer: Any, batches: Sequence[Mapping[str, Any]], slices: int) -> None:
        self._torch: Any = sys.modules["torch"]
        self._trainer, self._model = trainer, trainer.model
        self._named: list[Any] = [p for p in self._model.parameters() if p.requires_grad]
        self._at_rest = [p.detach().clone() for p in self._named]
        self._slices = [part for batch in batches for part in sliced(batch, slices)]
        summed = trainer.loss_type in _SUMMED
        self._factor = float(len(self._slices) if summed else len(batches))
        with self._torch.no_grad():
            self._drawn = [self._log_probabilities(part) for part in self._slices]

    @property
    def parameters(self) -> list[Any]:
        """Those that are trained."""
        return self._named

    @property
    def updates(self) -> list[UpdateAt]:
        """Of each part, its completions weighed by how much likelier they have become."""
        return [self._update(i, weighed=True) for i in range(len(self._slices))]

    @property
    def held(self) -> list[UpdateAt]:
        """Of each part, under the weights of no shift and the ratios of the trainer's own loss."""
        return [self._update(i, weighed=False) for i in range(len(self._slices))]

    def restore(self) -> None:
        """Puts the parameters back, bit for bit."""
        with self._torch.no_grad():
            for parameter, value in zip(self._named, self._at_rest, strict=True):
                parameter.copy_(value)

    def _update(self, i: int, *, weighed: bool) -> UpdateAt:
        part, drawn = self._slices[i], self._drawn[i]

        def at(shift: Any) -> Pieces:
            pieces = shift.pieces if isinstance(shift, Pieces) else [shift] * len(self._named)
            with self._torch.no_grad():
                for parameter, value, way in zip(self._named, self._at_rest, pieces, strict=True):
                    parameter.copy_(value + way)
                given = {k: v for k, v in part.items() if k != "old_per_token_logps"}
                if weighed:
                    change = ((self._log_probabilities(part) - drawn) * part["completion_mask"]).sum(dim=1)
                    weight = change.exp()
                    away = part["advantages"]
                    given["advantages"] = away * (weight if away.dim() == 1 else weight.unsqueeze(1))
                else:
                    given["old_per_token_logps"] = drawn
            # The same luck of dropout at every point, or its differences would pass for curvature.
            with same_luck():
                loss = self._trainer._compute_loss(self._model, given)
                found = self._torch.autograd.grad(loss, self._named, allow_unused=True)
            return Pieces(
                self._torch.zeros_like(p) if g is None else g.detach() * -self._factor
                for p, g in zip(self._named, found, strict=True)
            )

        return at

    def _log_probabilities(self, part: Mapping[str, Any]) -> Any:
        ids = self._torch.cat([part["prompt_ids"], part["completion_ids"]], dim=1)
        mask = self._torch.cat([part["prompt_mask"], part["completion_mask"]], dim=1)
        with same_luck():
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
def same_luck() -> Iterator[None]:
    """Random states of Python, NumPy and torch, on every device, as they were before the block."""
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
def undisturbed(trainer: Any) -> Iterator[None]:
    """What a loss changes in a trainer (metrics, counters, random states), as it was before the block."""
    before = {name: getattr(trainer, name) for name in _STATE if hasattr(trainer, name)}
    metrics = {mode: {k: list(v) for k, v in kept.items()} for mode, kept in getattr(trainer, "_metrics", {}).items()}
    with same_luck():
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(trainer, name, value)
            for mode, kept in metrics.items():
                trainer._metrics[mode].clear()
                trainer._metrics[mode].update(kept)


def adam_moments(optimizer: Any, parameters: Sequence[Any]) -> tuple[Pieces, int, float, float] | None:
    """Second moments, steps, β₂ and ε of torch's Adam; None for plain SGD.

    Raises:
        SettingError: Another optimizer, or one whose parameters differ in their settings.
    """
    inside = getattr(optimizer, "optimizer", optimizer)
    kind, groups = type(inside).__name__, inside.param_groups
    if kind == "SGD":
        return None
    if kind not in ("Adam", "AdamW") or any(g.get("amsgrad") for g in groups):
        raise SettingError(
            f"CurvatureProbe: expected torch's Adam, AdamW or SGD, found {kind}; set optim='adamw_torch'"
        )
    settings = {(g["betas"][1], g["eps"]) for g in groups}
    steps = {int(inside.state[p]["step"]) for p in parameters}
    if len(settings) != 1 or len(steps) != 1:
        raise SettingError("CurvatureProbe: expected one β₂, ε and count of steps for all parameters, found several")
    (beta2, epsilon), (step,) = settings.pop(), steps
    return Pieces(inside.state[p]["exp_avg_sq"].detach() for p in parameters), step, float(beta2), float(epsilon)


def rate_of(optimizer: Any) -> float:
    """Learning rate of the next update."""
    return float(getattr(optimizer, "optimizer", optimizer).param_groups[0]["lr"])


def momentum_of(optimizer: Any) -> float:
    """Adam's β₁ or the momentum of SGD."""
    group = getattr(optimizer, "optimizer", optimizer).param_groups[0]
    return float(group["betas"][0] if "betas" in group else group.get("momentum", 0.0))
