"""Which trainer wrote a log, by the keys that only it writes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from bayes_grpo.common.modules import modules_in
from bayes_grpo.logs import trainers
from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.trainer import Trainer
from bayes_grpo.logs.trainers.generic import TRAINER as GENERIC


def all_trainers() -> tuple[Trainer, ...]:
    """Every trainer found in the package `bayes_grpo.logs.trainers`, by rank and name."""
    return _trainers_in(tuple(trainers.__path__))


@cache
def _trainers_in(path: tuple[str, ...]) -> tuple[Trainer, ...]:
    """The trainers, looked for once for each search path of the package."""
    found = [module.TRAINER for module in modules_in(trainers, "TRAINER")]
    return tuple(sorted(found, key=lambda t: (t.rank, t.name)))


def identify(index: KeyIndex, known: Sequence[Trainer] | None = None) -> Trainer:
    """The trainer with most of its signature keys present; `GENERIC` where none has any.

    Args:
        index: Keys of the log.
        known: Trainers to choose from, in any order; all by default.
    """

    def order(trainer: Trainer) -> tuple[int, int, str]:
        present = sum(bool(index.find([key], trainer.prefixes)) for key in trainer.signature)
        return -present, trainer.rank, trainer.name

    best = min(all_trainers() if known is None else known, key=order)
    return GENERIC if order(best)[0] == 0 else best
