"""ms-swift's GRPO trainer: TRL's keys, with the step as text and entropy under a name of its own."""

from dataclasses import replace

from bayes_grpo.logs.progress import STEP_OF_STEPS
from bayes_grpo.logs.trainers.trl import TRAINER as TRL

TRAINER = replace(
    TRL,
    name="ms_swift",
    label="ms-swift",
    signature=(STEP_OF_STEPS, "entropy/mean", *TRL.signature),
    steps=((STEP_OF_STEPS, "iteration"), *TRL.steps),
    signals={
        **TRL.signals,
        "entropy": ("entropy/mean", "entropy"),
        "clip_ratio": (*TRL.signals["clip_ratio"], "cispo_clip_ratio"),
    },
    rank=13,
)
