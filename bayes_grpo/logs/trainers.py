"""Which key means what in each trainer's log: one table, no code.

A key may hold ``*`` (any text without "/") or ``**`` (any text). Keys are tried in the order written; the
first that the log has is used. Weights & Biases, Trackio and SwanLab put ``train/`` before TRL's names, so
TRL's are listed once and looked up both ways (`Trainer.prefixes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Trainer:
    """What is known about the logs of one trainer.

    Attributes:
        name: Short name, used in notes.
        label: Name as its authors write it.
        signature: Keys that only this trainer writes; the trainer with most of them present is taken.
        steps: Groups of keys that hold the step. Keys of one group share one axis and complete each other
            row by row; the first group present is used.
        reward: Keys of the mean train reward.
        evals: Keys of the held-out reward.
        signals: Canonical signal → keys.
        eval_prefixes: Beginnings of the keys of evaluation rows.
        prefixes: Put before every key above when it is looked up.
        defaults: Setting → the trainer's documented default.
        std_kind: Meaning of the logged reward_std where the trainer fixes it.
    """

    name: str
    label: str
    signature: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    reward: tuple[str, ...]
    evals: tuple[str, ...] = ()
    signals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prefixes: tuple[str, ...] = ("",)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    std_kind: str | None = None


_ADAM = {"momentum": 0.9, "momentum_convention": "ema", "refresh_interval": 1}

TRL = Trainer(
    name="trl",
    label="TRL",
    signature=(
        "rewards/**",
        "completions/mean_length",
        "clip_ratio/region_mean",
        "eval_rewards/**",
        "num_tokens",
        "train_runtime",
        "eval_runtime",
    ),
    steps=(("train/global_step", "global_step"), ("step",), ("_step",)),
    reward=("reward",),
    evals=("eval_reward", "eval/reward", "eval_*_reward", "eval/*_reward"),
    signals={
        "reward_std": ("reward_std",),
        "frac_reward_zero_std": ("frac_reward_zero_std",),
        "entropy": ("entropy",),
        "kl": ("kl",),
        "clip_ratio": ("clip_ratio/region_mean", "clip_ratio"),
        "grad_norm": ("grad_norm",),
        "completion_length": ("completions/mean_length", "completion_length"),
        "learning_rate": ("learning_rate",),
        "loss": ("loss",),
        "accuracy": ("accuracy",),
        "completions_clipped_ratio": ("completions/clipped_ratio",),
    },
    prefixes=("", "train/"),
    defaults={**_ADAM, "group_size": 8, "schedule": "linear"},
)

TRL_PPO = Trainer(
    name="trl_ppo",
    label="TRL (PPO, RLOO)",
    signature=(
        "objective/scores",
        "objective/rlhf_reward",
        "objective/non_score_reward",
        "val/num_eos_tokens",
    ),
    steps=(("train/global_step", "global_step"), ("step",)),
    reward=("objective/scores",),
    evals=("eval_reward", "eval/reward", "eval_objective/scores"),
    signals={
        "entropy": ("policy/entropy_avg",),
        "kl": ("objective/kl",),
        "clip_ratio": ("policy/clipfrac_avg",),
        "grad_norm": ("grad_norm",),
        "learning_rate": ("lr", "learning_rate"),
        "loss": ("loss/policy_avg", "loss"),
    },
    prefixes=("", "train/"),
    defaults={**_ADAM, "schedule": "linear"},
)

VERL = Trainer(
    name="verl",
    label="verl",
    signature=("critic/score/mean", "critic/rewards/mean", "actor/**", "val-core/**", "training/global_step"),
    steps=(("training/global_step", "step"), ("step",), ("_step",)),
    reward=("critic/score/mean", "critic/rewards/mean"),
    evals=("val-core/**/mean@*", "val-core/**", "val/test_score/**", "val/**"),
    signals={
        "entropy": ("actor/entropy", "actor/entropy_loss"),
        "kl": ("actor/kl_loss", "actor/reward_kl_penalty", "critic/kl", "actor/ppo_kl"),
        "clip_ratio": ("actor/pg_clipfrac",),
        "grad_norm": ("actor/grad_norm",),
        "completion_length": ("response_length/mean", "response_length_non_aborted/mean"),
        "learning_rate": ("actor/lr", "actor/lr(1e-4)"),
        "loss": ("actor/pg_loss", "actor/loss"),
        "completions_clipped_ratio": ("response_length/clip_ratio",),
    },
    defaults={**_ADAM, "group_size": 1, "prompts_per_step": 1024, "schedule": "constant"},
)

OPENRLHF = Trainer(
    name="openrlhf",
    label="OpenRLHF",
    signature=("train/group_reward_std", "train/actor_lr", "train/actor_grad_norm", "train/ppo_clip_ratio"),
    steps=(("train/global_step", "eval/global_step"), ("step",)),
    reward=("train/reward",),
    evals=("eval/*pass1", "eval/*pass*"),
    signals={
        "reward_std": ("train/group_reward_std",),
        "entropy": ("train/entropy_loss",),
        "kl": ("train/kl", "train/ppo_kl"),
        "clip_ratio": ("train/ppo_clip_ratio",),
        "grad_norm": ("train/actor_grad_norm",),
        "completion_length": ("train/response_length",),
        "learning_rate": ("train/actor_lr",),
        "loss": ("train/policy_loss", "train/act_loss"),
    },
    defaults={**_ADAM, "group_size": 1, "prompts_per_step": 1024, "schedule": "cosine"},
    std_kind="within",
)

PRIME_RL = Trainer(
    name="prime_rl",
    label="prime-rl",
    signature=("train/agg/**", "mismatch_kl/all/mean", "entropy/all/mean", "is_masked/**", "off_policy/**"),
    steps=(("step",), ("_step",)),
    reward=(
        "train/agg/all/*/reward/mean",
        "train/agg/effective/*/reward/mean",
        "reward/all/mean",
        "reward/mean",
    ),
    evals=("eval/*/all/*/avg@*", "eval/*/effective/*/avg@*", "eval/**/avg@*"),
    signals={
        "entropy": ("entropy/all/mean", "entropy/mean"),
        "kl": ("mismatch_kl/all/mean", "mismatch_kl/mean"),
        "clip_ratio": ("is_masked/all/mean", "is_masked/mean"),
        "grad_norm": ("optim/grad_norm",),
        "completion_length": (
            "train/agg/all/*/num_output_tokens/mean",
            "train/agg/effective/*/num_output_tokens/mean",
            "seq_len/all/mean",
        ),
        "learning_rate": ("optim/lr",),
        "loss": ("loss/mean", "loss/all/mean"),
        "completions_clipped_ratio": ("train/agg/all/*/is_truncated/mean",),
    },
    defaults={**_ADAM, "group_size": 1},
)

NEMO_RL = Trainer(
    name="nemo_rl",
    label="NeMo-RL",
    signature=("train/baseline_reward/**", "train/probs_ratio", "train/approx_entropy", "train/gen_kl_error"),
    steps=(("step",), ("_step",)),
    reward=("train/reward",),
    evals=("validation/accuracy", "validation/reward"),
    signals={
        "entropy": ("train/approx_entropy",),
        "kl": ("train/kl_penalty", "train/gen_kl_error"),
        "grad_norm": ("train/grad_norm",),
        "completion_length": ("train/mean_gen_tokens_per_sample",),
        "learning_rate": ("train/lr",),
        "loss": ("train/loss",),
    },
    defaults={**_ADAM, "group_size": 16, "prompts_per_step": 32, "schedule": "constant"},
)

OPEN_INSTRUCT = Trainer(
    name="open_instruct",
    label="open-instruct",
    signature=("scores", "objective/verifiable_reward", "val/sequence_lengths", "batch/filtered_prompts"),
    steps=(("training_step",), ("step",), ("_step",)),
    reward=("scores", "objective/verifiable_reward"),
    evals=("eval/scores", "eval/pass_at_1"),
    signals={
        "entropy": ("policy/entropy_avg",),
        "kl": ("loss/kl_avg", "objective/kl_avg", "objective/kl3_avg"),
        "clip_ratio": ("policy/clipfrac_avg",),
        "grad_norm": ("optim/grad_norm",),
        "completion_length": ("val/sequence_lengths",),
        "learning_rate": ("lr",),
        "loss": ("loss/policy_avg", "loss/total_avg"),
    },
    defaults={**_ADAM, "group_size": 4, "prompts_per_step": 16},
)

AREAL = Trainer(
    name="areal",
    label="AReaL",
    signature=("ppo_actor/**",),
    steps=(("step",), ("_step",)),
    reward=("ppo_actor/task_reward/avg", "rollout/reward"),
    evals=("eval-rollout/reward",),
    signals={
        "entropy": ("ppo_actor/update/entropy/avg",),
        "kl": ("ppo_actor/update/approx_kl/avg", "ppo_actor/update/behave_approx_kl/avg"),
        "clip_ratio": ("ppo_actor/update/clip_ratio/avg",),
        "grad_norm": ("ppo_actor/update/grad_norm",),
        "completion_length": ("ppo_actor/seq_len/avg",),
        "learning_rate": ("ppo_actor/update/lr",),
        "completions_clipped_ratio": ("ppo_actor/no_eos_ratios/avg",),
    },
    defaults={**_ADAM, "group_size": 1, "schedule": "constant"},
)

SLIME = Trainer(
    name="slime",
    label="slime",
    signature=("rollout/raw_reward", "rollout/zero_std/**", "rollout/response_len/mean", "train/lr-pg_0"),
    steps=(("rollout/step", "eval/step"), ("step",), ("_step",)),
    reward=("rollout/raw_reward",),
    evals=("eval/*",),
    signals={
        "entropy": ("train/entropy_loss",),
        "kl": ("train/kl_loss", "train/ppo_kl"),
        "clip_ratio": ("train/pg_clipfrac",),
        "grad_norm": ("train/grad_norm",),
        "completion_length": ("rollout/response_len/mean",),
        "learning_rate": ("train/lr-pg_0",),
        "loss": ("train/pg_loss", "train/loss"),
        "completions_clipped_ratio": ("rollout/truncated_ratio",),
    },
    defaults={**_ADAM, "group_size": 1},
)

MLX = Trainer(
    name="mlx_lm_lora",
    label="mlx-lm-lora",
    signature=("train_total_rewards_mean", "train_grouped_rewards_mean", "train_clip_ratio_total"),
    steps=(("iteration",), ("step",), ("_step",)),
    reward=("train_total_rewards_mean",),
    evals=("val_total_rewards_mean",),
    signals={
        "reward_std": ("train_total_rewards_std",),
        "kl": ("train_kl",),
        "clip_ratio": ("train_clip_ratio_total",),
        "completion_length": ("train_average_generated_tokens",),
        "learning_rate": ("learning_rate",),
        "loss": ("train_loss",),
        "completions_clipped_ratio": ("train_hit_max_tokens_ratio", "hit_max_tokens_ratio"),
    },
    defaults={**_ADAM, "group_size": 4},
    std_kind="total",
)

ART = Trainer(
    name="art",
    label="ART",
    signature=("train/reward_std_dev", "data/step_num_groups*", "loss/kl_policy_ref"),
    steps=(("training_step", "step"), ("_step",)),
    reward=("train/reward",),
    evals=("val/reward", "test/reward"),
    signals={
        "reward_std": ("train/reward_std_dev",),
        "entropy": ("loss/entropy", "train/entropy"),
        "kl": ("loss/kl_div", "loss/kl_policy_ref"),
        "grad_norm": ("loss/grad_norm", "train/grad_norm"),
        "completion_length": ("train/completion_tokens",),
        "learning_rate": ("loss/learning_rate", "train/learning_rate"),
        "loss": ("loss/train", "train/policy_loss"),
    },
    defaults=dict(_ADAM),
    std_kind="within",
)

TINKER = Trainer(
    name="tinker",
    label="Tinker cookbook",
    signature=("progress/done_frac", "progress/batch", "env/all/**", "optim/kl_sample_train_v1"),
    steps=(("step",), ("progress/batch",), ("progress/step",)),
    reward=("env/all/reward/total", "reward/total", "reward/mean", "env/all/reward/mean"),
    evals=(
        "test/env/all/reward/total",
        "test/env/all/correct",
        "test/**/reward/total",
        "eval/**/reward/total",
    ),
    signals={
        "entropy": ("optim/entropy", "policy/entropy"),
        "kl": ("optim/kl_sample_train_v1", "optim/kl_sample_train_v2", "kl_policy_base"),
        "grad_norm": ("optim/grad_norm",),
        "completion_length": ("env/all/ac_tokens_per_turn",),
        "learning_rate": ("optim/lr",),
        "loss": ("optim/loss", "loss"),
        "accuracy": ("env/all/correct",),
        "gold_reward": ("reward/correctness_f", "reward/f"),
    },
    defaults={**_ADAM, "schedule": "constant"},
)

GENERIC = Trainer(
    name="generic",
    label="unknown trainer",
    signature=(),
    steps=(
        ("train/global_step",),
        ("training_step",),
        ("step",),
        ("global_step",),
        ("training/global_step",),
        ("progress/step",),
        ("train_step",),
        ("train/step",),
        ("optimizer_step",),
        ("steps",),
        ("iteration",),
        ("iter",),
        ("update",),
        ("rollout/step",),
        ("_step",),
        ("batch",),
    ),
    reward=(
        "reward",
        "train/reward",
        "train_reward",
        "reward/mean",
        "train/reward/mean",
        "reward_mean",
        "mean_reward",
        "train/reward_mean",
        "train/mean_reward",
        "train_mean_reward",
        "train_reward_mean",
        "avg_reward",
        "reward_avg",
        "average_reward",
        "rewards/mean",
        "rewards_mean",
        "mean_rewards",
        "reward_trace",
        "rewards",
        "score/mean",
        "mean_score",
    ),
    evals=(
        "eval_reward",
        "eval/reward",
        "eval_reward_mean",
        "eval/reward_mean",
        "eval/reward/mean",
        "eval/mean_reward",
        "eval_mean_reward",
        "val_reward",
        "val/reward",
        "validation/reward",
        "validation_reward",
        "test/reward",
        "test_reward",
        "eval_accuracy",
        "eval/accuracy",
        "eval_acc",
        "eval/acc",
        "val_accuracy",
        "val/accuracy",
        "validation/accuracy",
        "test_accuracy",
        "test/accuracy",
        "val-core/**/mean@*",
        "eval/**/reward",
        "eval/**/reward/mean",
        "eval/**/mean_reward",
        "eval/**/accuracy",
        "val/**/reward",
        "val/**/accuracy",
        "test/**/reward",
    ),
    signals={
        "reward_std": (
            "reward_std",
            "reward/std",
            "std_reward",
            "reward_stdev",
            "rewards/std",
            "group_reward_std",
        ),
        "frac_reward_zero_std": ("frac_reward_zero_std", "zvf", "zero_variance_frac", "zero_std_frac"),
        "entropy": (
            "entropy",
            "policy/entropy",
            "mean_entropy",
            "entropy_mean",
            "entropy/mean",
            "optim/entropy",
        ),
        "kl": ("kl", "kl_divergence", "kl_div", "kl_mean", "mean_kl", "kl/mean", "approx_kl", "kl_loss"),
        "clip_ratio": ("clip_ratio", "clip_ratio/region_mean", "clip_frac", "clipfrac", "clip_fraction"),
        "grad_norm": ("grad_norm", "gradient_norm", "optim/grad_norm"),
        "completion_length": (
            "completion_length",
            "completions/mean_length",
            "response_length",
            "response_length/mean",
            "mean_completion_length",
            "mean_response_length",
            "avg_completion_length",
            "avg_response_length",
            "avg_gen_tokens",
            "mean_length",
        ),
        "learning_rate": ("learning_rate", "lr", "optim/lr", "optim/learning_rate"),
        "loss": ("loss", "train_loss", "policy_loss", "pg_loss", "training_loss"),
        "accuracy": ("accuracy", "acc", "train_accuracy", "mean_accuracy", "correct"),
        "completions_clipped_ratio": ("completions_clipped_ratio", "completions/clipped_ratio"),
        "gold_reward": (
            "gold_reward",
            "reward/gold",
            "gold_reward_mean",
            "gold_score",
            "true_reward",
            "reward/correctness_f",
            "reward/f",
        ),
    },
    prefixes=("", "train/"),
    defaults=dict(_ADAM),
)

TRAINERS: tuple[Trainer, ...] = (
    TRL,
    TRL_PPO,
    VERL,
    OPENRLHF,
    PRIME_RL,
    NEMO_RL,
    OPEN_INSTRUCT,
    AREAL,
    SLIME,
    MLX,
    ART,
    TINKER,
)
"""The trainers told apart by their keys; `GENERIC` stands in where none of them fits."""


@dataclass(frozen=True)
class Derived:
    """A signal that a log holds only as a combination of its keys.

    Attributes:
        signal: Canonical name.
        terms: Raw key → weight of the sum.
        constant: Added to the sum.
    """

    signal: str
    terms: Mapping[str, float]
    constant: float = 0.0

    @property
    def text(self) -> str:
        """The combination as one reads it, e.g. "a + b" or "1 - a"."""
        parts = [f"{self.constant:g}"] if self.constant else []
        for key, weight in self.terms.items():
            size = "" if abs(weight) == 1 else f"{abs(weight):g}*"
            parts.append(("- " if weight < 0 else "+ " if parts else "") + size + key)
        return " ".join(parts)


DERIVED: tuple[Derived, ...] = (
    Derived(
        "frac_reward_zero_std",
        MappingProxyType({"env/all/by_group/frac_all_good": 1.0, "env/all/by_group/frac_all_bad": 1.0}),
    ),
    Derived("frac_reward_zero_std", MappingProxyType({"env/all/by_group/frac_mixed": -1.0}), 1.0),
    Derived("frac_reward_zero_std", MappingProxyType({"train/baseline_reward/pct_mixed": -0.01}), 1.0),
    Derived(
        "frac_reward_zero_std",
        MappingProxyType({"train/baseline_reward/pct_0": 0.01, "train/baseline_reward/pct_1": 0.01}),
    ),
)
"""Zero-variance share: groups all right or all wrong have no spread, mixed ones have."""
