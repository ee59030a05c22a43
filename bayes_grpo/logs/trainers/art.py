"""Keys and documented defaults of ART."""

from bayes_grpo.logs.trainer import ADAM, Derived, Trainer

TRAINER = Trainer(
    name="art",
    label="ART",
    signature=("train/reward_std_dev", "data/step_num_groups*", "loss/kl_policy_ref"),
    steps=(("training_step", "step"), ("_step",)),
    reward=("train/reward",),
    evals=("val/reward", "test/reward"),
    signals={
        "reward_std": ("train/reward_std_dev",),
        "entropy": ("loss/entropy", "train/entropy"),
        "kl": ("loss/kl_div", "loss/kl_policy_ref"),
        "grad_norm": ("loss/grad_norm", "train/grad_norm"),
        "completion_length": ("train/completion_tokens",),
        "learning_rate": ("loss/learning_rate", "train/learning_rate"),
        "loss": ("loss/train", "train/policy_loss"),
        "step_time": ("time/step_wall_s",),
        "step_cost": ("costs/all",),
        "total_cost": ("costs/cum/all",),
    },
    derived=(
        # A group without spread cannot be trained on.
        Derived(
            "frac_reward_zero_std",
            {"data/step_num_groups_trainable": -1.0},
            1.0,
            over="data/step_num_groups_submitted",
        ),
    ),
    defaults=dict(ADAM),
    std_kind="within",
    rank=11,
)
