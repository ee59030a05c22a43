"""TRL's PPO and RLOO trainers, whose keys differ from GRPO's."""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
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
    defaults={**ADAM, "schedule": "linear"},
    rank=2,
)
