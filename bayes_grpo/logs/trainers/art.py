"""Keys and documented defaults of ART."""

from bayes_grpo.logs.trainer import ADAM, Trainer

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
    },
    defaults=dict(ADAM),
    std_kind="within",
    rank=11,
)
