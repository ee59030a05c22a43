"""Keys and documented defaults of AReaL."""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
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
    defaults={**ADAM, "schedule": "constant"},
    config={
        "group_size": ("gconfig/n_samples",),
        "prompts_per_step": ("train_dataset/batch_size",),
        "momentum": ("actor/optimizer/beta1",),
        "schedule": ("actor/optimizer/lr_scheduler_type",),
        "total_steps": ("total_train_steps",),
    },
    rank=8,
)
