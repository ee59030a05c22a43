"""Settings of a simulated GRPO run: what fixes the shapes, and what may vary along a batch.

`Structure` is hashable and decides what is compiled (group size, optimizer, schedule, refresh model).
`Numbers` is a pytree of numeric settings that `jax.vmap` may batch, so that a sweep over learning rates or
refresh intervals compiles once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from bayes_grpo.common.errors import SettingError

AdvantageScale = Literal["std", "mean"]
OptimizerName = Literal["heavy_ball", "ema", "adam"]
ScheduleKind = Literal["constant", "linear", "cosine"]
RefreshModel = Literal["hold", "delay"]
UpdateKind = Literal["sampled", "expected", "infinite_group"]


@dataclass(frozen=True)
class Structure:
    """The static part of a run: everything that changes the compiled program.

    Attributes:
        n_steps: Optimizer steps (T).
        group_size: Completions sampled for a prompt (G), at least 2.
        prompts_per_step: Prompts in an optimizer step (B), drawn uniformly with replacement.
        advantage: "std" divides by the group's standard deviation (GRPO, arXiv 2402.03300), "mean" only
            subtracts the group's mean (Dr. GRPO, arXiv 2503.20783).
        ddof: 0 for the population, 1 for the sample standard deviation (PyTorch's and TRL's).
        optimizer: "heavy_ball" (v = μv + g), "ema" (v = μv + (1 − μ)g) or "adam" (β₁ = μ).
        schedule: "constant", "linear" or "cosine" decay to zero at ``n_steps``; each after a linear warm-up.
        refresh: "hold" freezes the sampling policy for K_ref steps, "delay" keeps it K_ref steps old.
        update: "sampled" draws completions; "expected" is the exact mean of the sampled update over groups
            of size G; "infinite_group" its limit G → ∞. The last two are free of noise.
        eval_every: Optimizer steps between held-out evaluations; 0 for none.
    """

    n_steps: int = 300
    group_size: int = 8
    prompts_per_step: int = 16
    advantage: AdvantageScale = "std"
    ddof: Literal[0, 1] = 1
    optimizer: OptimizerName = "heavy_ball"
    schedule: ScheduleKind = "constant"
    refresh: RefreshModel = "hold"
    update: UpdateKind = "sampled"
    eval_every: int = 0

    def __post_init__(self) -> None:
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
            value = getattr(self, name)
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
            value = getattr(self, name)
            if value not in allowed:
                raise SettingError(f"{name}: expected one of {', '.join(map(str, allowed))}, found {value!r}")

    @property
    def momentum_convention(self) -> Literal["heavy_ball", "ema"]:
        """How momentum scales the step; Adam's first moment is an exponential moving average."""
        return "heavy_ball" if self.optimizer == "heavy_ball" else "ema"


class Numbers(NamedTuple):
    """The numeric settings; each a scalar or an array of shape (n_runs,).

    Attributes:
        learning_rate: Peak step size η, in parameter units per gradient unit (Adam: parameter units).
        momentum: Heavy-ball μ or Adam's β₁, in [0, 1).
        refresh_interval: K_ref, optimizer steps between refreshes ("hold") or age of the policy ("delay").
        lag_exposure: 1 evaluates the gradient at the stale sampling policy (uncorrected reuse, asynchronous
            gradients), 0 at the current policy with importance ratios (the GRPO surrogate). Values between
            interpolate the parameters linearly.
        clip_low: Importance ratios below 1 − clip_low stop pushing down.
        clip_high: Importance ratios above 1 + clip_high stop pushing up.
        kl_weight: β of the penalty β·KL(policy ‖ reference), reward per nat.
        entropy_weight: Weight of the entropy bonus, reward per nat.
        warmup_steps: Steps of linear warm-up of the learning rate.
        adam_beta2: Adam's β₂, in [0, 1).
        adam_epsilon: Adam's ε.
        advantage_epsilon: Added to the group's standard deviation (TRL: 1e-4).
    """

    learning_rate: Any = 0.1
    momentum: Any = 0.0
    refresh_interval: Any = 1
    lag_exposure: Any = 0.0
    clip_low: Any = 0.2
    clip_high: Any = 0.2
    kl_weight: Any = 0.0
    entropy_weight: Any = 0.0
    warmup_steps: Any = 0
    adam_beta2: Any = 0.999
    adam_epsilon: Any = 1e-8
    advantage_epsilon: Any = 1e-4


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
