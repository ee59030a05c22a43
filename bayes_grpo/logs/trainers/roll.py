"""Keys of ROLL, which shares some with verl. "@sum" and the like tell how its workers' values are joined."""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
    name="roll",
    label="ROLL",
    signature=(
        "val_correct/**",
        "critic/entropy/mean",
        "token*/response_length/mean",
        "actor/ppo_ratio_clipfrac*",
        "actor_train/**",
        "critic/score/mean",
        "critic/rewards/mean",
        "actor/**",
    ),
    steps=(("step",), ("_step",)),
    reward=("critic/score/mean", "critic/rewards/mean"),
    evals=("val_correct/all/mean", "val_correct/*/mean"),
    signals={
        "entropy": ("critic/entropy/mean", "actor/entropy_mean"),
        "kl": ("actor/kl_loss*", "critic/kl", "actor/policykl*", "actor/approxkl*"),
        "clip_ratio": ("actor/ppo_ratio_clipfrac*",),
        "grad_norm": ("actor_train/grad_norm", "actor/grad_norm"),
        "completion_length": ("tokens/response_length/mean", "token/response_length/mean"),
        "learning_rate": ("actor/lr*",),
        "loss": ("actor/pg_loss*", "actor/total_loss*"),
    },
    defaults=dict(ADAM),
    config={
        "group_size": ("num_return_sequences_in_group",),
        "prompts_per_step": ("rollout_batch_size",),
        "total_steps": ("max_steps",),
    },
    rank=16,
)
