"""Keys and documented defaults of SkyRL."""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
    name="skyrl",
    label="SkyRL",
    signature=(
        "reward/avg_raw_reward",
        "reward/avg_pass_at_*",
        "generate/avg_num_tokens",
        "policy/policy_entropy",
        "trainer/global_step",
    ),
    steps=(("trainer/global_step",), ("step",), ("_step",)),
    reward=("reward/avg_raw_reward",),
    evals=("eval/all/avg_score", "eval/*/avg_score"),
    signals={
        "entropy": ("policy/policy_entropy",),
        "kl": ("policy/policy_kl",),
        "clip_ratio": ("policy/loss_metrics/clip_ratio", "policy/ppo_clip_ratio"),
        "grad_norm": ("policy/raw_grad_norm", "policy/grad_norm"),
        "completion_length": ("generate/avg_num_tokens",),
        "learning_rate": ("policy/policy_lr",),
        "loss": ("policy/policy_loss", "policy/final_loss"),
        "engine_mismatch": ("policy/rollout_train_logprobs_abs_diff_mean",),
        "staleness": ("async/staleness_mean",),
        "step_time": ("timing/step",),
    },
    defaults=dict(ADAM),
    config={
        "group_size": ("generator/n_samples_per_prompt",),
        "prompts_per_step": ("trainer/train_batch_size",),
        "momentum": ("trainer/policy/optimizer_config/adam_betas/0",),
        "schedule": ("trainer/policy/optimizer_config/scheduler",),
    },
    rank=14,
)
