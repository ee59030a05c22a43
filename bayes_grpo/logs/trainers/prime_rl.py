"""Keys and documented defaults of prime-rl."""

from bayes_grpo.logs.trainer import ADAM, Derived, Trainer

TRAINER = Trainer(
    name="prime_rl",
    label="prime-rl",
    signature=("train/agg/**", "mismatch_kl/all/mean", "entropy/all/mean", "is_masked/**", "off_policy/**"),
    steps=(("step",), ("_step",)),
    reward=(
        "train/agg/all/*/reward/mean",
        "train/agg/effective/*/reward/mean",
        "reward/all/mean",
        "reward/mean",
    ),
    evals=("eval/*/all/*/avg@*", "eval/*/effective/*/avg@*", "eval/**/avg@*"),
    signals={
        "entropy": ("entropy/all/mean", "entropy/mean"),
        "engine_mismatch": ("mismatch_kl/all/mean", "mismatch_kl/mean"),  # trainer against inference, not a reference
        "clip_ratio": ("is_masked/all/mean", "is_masked/mean"),
        "grad_norm": ("optim/grad_norm",),
        "completion_length": (
            "train/agg/all/*/num_output_tokens/mean",
            "train/agg/effective/*/num_output_tokens/mean",
            "seq_len/all/mean",
        ),
        "learning_rate": ("optim/lr",),
        "loss": ("loss/mean", "loss/all/mean"),
        "staleness": ("off_policy/mean",),
        "step_time": ("time/step",),
        "completions_clipped_ratio": ("train/agg/all/*/is_truncated/mean",),
    },
    derived=(
        # Groups all wrong and all right have no spread.
        Derived("frac_reward_zero_std", {"train/agg/all/*/solved_none": 1.0, "train/agg/all/*/solved_all": 1.0}),
    ),
    defaults=dict(ADAM),
    config={
        "group_size": (
            "orchestrator/group_size",
            "group_size",
            "orchestrator/rollouts_per_example",
            "rollouts_per_example",
        ),
        "momentum": ("trainer/optim/betas1", "optim/betas1"),
        "total_steps": ("max_steps", "orchestrator/max_steps"),
        "save_steps": ("ckpt/interval", "trainer/ckpt/interval"),
        "completions_per_step": ("orchestrator/batch_size", "batch_size"),
    },
    rank=5,
)
