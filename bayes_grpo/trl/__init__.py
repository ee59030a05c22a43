"""`BayesGRPOCallback`: forecasts, probabilities and advice in the log of TRL, unsloth or ms-swift.

    from bayes_grpo.trl import BayesGRPOCallback, CurvatureProbe
    BayesGRPOCallback(horizon=1000).attach(trainer)
    CurvatureProbe(every=25).attach(trainer)

The first is for every trainer that is built on transformers' own, the second for TRL's `GRPOTrainer`. Importing them
needs transformers and brings no JAX.
"""

from __future__ import annotations

from pathlib import Path

from bayes_grpo.common.errors import MissingExtraError
from bayes_grpo.probing.operator import STEP
from bayes_grpo.training.callback import StopRule, Watcher
from bayes_grpo.training.curvature import CurvatureWatcher
from bayes_grpo.training.trl_updates import opened_trainer, refusal

try:
    from transformers import TrainerCallback  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise MissingExtraError(
        f"bayes_grpo.trl: expected transformers, which trl, unsloth and ms-swift bring, could not import it ({error}); "
        "install one of them, or write a log and follow it: bayes-grpo watch LOG"
    ) from error

__all__ = ["BayesGRPOCallback", "CurvatureProbe", "StopRule"]


class BayesGRPOCallback(Watcher, TrainerCallback):
    """A callback of transformers' Trainer, with the arguments of `bayes_grpo.training.callback.Watcher`.

    A process of its own follows the rows of the training. About every ten seconds it writes entries ``bayes_grpo/…``
    into the trainer's log: reward now and at the horizon with 90% intervals, probabilities of more gain, of a peak and
    of every answer of the diagnosis, alarms, the step to stop at. W&B, Trackio, TensorBoard and ``trainer_state.json``
    get them with the row. With ``stop`` it ends the training.
    """


class CurvatureProbe(CurvatureWatcher, TrainerCallback):
    """Measures the stiffness of the update in a training by TRL's `GRPOTrainer`, full or with LoRA.

    Every so many steps, on the batch just used, with two to four extra gradients; the direction is kept from probe to
    probe. Entries ``curvature/…`` go into the trainer's log: the stiffness with its interval, the margin to the exact
    threshold at the present learning rate, the probability of being stable. The probes are kept in ``probe.json``,
    which ``bayes-grpo plan --probe`` reads. Parameters and random states are put back bit for bit.

    Args:
        every: Optimizer steps between two probes.
        parts: Pieces of a micro-batch, from which the error follows; at least 4.
        path: File of the probes in the trainer's output directory; None for none.
        length: Length of the shifts of the parameters.

    Raises:
        SettingError: An impossible number.
    """

    def __init__(
        self, *, every: int = 25, parts: int = 8, path: str | Path | None = "probe.json", length: float = STEP
    ) -> None:
        super().__init__(every=every, parts=parts, path=path, length=length, opened=opened_trainer, refused=refusal)
