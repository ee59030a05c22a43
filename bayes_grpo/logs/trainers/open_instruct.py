"""Keys and documented defaults of open-instruct."""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
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
    defaults={**ADAM, "group_size": 4, "prompts_per_step": 16},
    config={
        "group_size": ("num_samples_per_prompt_rollout",),
        "prompts_per_step": ("num_unique_prompts_rollout",),
        "schedule": ("lr_scheduler_type",),
        "total_steps": ("num_training_steps",),
    },
    rank=7,
)
