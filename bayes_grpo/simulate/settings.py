"""Settings of a simulated GRPO run: what fixes the shapes, and what may vary along a batch.

`Structure` is hashable and decides what is compiled (group size, optimizer, schedule, refresh model).
`Numbers` is a pytree of numeric settings that `jax.vmap` may batch, so that a sweep over learning rates or
refresh intervals compiles once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

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
        eval_every: Optimizer steps between evaluations; 0 for none.
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
