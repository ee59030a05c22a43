"""The result of a probe: what was measured, in one line and in numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from bayes_grpo.common.results import Result
from bayes_grpo.probing.estimate import Measured

OptimizerKind = Literal["sgd", "adam"]
"""In whose metric a stiffness was measured: that of plain steps (SGD, heavy ball) or of Adam's preconditioner."""


@dataclass(frozen=True)
class Probe(Result):
    """Stiffness of an update, at one point of a training.

    Attributes:
        optimizer: In whose metric.
        stiffest: The largest stiffness.
        late_share: Share of the stiffness along the stiffest direction that comes from the rollout policy, and so
            is late under a frozen policy; 1 where the update has no importance ratios, or it was not measured.
        parts: Number of parts of the batch.
        gradients: Cost of the probe, in gradients of the whole batch.
        residual: Distance of the direction from an eigenvector of the operator, over K.
        step: Optimizer step of the training; NaN where it is not known.
    """

    optimizer: OptimizerKind
    stiffest: Measured
    late_share: float
    parts: int
    gradients: float
    residual: float
    step: float = math.nan

    also_in_json = ("sentence",)

    @property
    def sentence(self) -> str:
        """What was measured, in words."""
        k = self.stiffest.interval
        metric = "in Adam's metric" if self.optimizer == "adam" else "per unit of learning rate"
        at = f" at step {self.step:g}" if self.step == self.step else ""
        text = f"Stiffness{at}: {k.median:.3g} a step {metric}"
        if self.stiffest.sd == 0.0:
            return f"{text}, from one operator without sampling."
        text += f", {k.level:.0%} interval {k.low:.3g} to {k.high:.3g}, measured on {self.parts} parts of a batch"
        if not self.stiffest.felt:
            text += "; indistinguishable from 0, a larger batch may measure it"
        return f"{text}."
