"""`BayesGRPOCallback`: forecasts, probabilities and advice in the log of a training by TRL, unsloth or ms-swift.

    from bayes_grpo.trl import BayesGRPOCallback
    BayesGRPOCallback(until=1000).attach(trainer)

It is for every trainer that is built on transformers' own. Importing it needs transformers and brings no JAX.
"""

from __future__ import annotations

from bayes_grpo.common.errors import MissingExtraError
from bayes_grpo.training.callback import StopRule, Watcher

try:
    from transformers import TrainerCallback  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise MissingExtraError(
        f"bayes_grpo.trl: expected transformers, which trl, unsloth and ms-swift bring, could not import it ({error}); "
        "install one of them, or use bayes_grpo.Monitor in a loop of your own"
    ) from error

__all__ = ["BayesGRPOCallback", "StopRule"]


class BayesGRPOCallback(Watcher, TrainerCallback):
    """A callback of transformers' Trainer; `bayes_grpo.training.callback.Watcher` says what it takes and does.

    A process of its own follows the rows of the training. About every ten seconds it says what is to be thought of
    them, in entries ``bayes_grpo/…`` of the trainer's own log: reward now and at the horizon with the ends of its 90%
    interval, probabilities of more gain, of a peak and of every answer of the diagnosis, alarms, the step to stop at.
    W&B, Trackio, TensorBoard and ``trainer_state.json`` get them with the row. With ``stop`` it ends the training.
    """
