"""The stiffness that probes measure, with its error, and the result of a probe.

The largest eigenvalue of a noisy matrix is too large: its direction was chosen for what the noise adds. Read along the
same direction on data that did not choose it, the matrix says too little, for the direction is not quite right. With
noise E the two errors are ‖E v‖²/K, once up and once down, to second order. So directions are found on each half of a
batch, and each is read on all parts of both: what its own half adds the other takes away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.common.results import Result

DETECTION_RATIO = 2.0
"""Smallest ratio of a stiffness to its standard error at which the batch detects it."""


@dataclass(frozen=True)
class Measured(Result):
    """A measured stiffness: a Student t, because its error is itself known from few parts.

    Attributes:
        mean: Its center, per unit learning rate and step; Adam: in preconditioned units.
        sd: Its scale: the error of the mean over the parts, and what the direction's error leaves at third order.
        freedom: Degrees of freedom; infinite where nothing was sampled.
        crossed: Estimate from data that did not choose the direction: biased low, if at all.
        chosen: Estimate from the data that chose it: biased high.
    """

    mean: float
    sd: float
    freedom: float
    crossed: float
    chosen: float

    @property
    def detected(self) -> bool:
        """The estimate differs from zero. Where it does not, the batch says little: not that there is nothing stiff.

        A policy that writes nearly the same every time is stiff in directions which hardly any of its completions feel.
        """
        return self.mean > DETECTION_RATIO * self.sd

    def quantile(self, probability: float) -> float:
        """Value below which it lies with a probability."""
        return self.mean + self.sd * float(stdtrit(self.freedom, probability))

    def below(self, value: float) -> float:
        """Probability that it lies below a value."""
        if self.sd == 0.0 or math.isinf(value):
            return float(self.mean < value)
        return float(stdtr(self.freedom, (value - self.mean) / self.sd))

    def draws(self) -> np.ndarray:
        """Evenly spread draws, shape (999,); a stiffness that is not positive counts as almost none."""
        found = self.mean + self.sd * stdtrit(self.freedom, (np.arange(999) + 0.5) / 999)
        return np.maximum(found, 1e-12 * max(abs(self.mean), np.finfo(float).tiny))

    @property
    def interval(self) -> Interval:
        """Median and interval."""
        tail = 0.5 - LEVEL / 2.0
        return Interval(self.mean, self.quantile(tail), self.quantile(1.0 - tail), LEVEL)


def stiffness_of(readings: Sequence[Sequence[float]], own: Sequence[Sequence[bool]] | None = None) -> Measured:
    """A stiffness from directions, read on two parts of a batch or more.

    Args:
        readings: What each direction reads on each part, shape (directions, parts).
        own: Whether a part is of the half that found the direction, same shape; None where none is.

    Raises:
        SettingError: Readings that are not finite.
    """
    table = np.asarray(readings, float)
    mine = np.zeros(table.shape, bool) if own is None else np.asarray(own, bool)
    broken = int((~np.isfinite(table)).sum())
    if broken:
        raise SettingError(f"measured: expected finite readings, found {broken} of {table.size} that are not")
    each = table.mean(axis=0)
    parts = table.shape[1]
    crossed = float(table[~mine].mean())
    chosen = float(table[mine].mean()) if mine.any() else math.nan
    gap = 0.5 * (chosen - crossed) if mine.any() else 0.0
    mean = float(each.mean())
    error = float(each.std(ddof=1)) / math.sqrt(parts)
    # Beyond second order the halves' errors no longer cancel; where the gap is as large as K, nothing is known of K.
    beyond = gap**2 / max(abs(mean), abs(gap)) if gap else 0.0
    return Measured(mean, math.hypot(error, beyond), parts - 1.0, crossed, chosen)


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
        """The measurement in words."""
        k = self.stiffest.interval
        metric = "in Adam's metric" if self.optimizer == "adam" else "per unit of learning rate"
        at = f" at step {self.step:g}" if self.step == self.step else ""
        text = f"Stiffness{at}: {k.median:.3g} a step {metric}"
        if self.stiffest.sd == 0.0:
            return f"{text}, from one operator without sampling."
        text += f", {k.level:.0%} interval {k.low:.3g} to {k.high:.3g}, measured on {self.parts} parts of a batch"
        if not self.stiffest.detected:
            text += "; indistinguishable from 0, a larger batch may measure it"
        return f"{text}."
