"""Settings of a run that its dynamics depend on, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any


class Provenance(StrEnum):
    """Where the value of a setting comes from."""

    LOGGED = "logged"
    CONFIG = "config"
    USER = "user"
    ASSUMED = "assumed"


CLOSED = "the trainer's closing line follows the last row"
"""Note on the steps of a run that has ended, which nobody could know before."""


@dataclass(frozen=True)
class Setting:
    """One setting of a run with its origin.

    Attributes:
        value: The value, or None where it is not known and no default is documented.
        provenance: Where it comes from.
        note: One clause that explains an assumed value, e.g. "TRL's documented default".
    """

    value: Any = None
    provenance: Provenance = Provenance.ASSUMED
    note: str = ""

    @property
    def explicit(self) -> Any:
        """The value; None where it is only assumed."""
        return None if self.provenance is Provenance.ASSUMED else self.value


@dataclass(frozen=True)
class Settings:
    """Settings of a run that its dynamics depend on, each with provenance.

    Attributes:
        group_size: Completions sampled for a prompt (G).
        prompts_per_step: Prompts in an optimizer step (B).
        momentum: Heavy-ball μ or Adam's β₁, in [0, 1).
        momentum_convention: "heavy_ball" (v = μv + g) or "ema" (v = βv + (1 − β)g; Adam).
        refresh_interval: Optimizer steps between refreshes of the sampling policy (K_ref).
        schedule: "logged" (follow the logged learning rate), "constant", "linear" or "cosine".
        total_steps: Planned length of the run in optimizer steps.
        logging_window: Optimizer steps averaged into one logged row.
        reward_low: Smallest possible reward of a completion.
        reward_high: Largest possible reward of a completion.
        reward_std_kind: "within" (mean within-group std), "total" (std of all rewards) or "unknown".
        learning_rate: Highest learning rate, where it is configured; a log's own is the signal `learning_rate`.
        epochs: Passes over a rollout's completions.
        kl_weight: Weight of the KL penalty.
        clip_range: Upper clip range of the ratios.
        model_size: Parameters of the model, in whatever unit the runs share (billions, as in names of models).
        save_steps: Optimizer steps between checkpoints.
        advantage_scaling: What rewards are divided by: the spread of their "group", of the whole "batch", "none", or
            "gdpo" (each reward by its group's, then the sum by the batch's).
        group_filter: Whether zero-variance groups are taken out: "none", or they are and the logged share of them is
            of the groups "before" or "after".
        entropy_weight: Weight of the entropy bonus.
    """

    group_size: Setting = field(default_factory=Setting)
    prompts_per_step: Setting = field(default_factory=Setting)
    momentum: Setting = field(default_factory=Setting)
    momentum_convention: Setting = field(default_factory=Setting)
    refresh_interval: Setting = field(default_factory=Setting)
    schedule: Setting = field(default_factory=Setting)
    total_steps: Setting = field(default_factory=Setting)
    logging_window: Setting = field(default_factory=Setting)
    reward_low: Setting = field(default_factory=Setting)
    reward_high: Setting = field(default_factory=Setting)
    reward_std_kind: Setting = field(default_factory=Setting)
    learning_rate: Setting = field(default_factory=Setting)
    epochs: Setting = field(default_factory=Setting)
    kl_weight: Setting = field(default_factory=Setting)
    clip_range: Setting = field(default_factory=Setting)
    model_size: Setting = field(default_factory=Setting)
    save_steps: Setting = field(default_factory=Setting)
    advantage_scaling: Setting = field(default_factory=Setting)
    group_filter: Setting = field(default_factory=Setting)
    entropy_weight: Setting = field(default_factory=Setting)

    def items(self) -> list[tuple[str, Setting]]:
        """Names and settings in declaration order."""
        return [(f.name, getattr(self, f.name)) for f in fields(self)]
