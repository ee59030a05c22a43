"""TRL's GRPOTrainer and what shares its keys.

Weights & Biases, Trackio and SwanLab put ``train/`` before TRL's names: they are listed once, looked up both ways.
"""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
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
        "engine_mismatch": ("sampling/sampling_logp_difference/mean",),
        "staleness": ("sample/staleness_mean",),
        "step_time": ("step_time",),
        "accuracy": ("accuracy",),
        "completions_clipped_ratio": ("completions/clipped_ratio",),
    },
    prefixes=("", "train/"),
    defaults={**ADAM, "group_size": 8, "schedule": "linear"},
    rows_without_rollout=True,
    rank=1,
)
