"""Keys and documented defaults of OpenRLHF."""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
    name="openrlhf",
    label="OpenRLHF",
    signature=("train/group_reward_std", "train/actor_lr", "train/actor_grad_norm", "train/ppo_clip_ratio"),
    steps=(("train/global_step", "eval/global_step"), ("step",)),
    reward=("train/reward",),
    evals=("eval/*pass1", "eval/*pass*"),
    signals={
        "reward_std": ("train/group_reward_std",),
        "entropy": ("train/entropy_loss",),
        "kl": ("train/kl",),
        "clip_ratio": ("train/ppo_clip_ratio",),
        "grad_norm": ("train/actor_grad_norm",),
        "completion_length": ("train/response_length",),
        "learning_rate": ("train/actor_lr",),
        "engine_mismatch": ("train/logprobs_diff",),
        "completions_clipped_ratio": ("train/truncated",),
        "loss": ("train/policy_loss", "train/act_loss"),
    },
    defaults={**ADAM, "prompts_per_step": 1024, "schedule": "cosine"},
    std_kind="within",
    config={
        "group_size": ("rollout/n_samples_per_prompt", "n_samples_per_prompt"),
        "prompts_per_step": ("rollout/batch_size", "rollout_batch_size"),
        "momentum": ("actor/adam/betas/0", "actor/adam_betas/0", "adam_betas/0"),
        "schedule": ("actor/lr_scheduler", "lr_scheduler"),
    },
    rank=4,
)
