"""Keys and documented defaults of the Tinker cookbook."""

from bayes_grpo.logs.trainer import ADAM, Derived, Trainer

TRAINER = Trainer(
    name="tinker",
    label="Tinker cookbook",
    signature=("progress/done_frac", "progress/batch", "env/all/**", "optim/kl_sample_train_v1"),
    steps=(("step",), ("progress/batch",), ("progress/step",)),
    reward=("env/all/reward/total", "reward/total", "reward/mean", "env/all/reward/mean"),
    evals=(
        "test/env/all/reward/total",
        "test/env/all/correct",
        "test/**/reward/total",
        "eval/**/reward/total",
    ),
    signals={
        "entropy": ("optim/entropy", "policy/entropy"),
        "kl": ("optim/kl_sample_train_v1", "optim/kl_sample_train_v2", "kl_policy_base"),
        "grad_norm": ("optim/grad_norm",),
        "completion_length": ("env/all/ac_tokens_per_turn", "env/all/ac_tokens_per_trajectory"),
        "learning_rate": ("optim/lr",),
        "loss": ("optim/loss", "loss"),
        "staleness": ("async/staleness_mean",),
        "total_cost": ("eval/snapshot/cumulative_cost_usd",),
        "accuracy": ("env/all/correct",),
        "gold_reward": ("reward/correctness_f", "reward/f"),
    },
    derived=(
        # Groups all right or all wrong have no spread, mixed ones have.
        Derived(
            "frac_reward_zero_std",
            {"env/all/by_group/frac_all_good": 1.0, "env/all/by_group/frac_all_bad": 1.0},
            zero_says_nothing=True,  # with remove_constant_reward_groups, the recipes' default
        ),
        Derived("frac_reward_zero_std", {"env/all/by_group/frac_mixed": -1.0}, 1.0, zero_says_nothing=True),
    ),
    defaults={**ADAM, "schedule": "constant"},
    config={
        "group_size": ("dataset_builder/group_size", "group_size"),
        "prompts_per_step": ("dataset_builder/batch_size", "groups_per_batch"),
    },
    rank=12,
)
