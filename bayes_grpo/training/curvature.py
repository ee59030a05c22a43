"""A probe inside a training: every so many steps, on the batch just used, into the trainer's own log.

Two gradients a probe turn a direction that is kept from probe to probe and read the stiffness along it
(`bayes_grpo.probing.probe`); where completions are trained on more than once, two more find which share of it is
late. Nothing of the training changes: parameters and random states are put back bit for bit. An error of ours is one
warning.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

from bayes_grpo.common.errors import SettingError
from bayes_grpo.probing.course import pooled_probes
from bayes_grpo.probing.estimate import OptimizerKind, Probe
from bayes_grpo.probing.file import save_probes
from bayes_grpo.probing.operator import STEP, AnyVector, UpdateAt
from bayes_grpo.probing.predict import limits_of
from bayes_grpo.probing.probe import ProbeTracker
from bayes_grpo.training.background import Guard
from bayes_grpo.training.callback import prepend_callback, write_entries


class ProbeInputs(NamedTuple):
    """Inputs of a probe, at one step of a training.

    Attributes:
        updates: Of each part of the batch, as `bayes_grpo.probing.probe` takes them.
        unweighted: The same with every completion's weight at 1; empty where nothing is late.
        scale: D, as it stands now.
        optimizer: In whose metric.
        learning_rate: Of the next update.
        momentum: μ or β₁.
        refresh_interval: K_ref in optimizer steps.
    """

    updates: list[UpdateAt]
    unweighted: list[UpdateAt]
    scale: float | AnyVector
    optimizer: OptimizerKind
    learning_rate: float
    momentum: float
    refresh_interval: float


Opened = Callable[[Any, list[Any], int], contextlib.AbstractContextManager[ProbeInputs]]
"""Trainer, inputs of its loss in the last step and number of parts → the inputs of a probe, as a block after which
everything is as it was."""


class CurvatureWatcher:
    """Events of a training, as transformers' Trainer calls them, with the arguments of `bayes_grpo.trl.CurvatureProbe`.

    Args:
        opened: See `Opened`.
        refused: Why a trainer cannot be probed; "" where it can.

    Raises:
        SettingError: An impossible number.
    """

    def __init__(
        self,
        *,
        every: int = 25,
        parts: int = 8,
        path: str | Path | None = "probe.json",
        length: float = STEP,
        opened: Opened,
        refused: Callable[[Any], str] = lambda trainer: "",
    ) -> None:
        for name, value, least in (("every", every, 1), ("parts", parts, 4)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SettingError(f"CurvatureProbe: expected {name} of at least {least}, found {value!r}")
        if not 0.0 < length < math.inf:
            raise SettingError(f"CurvatureProbe: expected a positive length, found {length!r}")
        self._every, self._parts, self._path, self._length = every, parts, path, length
        self._opened, self._refused = opened, refused
        self._trainer: Any = None
        self._inputs: list[Any] = []
        self._entries: dict[str, float] = {}
        self._tracker = ProbeTracker()
        self._guard = Guard("no more probes in the log")
        self.probes: list[Probe] = []

    def attach(self, trainer: Any) -> Self:
        """Puts the callback before those that report, and reads the inputs of the trainer's loss.

        Args:
            trainer: TRL's `GRPOTrainer`, or one that is built on it.

        Returns:
            This callback.

        Raises:
            SettingError: It is no such trainer, or one that cannot be probed.
        """
        if not callable(getattr(trainer, "compute_loss", None)):
            raise SettingError(f"attach: expected a trainer of TRL, found {type(trainer).__name__}")
        if why := self._refused(trainer):
            raise SettingError(f"CurvatureProbe: {why}")
        prepend_callback(self, trainer)
        self._trainer = trainer
        inner = trainer.compute_loss

        def recording_loss(model: Any, inputs: Any, *rest: Any, **more: Any) -> Any:
            if (trainer.state.global_step + 1) % self._every == 0 and model.training:
                self._inputs.append(inputs)
            return inner(model, inputs, *rest, **more)

        trainer.compute_loss = recording_loss
        return self

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Probes, after every so many steps."""
        inputs, self._inputs = self._inputs, []
        if not inputs or state.global_step % self._every:
            return
        with self._guard():
            begun = time.perf_counter()
            with self._opened(self._trainer, inputs, self._parts) as batch:
                found = self._tracker.measure(batch.updates, batch.scale, self._length, batch.unweighted)
            self.probes.append(
                Probe(
                    optimizer=batch.optimizer,
                    stiffest=found.stiffest,
                    late_share=found.late_share,
                    parts=len(batch.updates),
                    gradients=found.gradients,
                    residual=math.sqrt(max(1.0 - found.turned**2, 0.0)),
                    step=float(state.global_step),
                )
            )
            self._entries = probe_entries(self.probes, batch) | {"curvature/seconds": time.perf_counter() - begun}
            if self._path is not None and state.is_world_process_zero:
                save_probes(self.probes, Path(args.output_dir) / self._path)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Writes the last probe into a row, once."""
        if logs is not None and self._entries:
            write_entries(self._entries, state, logs)
            self._entries = {}


def probe_entries(probes: list[Probe], batch: ProbeInputs) -> dict[str, float]:
    """The last probes as entries of a log; where they cannot tell, or at a learning rate of 0, the stiffness alone."""
    together = pooled_probes(probes)
    k = together.stiffest.interval
    entries = {
        "curvature/last": probes[-1].stiffest.mean,
        "curvature/stiffest": k.median,
        "curvature/stiffest_low": k.low,
        "curvature/stiffest_high": k.high,
        "curvature/turned": probes[-1].residual,
    }
    if together.stiffest.detected and batch.learning_rate > 0:
        limits = limits_of(together, batch.learning_rate, batch.momentum, batch.refresh_interval)
        entries |= {
            "curvature/late_share": together.late_share,
            "curvature/margin": limits.margin.median,
            "curvature/margin_low": limits.margin.low,
            "curvature/p_stable": limits.p_stable,
        }
    return {name: value for name, value in entries.items() if math.isfinite(value)}
