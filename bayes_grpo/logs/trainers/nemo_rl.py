"""Keys and documented defaults of NeMo-RL."""

from bayes_grpo.logs.trainer import ADAM, Derived, Trainer

TRAINER = Trainer(
    name="nemo_rl",
    label="NeMo-RL",
    signature=("train/baseline_reward/**", "train/probs_ratio", "train/approx_entropy", "train/gen_kl_error"),
    steps=(("step",), ("_step",)),
    reward=("train/reward",),
    evals=("validation/accuracy", "validation/reward"),
    signals={
        "entropy": ("train/approx_entropy",),
        "kl": ("train/kl_penalty",),
        "engine_mismatch": ("train/gen_kl_error",),
        "grad_norm": ("train/grad_norm",),
        "completion_length": ("train/mean_gen_tokens_per_sample",),
        "learning_rate": ("train/lr",),
        "loss": ("train/loss",),
        "staleness": ("train/avg_trajectory_age",),
        "step_time": ("timing/train/total_step_time",),
    },
    derived=(
        Derived("engine_mismatch", {"train/token_mult_prob_error": 1.0}, -1.0),  # a ratio: 1 where the engines agree
        # Shares in per cent of groups all wrong, all right, and mixed.
        Derived("frac_reward_zero_std", {"train/baseline_reward/pct_mixed": -0.01}, 1.0),
        Derived("frac_reward_zero_std", {"train/baseline_reward/pct_0": 0.01, "train/baseline_reward/pct_1": 0.01}),
    ),
    defaults={**ADAM, "group_size": 16, "prompts_per_step": 32, "schedule": "constant"},
    config={
        "group_size": ("grpo/num_generations_per_prompt",),
        "prompts_per_step": ("grpo/num_prompts_per_step",),
        "momentum": ("policy/optimizer/kwargs/betas/0", "policy/megatron_cfg/optimizer/adam_beta1"),
        "total_steps": ("grpo/max_num_steps",),
        "save_steps": ("checkpointing/save_period",),
    },
    rank=6,
)
