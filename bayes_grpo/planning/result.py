"""The result of a plan: records of thresholds, of others who changed the same settings, and of noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from bayes_grpo.common.intervals import LEVEL, Interval
from bayes_grpo.common.results import Result, frame_of
from bayes_grpo.planning.noise import RowNoise
from bayes_grpo.planning.outcomes import OtherRuns
from bayes_grpo.planning.thresholds import PlannedSettings, Threshold, ThresholdKind

if TYPE_CHECKING:
    import pandas as pd

StiffnessSource = Literal["given", "probe", "low_lag_run", "lagged_run"]
"""A number, a measurement next to a training, or the reward curve of a run that refreshed every step or less often."""
Verdict = Literal["stable", "unstable", "run_failed", "cannot_tell"]


class StiffnessUsed(NamedTuple):
    """Stiffness of the update and its origin.

    Attributes:
        value: K per unit learning rate and step; Adam: in preconditioned units.
        source: Where it comes from.
        regime: Fitted regime; "" where nothing was fitted.
        quantity: Fitted quantity from which it follows; "" likewise.
    """

    value: Interval
    source: StiffnessSource
    regime: str = ""
    quantity: str = ""

    @property
    def from_reward(self) -> bool:
        """True if it is that of the directions which the reward shows; stiffer ones may exist."""
        return self.source in ("low_lag_run", "lagged_run")


class NoiseModel(NamedTuple):
    """Intraclass correlation of the completions of one prompt, and whether the log shows it; else it is typical."""

    correlation: float
    logged: bool


@dataclass(frozen=True)
class Plan(Result):
    """Settings of the next run: two statements about stability, and noise.

    The linear thresholds are computed from the stiffness. The outcomes of others are counted; they share no number with
    the thresholds and can differ from them.

    Attributes:
        run: Name of the present run; "" without one.
        settings: Planned settings.
        present: Settings of the present run; None without one.
        stiffness: Stiffness of the update.
        gain: Planned gain g = η K.
        thresholds: Published rule, exact threshold of a frozen policy, onset of oscillation.
        largest_refresh_interval: Largest stable refresh interval at the median stiffness, other settings as planned;
            0 for none.
        largest_momentum: Largest stable momentum likewise; NaN for none, 1 where all below 1 are stable.
        others: Public runs that changed one setting: the planned changes first, then other learning rates.
        noise: Noise of a row at group sizes of equal cost and at the planned settings; empty where group size or
            prompts per step are unknown.
        noise_model: What this noise rests on; None without it.
        run_failed: Whether the present run failed.
        converged: Whether the sampler of a fit converged; True where nothing was fitted.
    """

    run: str
    settings: PlannedSettings
    present: PlannedSettings | None
    stiffness: StiffnessUsed
    gain: Interval
    thresholds: tuple[Threshold, ...]
    largest_refresh_interval: int
    largest_momentum: float
    others: tuple[OtherRuns, ...]
    noise: tuple[RowNoise, ...] = ()
    noise_model: NoiseModel | None = None
    run_failed: bool = False
    converged: bool = True

    interval_level = LEVEL
    also_in_json = ("verdict", "changes", "interval_level")

    def threshold(self, kind: ThresholdKind) -> Threshold:
        """One of the thresholds."""
        return next(x for x in self.thresholds if x.kind == kind)

    @property
    def verdict(self) -> Verdict:
        """Stability of the planned settings by the exact threshold.

        "run_failed" where the present run failed and no planned setting is more careful; "cannot_tell" where the
        reward curve alone gives the stiffness and does not exceed the threshold, because stiffer directions may.
        """
        if self.run_failed and not any(x.ratio < 1.0 for x in self.changes if x.setting in _CAREFUL_IF_LOWER):
            return "run_failed"
        if self.stiffness.source == "lagged_run":
            return "cannot_tell"
        if self.threshold("frozen_policy").p_below < 0.5:
            return "unstable"
        return "cannot_tell" if self.stiffness.from_reward else "stable"

    @property
    def changes(self) -> tuple[OtherRuns, ...]:
        """The planned changes of settings among `others`."""
        return tuple(x for x in self.others if x.planned)

    def to_frame(self) -> pd.DataFrame:
        """One row a threshold."""
        return frame_of(self.thresholds, "kind")


_CAREFUL_IF_LOWER = ("learning_rate", "refresh_interval")
"""Settings of which a lower value makes a run more stable."""
