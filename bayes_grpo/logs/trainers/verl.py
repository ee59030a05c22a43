"""Keys and documented defaults of verl."""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
    name="verl",
    label="verl",
    signature=("critic/score/mean", "critic/rewards/mean", "actor/**", "val-core/**", "training/global_step"),
    steps=(("training/global_step", "step"), ("step",), ("_step",)),
    reward=("critic/score/mean", "critic/rewards/mean"),
    evals=("val-core/**/mean@*", "val-core/**", "val/test_score/**", "val/**"),
    signals={
        "entropy": ("actor/entropy", "actor/entropy_loss"),
        "kl": ("actor/kl_loss", "actor/reward_kl_penalty", "critic/kl"),
        "clip_ratio": ("actor/pg_clipfrac",),
        "grad_norm": ("actor/grad_norm",),
        "completion_length": ("response_length/mean", "response_length_non_aborted/mean"),
        "learning_rate": ("actor/lr", "actor/lr(1e-4)"),
        "loss": ("actor/pg_loss", "actor/loss"),
        "engine_mismatch": ("training/rollout_probs_diff_mean", "rollout_corr/log_ppl_abs_diff"),
        "staleness": ("training/off_policy/trajectory_staleness/mean",),
        "step_time": (
            "perf/time_per_step",
            "timing_s/step",
        ),
        "completions_clipped_ratio": ("response_length/clip_ratio",),
    },
    defaults={**ADAM, "prompts_per_step": 1024, "schedule": "constant"},
    config={
        "group_size": ("actor_rollout_ref/rollout/n",),
        "prompts_per_step": ("data/train_batch_size",),
        "momentum": ("actor_rollout_ref/actor/optim/betas/0",),
        "schedule": ("actor_rollout_ref/actor/optim/lr_scheduler_type", "actor_rollout_ref/actor/optim/warmup_style"),
        "total_steps": ("trainer/total_training_steps", "actor_rollout_ref/actor/optim/total_training_steps"),
        "save_steps": ("trainer/save_freq",),
    },
    rank=3,
)
