"""Keys and documented defaults of MiniMind."""

from bayes_grpo.logs.trainer import ADAM, Trainer

TRAINER = Trainer(
    name="minimind",
    label="MiniMind",
    signature=("kl_ref", "adv_std", "actor_loss"),
    steps=(("step",),),
    reward=("reward",),
    signals={
        "kl": ("kl_ref",),
        "completion_length": ("avg_response_len", "avg_len"),
        "learning_rate": ("learning_rate", "lr"),
        "loss": ("actor_loss",),
        "accuracy": ("correct",),
    },
    defaults=dict(ADAM),
    rank=17,
)
