"""Keys of EasyR1, a fork of verl with names of its own for clipping and held-out rewards."""

from bayes_grpo.logs.trainer import ADAM, Derived, Trainer

TRAINER = Trainer(
    name="easyr1",
    label="EasyR1",
    signature=(
        "val/reward_score",
        "actor/pg_clipfrac_higher",
        "actor/pg_clipfrac_lower",
        "reward/overall",
        "critic/score/mean",
        "critic/rewards/mean",
        "actor/**",
    ),
    steps=(("step",), ("_step",)),
    reward=("critic/score/mean", "critic/rewards/mean", "reward/overall"),
    evals=("val/reward_score", "val/overall_reward"),
    signals={
        "entropy": ("actor/entropy_loss", "actor/entropy"),
        "kl": ("actor/kl_loss", "critic/kl"),
        "grad_norm": ("actor/grad_norm",),
        "completion_length": ("response_length/mean",),
        "learning_rate": ("actor/lr",),
        "loss": ("actor/pg_loss",),
        "step_time": (
            "perf/time_per_step",
            "timing_s/step",
        ),
        "completions_clipped_ratio": ("response_length/clip_ratio",),
    },
    derived=(
        # A token is clipped above or below, never both.
        Derived("clip_ratio", {"actor/pg_clipfrac_higher": 1.0, "actor/pg_clipfrac_lower": 1.0}),
    ),
    defaults={**ADAM, "schedule": "constant"},
    config={
        "group_size": ("worker/rollout/n",),
        "prompts_per_step": ("data/rollout_batch_size",),
        "momentum": ("worker/actor/optim/betas/0",),
        "schedule": ("worker/actor/optim/lr_scheduler_type",),
        "total_steps": ("trainer/max_steps",),
        "save_steps": ("trainer/save_freq",),
    },
    rank=15,
)
