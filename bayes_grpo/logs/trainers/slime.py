"""Keys and documented defaults of slime."""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
    name="slime",
    label="slime",
    signature=("rollout/raw_reward", "rollout/zero_std/**", "rollout/response_len/mean", "train/lr-pg_0"),
    steps=(("train/step",), ("rollout/step", "eval/step"), ("step",), ("_step",)),
    rollouts=("rollout/step", "eval/step"),
    reward=("rollout/raw_reward",),
    evals=("eval/*",),
    signals={
        "entropy": ("train/entropy_loss", "rollout/entropy"),
        "kl": ("train/kl_loss",),
        "clip_ratio": ("train/pg_clipfrac",),
        "grad_norm": ("train/grad_norm",),
        "completion_length": ("rollout/response_len/mean",),
        "learning_rate": ("train/lr-pg_0",),
        "loss": ("train/pg_loss", "train/loss"),
        "engine_mismatch": ("train/train_rollout_logprob_abs_diff",),
        "step_time": ("perf/step_time",),
        "completions_clipped_ratio": ("rollout/truncated_ratio",),
    },
    rows_without_rollout=True,
    defaults=dict(ADAM),
    config={
        "group_size": ("n_samples_per_prompt",),
        "momentum": ("adam_beta1",),
        "schedule": ("lr_decay_style",),
        "completions_per_step": ("global_batch_size",),
    },
    axes=("train", "rollout", "eval"),
    rank=9,
)
