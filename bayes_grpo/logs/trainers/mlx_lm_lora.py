"""Keys and documented defaults of mlx-lm-lora."""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
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
    defaults={**ADAM, "group_size": 4},
    std_kind="total",
    config={"group_size": ("group_size",), "prompts_per_step": ("batch_size",), "total_steps": ("iters",)},
    rank=10,
)
